package connectortest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/play"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog/codec"
)

// Play plays every sequence (*.json) in a folder through the connector and
// compares what came of it with what the file states. A folder without any fails.
func Play(t *testing.T, k connector.Connector, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no sequences in %s (%v)", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			c := Load(t, file)
			got, err := play.Run(t.Context(), c, k, domain.NewJudge(lifecycle.Registry()))
			if err != nil {
				t.Fatal(err)
			}
			faults := Compare(c, got)
			for _, f := range faults {
				t.Error(f)
			}
			if len(faults) > 0 {
				t.Logf("%s\n%s", c.About, history(got))
			}
		})
	}
}

// Load reads a sequence.
func Load(t testing.TB, file string) *play.Case {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := play.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return c
}

// history is what was appended, for people, and what was not mapped.
func history(r *play.Result) string {
	var b strings.Builder
	for _, e := range r.Stored {
		fmt.Fprintf(&b, "  %s  [id %s, source %s, epoch %d]\n", domain.LogLine(e), e.ID, e.Source, e.Epoch)
	}
	for _, s := range r.Stats {
		fmt.Fprintf(&b, "  %+v\n", s)
	}
	for name, samples := range r.Samples {
		for _, s := range samples {
			fmt.Fprintf(&b, "  unmapped at %s: %s %v\n", name, s.What, s.Kept)
		}
	}
	return b.String()
}

// faults collects what is not as stated.
type faults []string

func (f *faults) same(what string, want, got any) {
	if !reflect.DeepEqual(want, got) {
		w, _ := json.Marshal(want)
		g, _ := json.Marshal(got)
		*f = append(*f, fmt.Sprintf("%s: want %s, got %s", what, w, g))
	}
}

// Compare says what of a result is not as its sequence states.
func Compare(c *play.Case, got *play.Result) []string {
	var f faults
	want := &c.Expect
	f.same("http", want.HTTP, got.HTTP)
	f.same("accounts", slices.Sorted(maps.Keys(want.Accounts)), slices.Sorted(maps.Keys(got.Accounts)))
	for id, w := range want.Accounts {
		if g, ok := got.Accounts[id]; ok {
			f.account(id, &w, &g)
		}
	}
	if want.NoNewEvents != nil {
		f.same("no_new_events", want.NoNewEvents, got.NoNewEvents)
	}
	if want.Unmapped != nil {
		f.same("unmapped", *want.Unmapped, got.Unmapped)
	}
	if want.Ignored != nil {
		f.same("ignored", *want.Ignored, got.Ignored)
	}
	for i, body := range want.Bodies {
		f.same("body of answer "+i, body, got.Bodies[i])
	}
	for i, headers := range want.ResponseHeaders {
		for name, value := range headers {
			f.same("header "+name+" of answer "+i, value, header(got.ResponseHeaders[i], name))
		}
	}
	for _, secret := range want.SecretsAbsent {
		for _, e := range got.Stored {
			if where := Leaks(e, secret); where != "" {
				f = append(f, fmt.Sprintf("the secret %q is in %s of %s", secret, where, domain.LogLine(e)))
			}
		}
	}
	return f
}

func header(all map[string]string, name string) string {
	for n, v := range all {
		if strings.EqualFold(n, name) {
			return v
		}
	}
	return ""
}

func (f *faults) account(id string, want *play.ExpectAccount, got *play.Account) {
	f.same(id+": state", want.State, got.State)
	f.same(id+": trail", orEmpty(want.Trail), orEmpty(got.Trail))
	attention := slices.Sorted(slices.Values(got.Attention))
	f.same(id+": attention", orEmpty(slices.Sorted(slices.Values(want.Attention))), orEmpty(attention))
	messages, conversations := map[string]string{}, map[string]string{}
	for key, m := range got.Messages {
		messages[key] = m.State
	}
	for key, c := range got.Conversations {
		conversations[key] = c.State
	}
	f.same(id+": messages", orNone(want.Messages), messages)
	f.same(id+": conversations", orNone(want.Conversations), conversations)
	f.conditions(id, want.Conditions, got.Conditions)
}

// conditions compares the two sets: each wanted one with another that stands.
func (f *faults) conditions(id string, want []map[string]string, got []domain.ConditionView) {
	left := slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(left, func(c domain.ConditionView) bool { return stands(w, &c) })
		if i < 0 {
			*f = append(*f, fmt.Sprintf("%s: condition %v does not stand; there are %+v", id, w, got))
			return
		}
		left = slices.Delete(left, i, i+1)
	}
	if len(left) > 0 {
		*f = append(*f, fmt.Sprintf("%s: conditions that are not stated: %+v", id, left))
	}
}

func stands(want map[string]string, c *domain.ConditionView) bool {
	for key, value := range want {
		ok := false
		switch key {
		case "name":
			ok = c.Name == value
		case "scope":
			ok = c.Scope == value
		case "reason":
			ok = c.Reason == value
		case "until":
			ok = sameTime(c.Until, value)
		case "since":
			ok = sameTime(c.Since, value)
		}
		if !ok {
			return false
		}
	}
	return true
}

func sameTime(a, b string) bool {
	x, errX := time.Parse(time.RFC3339Nano, a)
	y, errY := time.Parse(time.RFC3339Nano, b)
	return a == b || errX == nil && errY == nil && x.Equal(y)
}

// Leaks says where a stored event holds a secret, "" when it does not: as it is,
// or written in hex, base64 or as a JSON text.
func Leaks(e *domain.Event, secret string) string {
	record, err := codec.Encode(e)
	if err != nil {
		return "an event that cannot be encoded"
	}
	return LeaksIn(record, secret)
}

// LeaksIn says in which form bytes hold a secret, "" when they do not.
func LeaksIn(text []byte, secret string) string {
	quoted := strconv.QuoteToASCII(secret)
	forms := map[string]string{
		"plain text": secret, "escaped text": quoted[1 : len(quoted)-1], "hex": hex.EncodeToString([]byte(secret)),
		"base64": base64.RawStdEncoding.EncodeToString([]byte(secret)), "base64 for addresses": base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	for name, form := range forms {
		if bytes.Contains(text, []byte(form)) {
			return name
		}
	}
	return ""
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func orNone(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
