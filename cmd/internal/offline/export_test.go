package offline

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/trace"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/codec"
)

// exported is what Export writes.
func exported(t *testing.T, h History, format string, f Filter) (string, int64) {
	t.Helper()
	var b bytes.Buffer
	sink, err := NewSink(format, &b)
	if err != nil {
		t.Fatal(err)
	}
	n, err := Export(t.Context(), h, f, sink)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), n
}

// cases are recorded sequences, each a file of trace lines.
func cases(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../domain/trace/testdata/cases/*.jsonl")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	return files
}

// TestExportIsTakenBack exports each recorded sequence as trace lines, and judges
// those again: the same events come of it, byte for byte.
func TestExportIsTakenBack(t *testing.T) {
	for _, path := range cases(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, defaults := range [][]string{nil, {"whatsapp@1"}} {
			first, err := trace.Run(bytes.NewReader(text), trace.Options{Machines: machines(t), Defaults: defaults})
			if err != nil {
				t.Fatal(err)
			}
			if len(first.Events) == 0 || len(defaults) > 0 && strings.Contains(string(text), "message_") {
				continue // the machine of messages is no part of a history
			}
			a := written(t, 3, first.Events)
			lines, _ := exported(t, a, "jsonl", Filter{})
			again, err := trace.Run(strings.NewReader(lines), trace.Options{Machines: machines(t)})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := perAccount(t, again.Events), perAccount(t, first.Events); again.Digest != first.Digest || !reflect.DeepEqual(got, want) {
				t.Errorf("%s %v: judged again, what was exported gives another history:\n%s", filepath.Base(path), defaults, lines)
			}
		}
	}
}

// perAccount are the records of each account, without what chains them.
func perAccount(t *testing.T, events []*domain.Event) map[domain.AccountID][]string {
	t.Helper()
	out := map[domain.AccountID][]string{}
	for _, e := range events {
		plain := *e
		plain.Prev = [16]byte{}
		b, err := codec.Encode(&plain)
		if err != nil {
			t.Fatal(err)
		}
		out[e.Account] = append(out[e.Account], string(b))
	}
	return out
}

// TestExportAsSaid leaves to the clock what the clock can make again, for a trace
// without heartbeats.
func TestExportAsSaid(t *testing.T) {
	n := 0
	for _, path := range cases(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		first := judged(t, string(text))
		if len(first.Events) == 0 || bytes.Contains(text, []byte(`"heartbeat"`)) {
			continue
		}
		n++
		lines, _ := exported(t, written(t, 3, first.Events), "said", Filter{})
		until := first.Events[len(first.Events)-1].Recorded // the deadlines at the end
		again, err := trace.Run(strings.NewReader(lines), trace.Options{Machines: machines(t), Until: until, HasUntil: true})
		if err != nil || again.Digest != first.Digest || strings.Contains(lines, `"recorded"`) {
			t.Errorf("%s: judged again (%v), what was said gives another state:\n%s", filepath.Base(path), err, lines)
		}
	}
	if n < 50 {
		t.Errorf("only %d cases were compared", n)
	}
}

// TestExportIsInOrder merges partitions by the times of recording.
func TestExportIsInOrder(t *testing.T) {
	a := simulated(t, 4, 40, 6000)
	var last int64
	n, err := Export(t.Context(), a, Filter{}, sinkFunc(func(x *Exported) error {
		if x.Recorded < last {
			return fmt.Errorf("sequence %d of partition %d comes too late", x.Sequence, x.Partition)
		}
		last = x.Recorded
		return nil
	}))
	if err != nil || n != 6000 {
		t.Errorf("%d events, %v; want 6000", n, err)
	}
}

type sinkFunc func(*Exported) error

func (f sinkFunc) Add(x *Exported) error { return f(x) }
func (f sinkFunc) Close() error          { return nil }

// labelled is a small history of three accounts.
func labelled(t *testing.T) *archive.Archive {
	t.Helper()
	return written(t, 2, judged(t, `{"account":"a","trigger":"start","by":"user","at":"2026-01-05T10:00:00Z","labels":{"pool":"eu"},"id":"1","source":"cli"}
{"account":"b","trigger":"login_started","at":"2026-01-05T10:00:01Z","machine":"wecom@1","labels":{"pool":"us"}}
{"account":"a","trigger":"qr_scanned","at":"2026-01-05T10:00:02Z","reason":{"code":"515","text":"a \"word\", or two"}}
{"account":"a","trigger":"message_sent","key":"m-1","at":"2026-01-05T10:00:03Z","data":{"reply_within":60}}
{"account":"a","trigger":"set_labels","at":"2026-01-05T10:00:04Z","data":{"labels":{"pool":"us"}}}
{"account":"a","trigger":"customer_message","key":"c-1","at":"2026-01-05T10:00:05Z","data":{"message":"q-1"}}
{"account":"a","trigger":"message_read","key":"m-1","at":"2026-01-05T10:02:00Z"}
{"account":"b","trigger":"start","at":"2026-01-05T10:02:01Z"}
`).Events)
}

func TestExportFilters(t *testing.T) {
	a := labelled(t)
	at := func(s int64) int64 { return 1_767_607_200_000_000_000 + s*1e9 }
	for name, c := range map[string]struct {
		f    Filter
		want []string
	}{
		"all":     {Filter{}, []string{"a start", "b login_started", "a qr_scanned", "a message_sent", "a set_labels", "a customer_message", "a message_timed_out", "a message_read", "b start"}},
		"account": {Filter{Account: "b"}, []string{"b login_started", "b start"}},
		"machine": {Filter{Machine: "wecom@1"}, []string{"b login_started", "b start"}},
		"trigger": {Filter{Trigger: "start"}, []string{"a start", "b start"}},
		"time":    {Filter{From: at(2), To: at(4)}, []string{"a qr_scanned", "a message_sent"}},
		"label":   {Filter{Labels: map[string]string{"pool": "eu"}}, []string{"a start", "a qr_scanned", "a message_sent"}},
	} {
		var got []string
		if _, err := Export(t.Context(), a, c.f, sinkFunc(func(x *Exported) error {
			got = append(got, string(x.Account)+" "+x.Event.Trigger)
			return nil
		})); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	lines, _ := exported(t, a, "jsonl", Filter{From: at(2), Account: "a"})
	if first, _, _ := strings.Cut(lines, "\n"); !strings.Contains(first, `"machine":"whatsapp@2"`) || !strings.Contains(first, `"labels":{"pool":"eu"}`) {
		t.Errorf("the first line registers the account: %s", first)
	}
	if !strings.Contains(lines, `"trigger":"message_timed_out","key":"m-1","at":"2026-01-05T10:01:03Z","source":"muster"`) {
		t.Errorf("a deadline that fired is not among the lines:\n%s", lines)
	}
	if lines, _ = exported(t, a, "said", Filter{}); strings.Contains(lines, `"muster"`) || strings.Count(lines, "\n") != 8 {
		t.Errorf("what publishers said is not\n%s", lines)
	}
}

func TestExportAsCSV(t *testing.T) {
	text, n := exported(t, labelled(t), "csv", Filter{})
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || int64(len(rows)) != n+1 || !reflect.DeepEqual(rows[0], columns) {
		t.Fatalf("%d rows of %d, %v", len(rows), n, err)
	}
	want := []string{"a", "2", "2026-01-05T10:00:02Z", "2026-01-05T10:00:02Z", "session", "", "whatsapp@2", "qr_scanned", "applied", "CONNECTING", "SYNCING", "",
		"0", "0", "", "515", `a "word", or two`, "", "", ""}
	if !reflect.DeepEqual(rows[3][:len(want)], want) {
		t.Errorf("%q, want %q", rows[3], want)
	}
	if rows[4][19] != `{"reply_within":60}` {
		t.Errorf("the data are %s", rows[4][19])
	}
	if text, _ := exported(t, labelled(t), "csv", Filter{Account: "nobody"}); text != strings.Join(columns, ",")+"\n" {
		t.Errorf("nothing is %q, want the head", text)
	}
}

func TestExportAsParquet(t *testing.T) {
	a := simulated(t, 2, 30, 3000)
	text, n := exported(t, a, "parquet", Filter{})
	rows, err := parquet.Read[Row](strings.NewReader(text), int64(len(text)))
	if err != nil || int64(len(rows)) != n || n != 3000 {
		t.Fatalf("%d rows of %d, %v", len(rows), n, err)
	}
	i := 0
	if _, err := Export(t.Context(), a, Filter{}, sinkFunc(func(x *Exported) error {
		want, err := rowOf(x)
		got := rows[i]
		got.At, got.Recorded = got.At.UTC(), got.Recorded.UTC()
		if i++; err != nil || got != want {
			return fmt.Errorf("row %d is %+v, want %+v (%v)", i, got, want, err)
		}
		return nil
	})); err != nil {
		t.Error(err)
	}
	f, err := parquet.OpenFile(strings.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, field := range f.Schema().Fields() {
		names = append(names, field.Name())
	}
	if !reflect.DeepEqual(names, columns) {
		t.Errorf("columns %v, want those of CSV: %v", names, columns)
	}
	if text, _ := exported(t, a, "parquet", Filter{Account: "nobody"}); len(text) == 0 {
		t.Error("nothing is no file")
	}
}

func TestExportAsOCEL(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile("testdata/ocel20.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*archive.Archive{"labelled": labelled(t), "simulated": simulated(t, 2, 30, 3000)} {
		for _, f := range []Filter{{}, {Account: "nobody"}} {
			text, n := exported(t, h, "ocel", f)
			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); err != nil {
				t.Fatalf("%s: %v\n%.2000s", name, err, text)
			}
			checkReferences(t, text, n)
		}
	}
	text, _ := exported(t, labelled(t), "ocel", Filter{})
	for _, want := range []string{
		`{"id":"a#3","type":"message_sent","time":"2026-01-05T10:00:03Z","attributes":[{"name":"outcome","value":"applied"},{"name":"to","value":"SENT"}],"relationships":[{"objectId":"account:a","qualifier":"account"},{"objectId":"message:a/m-1","qualifier":"message"}]}`,
		`{"id":"message:a/m-1","type":"message","attributes":[{"name":"state","time":"2026-01-05T10:00:03Z","value":"SENT"},`,
		`"relationships":[{"objectId":"account:a","qualifier":"of"}]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}

// checkReferences checks what a schema cannot: that all that is named is there, once.
func checkReferences(t *testing.T, text string, events int64) {
	t.Helper()
	var log struct {
		EventTypes, ObjectTypes []ocelType
		Events                  []ocelEvent
		Objects                 []ocelObject
	}
	if err := json.Unmarshal([]byte(text), &log); err != nil {
		t.Fatal(err)
	}
	types, ids, objects := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, x := range append(log.EventTypes, log.ObjectTypes...) {
		types[x.Name] = true
	}
	for _, o := range log.Objects {
		objects[o.ID] = true
	}
	if int64(len(log.Events)) != events || len(objects) != len(log.Objects) {
		t.Errorf("%d events, want %d; %d objects with %d ids", len(log.Events), events, len(log.Objects), len(objects))
	}
	for _, e := range log.Events {
		if !types[e.Type] || ids[e.ID] || len(e.Relations) == 0 {
			t.Errorf("event %+v: an unknown type, a second one of its id, or about nothing", e)
		}
		ids[e.ID] = true
		for _, r := range e.Relations {
			if !objects[r.Object] {
				t.Errorf("event %s is about %s, which is not there", e.ID, r.Object)
			}
		}
	}
}

func TestThereIsNoSuchFormat(t *testing.T) {
	if _, err := NewSink("xml", nil); err == nil || !strings.Contains(err.Error(), "jsonl, said, csv, parquet, ocel") {
		t.Errorf("%v, want the formats named", err)
	}
}
