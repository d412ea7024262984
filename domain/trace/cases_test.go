package trace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/trace"
)

// TestCases judges every trace of testdata/cases (NAME.jsonl) and compares what
// came out with what is expected (NAME.expect.json): a part of the answer, in
// which conditions and attention are exact sets, null means absent, and two
// times are equal when they name the same instant.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.expect.json")
	if err != nil || len(files) < 80 {
		t.Fatalf("%d cases found (%v), want all of them", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".expect.json")
		t.Run(name, func(t *testing.T) {
			var want map[string]any
			decode(t, read(t, file), &want)
			got := judged(t, strings.TrimSuffix(file, ".expect.json")+".jsonl", want["args"])
			if fault := compare(want, got); fault != "" {
				t.Errorf("%s\n  in: %s", want["about"], fault)
			}
		})
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t *testing.T, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// judged runs a trace with its arguments and gives the answer as plain JSON.
func judged(t *testing.T, file string, args any) map[string]any {
	t.Helper()
	opts := trace.Options{Machines: lifecycle.Registry()}
	list, _ := args.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		switch value := list[i+1].(string); list[i] {
		case "--until":
			until, err := time.Parse(time.RFC3339Nano, value)
			if err != nil {
				t.Fatal(err)
			}
			opts.Until, opts.HasUntil = until.UnixNano(), true
		case "--machine":
			opts.Defaults = append(opts.Defaults, value)
		case "--mode":
			opts.Mode = value
		default:
			t.Fatalf("argument %v", list[i])
		}
	}
	result, err := trace.Run(bytes.NewReader(read(t, file)), opts)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	decode(t, b, &got)
	return got
}

// compare gives the first difference, "" when there is none.
func compare(want, got map[string]any) string {
	rows, _ := got["verdicts"].([]any)
	for line, verdict := range object(want["verdicts"]) {
		var found []any
		for _, row := range rows {
			if number, _ := object(row)["line"].(float64); strconv.Itoa(int(number)) == line {
				found = append(found, row)
			}
		}
		if len(found) != 1 {
			return fmt.Sprintf("line %s: want one verdict, got %d", line, len(found))
		}
		if d := part(verdict, found[0], "line "+line); d != "" {
			return d
		}
	}
	for account, triggers := range object(want["own"]) {
		mine := []any{}
		for _, row := range rows {
			if r := object(row); r["line"] == 0.0 && r["account"] == account {
				mine = append(mine, r["trigger"])
			}
		}
		if !reflect.DeepEqual(mine, triggers) {
			return differ("own of "+account, triggers, mine)
		}
	}
	for _, key := range []string{"accounts", "counts"} {
		if w, ok := want[key]; ok {
			if d := part(w, got[key], key); d != "" {
				return d
			}
		}
	}
	return ""
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func differ(path string, want, got any) string {
	w, _ := json.Marshal(want)
	g, _ := json.Marshal(got)
	return fmt.Sprintf("%s: want %s, got %s", path, w, g)
}

// part gives the first place where want is not contained in got.
func part(want, got any, path string) string {
	w, isObject := want.(map[string]any)
	if !isObject {
		if sameInstant(want, got) || reflect.DeepEqual(want, got) {
			return ""
		}
		return differ(path, want, got)
	}
	g, ok := got.(map[string]any)
	if !ok {
		return differ(path, want, got)
	}
	for key, value := range w {
		if d := field(key, value, g, path+"."+key); d != "" {
			return d
		}
	}
	return ""
}

func field(key string, want any, got map[string]any, path string) string {
	value, there := got[key]
	switch {
	case want == nil:
		if value != nil {
			return differ(path, nil, value)
		}
		return ""
	case !there:
		if want == false || want == 0.0 || want == "" {
			return ""
		}
		return path + ": it is missing"
	case key == "conditions":
		return conditions(want.([]any), value, path)
	case key == "attention":
		if names(want) != names(value) {
			return differ(path, want, value)
		}
		return ""
	default:
		return part(want, value, path)
	}
}

func conditions(want []any, got any, path string) string {
	if names(want) != names(got) {
		return differ(path, want, got)
	}
	for _, w := range want {
		if _, isObject := w.(map[string]any); !isObject {
			continue
		}
		found := false
		for _, g := range got.([]any) {
			found = found || part(w, g, path) == ""
		}
		if !found {
			return differ(path, w, got)
		}
	}
	return ""
}

// names gives the set of the names in a list of names or of named objects.
func names(v any) string {
	set := map[string]bool{}
	list, _ := v.([]any)
	for _, one := range list {
		if m, isObject := one.(map[string]any); isObject {
			one = m["name"]
		}
		set[fmt.Sprint(one)] = true
	}
	sorted := make([]string, 0, len(set))
	for name := range set {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	return strings.Join(sorted, " ")
}

func sameInstant(want, got any) bool {
	a, okA := instant(want)
	b, okB := instant(got)
	return okA && okB && math.Abs(a.Sub(b).Seconds()) < 0.001
}

func instant(v any) (time.Time, bool) {
	s, _ := v.(string)
	at, err := time.Parse(time.RFC3339Nano, s)
	return at, err == nil
}
