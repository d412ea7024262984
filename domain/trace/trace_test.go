package trace_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/trace"
)

func run(t *testing.T, opts trace.Options, lines ...string) *trace.Result {
	t.Helper()
	opts.Machines = lifecycle.Registry()
	result, err := trace.Run(strings.NewReader(strings.Join(lines, "\n")), opts)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// brief prints verdicts as "line account trigger outcome from>to version".
func brief(r *trace.Result) []string {
	var out []string
	for _, v := range r.Verdicts {
		out = append(out, fmt.Sprintf("%d %s %s %s %s>%s %d", v.Line, v.Account, v.Trigger, v.Outcome, v.From, v.To, v.Version))
	}
	return out
}

func expect(t *testing.T, r *trace.Result, want ...string) {
	t.Helper()
	got := brief(r)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing: %s", want[i])
		case i >= len(want):
			t.Errorf("not expected: %s", got[i])
		case got[i] != want[i]:
			t.Errorf("want %s\n got %s", want[i], got[i])
		}
	}
}

func until(t *testing.T, text string) trace.Options {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return trace.Options{Until: at.UnixNano(), HasUntil: true}
}

func TestBadLinesAreNamedAndJudgingGoesOn(t *testing.T) {
	r := run(t, trace.Options{},
		`{"account":"a","trigger":"start","at":"2026-01-05T10:00:00Z"}`,
		``,
		`not JSON`,
		`  `,
		`{"account":"a","trigger":"qr_recieved","at":"2026-01-05T10:00:01Z"}`,
		`{"account":"a","trigger":"start","colour":"red"}`,
		`{"account":"a","trigger":"start","epoch":"1"}`,
		`{"account":"a","trigger":"settled"}`,
		`{"account":"a","trigger":"qr_received"}`)
	expect(t, r, "1 a start applied IDLE>CONNECTING 1", "3   invalid > 0", "5 a qr_recieved invalid > 0", "6 a start invalid > 0", "7 a start invalid > 0",
		"8 a settled invalid > 0", "9 a qr_received applied CONNECTING>QR_REQUIRED 2")
	for i, says := range map[int]string{1: "not JSON", 2: "did you mean qr_received?", 3: "colour", 4: "epoch: want an integer", 5: "Muster itself"} {
		if !strings.Contains(r.Verdicts[i].Reason, says) {
			t.Errorf("line %d: %q does not say %q", r.Verdicts[i].Line, r.Verdicts[i].Reason, says)
		}
	}
	if want := (trace.Counts{Applied: 2, Invalid: 5}); r.Counts != want {
		t.Errorf("counts %+v, want %+v", r.Counts, want)
	}
	if got := r.Accounts["a"].Since; got != "2026-01-05T10:00:01Z" {
		t.Errorf("since %s: a line without a time is judged at the clock's, and a bad line moves the clock", got)
	}
}

func TestTheClockBeforeAnyTime(t *testing.T) {
	r := run(t, trace.Options{}, `{"account":"a","trigger":"start"}`, `{"at":"2026-01-05T09:00:00Z","bad":1}`, `{"account":"b","trigger":"start","at":"2026-01-05T10:00:00Z"}`)
	expect(t, r, "1 a start applied IDLE>CONNECTING 1", "2   invalid > 0", "0 a mark_stuck noop CONNECTING>CONNECTING 2", "3 b start applied IDLE>CONNECTING 1")
	if got := r.Accounts["a"].Since; got != "2026-01-05T09:00:00Z" {
		t.Errorf("since %s, want the first time that can be read", got)
	}
	r = run(t, trace.Options{}, `{"account":"a","trigger":"start"}`, `{"account":"a","trigger":"start"}`)
	expect(t, r, "1 a start invalid > 0", "2 a start invalid > 0")
	if !strings.Contains(r.Verdicts[0].Reason, "at") || len(r.Accounts) != 0 {
		t.Errorf("got %+v", r)
	}
	if r = run(t, trace.Options{}); len(r.Verdicts) != 0 || r.Digest == "" {
		t.Errorf("an empty trace: %+v", r)
	}
}

func TestTheClockNeverRunsBackwards(t *testing.T) {
	r := run(t, trace.Options{},
		`{"account":"a","trigger":"adopt","at":"2026-01-05T10:00:00Z","source":"s1","data":{"state":"RUNNING"}}`,
		`{"account":"b","trigger":"start","at":"2026-01-05T10:04:00Z"}`,
		`{"account":"a","trigger":"connection_lost","at":"2026-01-05T09:00:00Z","source":"s2"}`,
		`{"account":"b","trigger":"qr_received"}`)
	// The loss is observed an hour ago; its deadline fires when it first can.
	expect(t, r, "1 a adopt applied IDLE>RUNNING 1", "2 b start applied IDLE>CONNECTING 1", "3 a connection_lost applied RUNNING>DISCONNECTED 2",
		"0 a mark_stuck noop DISCONNECTED>DISCONNECTED 3", "4 b qr_received applied CONNECTING>QR_REQUIRED 2")
	if got := r.Accounts["a"].Conditions[0].Since; got != "2026-01-05T10:04:00Z" {
		t.Errorf("stuck since %s, want the clock's time", got)
	}
}

func TestDeadlinesAndTheEnd(t *testing.T) {
	lines := []string{`{"account":"a","trigger":"start","at":"2026-01-05T10:00:00Z"}`, `{"account":"b","trigger":"start","at":"2026-01-05T10:05:00Z"}`}
	expect(t, run(t, trace.Options{}, lines...), "1 a start applied IDLE>CONNECTING 1", "2 b start applied IDLE>CONNECTING 1", "0 a mark_stuck noop CONNECTING>CONNECTING 2")
	expect(t, run(t, until(t, "2026-01-05T09:00:00Z"), lines...), "1 a start applied IDLE>CONNECTING 1", "2 b start applied IDLE>CONNECTING 1")
	expect(t, run(t, until(t, "2026-01-05T10:10:00Z"), lines...), "1 a start applied IDLE>CONNECTING 1", "2 b start applied IDLE>CONNECTING 1",
		"0 a mark_stuck noop CONNECTING>CONNECTING 2", "0 b mark_stuck noop CONNECTING>CONNECTING 2")
}

// An exported history holds what the clock made; it makes it again.
func TestMustersOwnLines(t *testing.T) {
	r := run(t, until(t, "2026-01-05T11:00:00Z"),
		`{"account":"a","trigger":"start","at":"2026-01-05T10:00:00Z"}`,
		`{"account":"a","trigger":"mark_stuck","at":"2026-01-05T10:05:00Z","source":"muster"}`,
		`{"account":"a","trigger":"reconnect_failed","at":"2026-01-05T10:06:00Z","source":"muster"}`,
		`{"account":"a","trigger":"vouch_lost","at":"2026-01-05T10:07:00Z","source":"muster"}`,
		`{"account":"a","trigger":"recover","at":"2026-01-05T10:08:00Z","source":"muster"}`,
		`{"account":"a","trigger":"recover","at":"2026-01-05T10:08:01Z","source":"ops"}`)
	expect(t, r, "1 a start applied IDLE>CONNECTING 1", "0 a mark_stuck noop CONNECTING>CONNECTING 2", "4 a vouch_lost noop CONNECTING>CONNECTING 3",
		"5 a recover applied CONNECTING>DISCONNECTED 4", "6 a recover noop DISCONNECTED>DISCONNECTED 5", "0 a mark_stuck noop DISCONNECTED>DISCONNECTED 6")
}

// An exported history has its own deadlines, or none: the clock makes none. Here a
// limit ended late, since nobody ran when it was due, and QR_REQUIRED was left in time
// by a fact that was observed early and recorded late.
func TestAnExportedHistoryIsJudgedAsItWas(t *testing.T) {
	lines := []string{
		`{"account":"a","trigger":"adopt","data":{"state":"RUNNING"},"at":"2026-01-05T10:00:00Z","recorded":"2026-01-05T10:00:00Z"}`,
		`{"account":"a","trigger":"rate_limited","data":{"until":"2026-01-05T10:01:00Z"},"at":"2026-01-05T10:00:00Z","recorded":"2026-01-05T10:00:01Z"}`,
		`{"account":"b","trigger":"qr_received","at":"2026-01-05T09:00:00Z","recorded":"2026-01-05T10:02:00Z"}`,
		`{"account":"a","trigger":"condition_expired","source":"muster","data":{"condition":"rate_limited"},"at":"2026-01-05T11:00:00Z","recorded":"2026-01-05T11:00:00Z"}`,
		`{"account":"b","trigger":"qr_scanned","at":"2026-01-05T09:00:30Z","recorded":"2026-01-05T11:00:01Z"}`,
	}
	want := []string{
		"1 a adopt applied IDLE>RUNNING 1", "2 a rate_limited applied RUNNING>DEGRADED 2", "3 b qr_received applied IDLE>QR_REQUIRED 1",
		"4 a condition_expired applied DEGRADED>RUNNING 3", "5 b qr_scanned applied QR_REQUIRED>SYNCING 2",
	}
	r := run(t, trace.Options{}, lines...)
	expect(t, r, want...)
	if e := r.Events[3]; domain.FormatTime(e.At) != "2026-01-05T11:00:00Z" || domain.FormatTime(e.Recorded) != "2026-01-05T11:00:00Z" {
		t.Errorf("the limit ended at %s, recorded at %s", domain.FormatTime(e.At), domain.FormatTime(e.Recorded))
	}
	expect(t, run(t, until(t, "2026-01-05T11:30:00Z"), lines...), append(want, "0 b mark_stuck noop SYNCING>SYNCING 3")...)
}

func TestMachinesAndModeOfATrace(t *testing.T) {
	start := `{"account":"a","trigger":"start","at":"2026-01-05T10:00:00Z"}`
	pending := `{"account":"a","trigger":"message_pending","key":"m"}`
	r := run(t, trace.Options{Defaults: []string{"whatsapp@1"}, Mode: "supervise"}, start, pending)
	expect(t, r, "1 a start applied IDLE>CONNECTING 1", "2 a message_pending rejected > 2")
	if v := r.Accounts["a"]; v.Machine != "whatsapp@1" || v.Mode != "supervise" {
		t.Errorf("got %+v", v)
	}
	r = run(t, trace.Options{Defaults: []string{"whatsapp@1", "message@2"}}, start, pending)
	expect(t, r, "1 a start applied IDLE>CONNECTING 1", "2 a message_pending applied >PENDING 2")
	for _, bad := range [][]string{{"whatsapp@1", "whatsapp@2"}, {"whatsap@2"}, {"message@1", "message@2"}} {
		if _, err := trace.Run(strings.NewReader(""), trace.Options{Machines: lifecycle.Registry(), Defaults: bad}); err == nil {
			t.Errorf("%v: want an error", bad)
		}
	}
	if _, err := trace.Run(strings.NewReader(""), trace.Options{Machines: lifecycle.Registry(), Mode: "watch"}); err == nil {
		t.Error("mode watch: want an error")
	}
}

func TestFormsOfFiles(t *testing.T) {
	r := run(t, trace.Options{}, "\ufeff"+`{"account":"a","trigger":"start","at":"2026-01-05T10:00:00Z"}`+"\r", "\t", `{"account":"a","trigger":"qr_received"}`+"\r")
	expect(t, r, "1 a start applied IDLE>CONNECTING 1", "3 a qr_received applied CONNECTING>QR_REQUIRED 2")
	long := `{"account":"a","trigger":"start","at":"2026-01-05T10:00:00Z","data":{"x":"` + strings.Repeat("y", trace.MaxLine) + `"}}`
	r = run(t, trace.Options{}, long, `{"account":"a","trigger":"start","at":"2026-01-05T10:00:00Z"}`)
	expect(t, r, "1   invalid > 0", "2 a start applied IDLE>CONNECTING 1")
}

func TestTheShapeOfTheAnswer(t *testing.T) {
	b, err := json.Marshal(run(t, trace.Options{}, `{"id":"x","account":"a","trigger":"adopt","at":"2026-01-05T10:00:00Z","source":"s","data":{"state":"RUNNING"},"labels":{"pool":"eu"}}`,
		`{"account":"a","trigger":"rate_limited","at":"2026-01-05T10:00:01Z","source":"s","reason":{"code":"429"},"data":{"until":"2026-01-05T10:05:00Z"}}`))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	digest := text[strings.Index(text, `"digest":"sha256:`)+len(`"digest":"sha256:`):]
	if len(digest) != 64+len(`"}`) {
		t.Errorf("digest %s", digest)
	}
	want := `{"accounts":{"a":{"id":"a","machine":"whatsapp@2","state":"DEGRADED","class":"limited","since":"2026-01-05T10:00:01Z","version":2,"desired":"run","mode":"observe","source":"s","labels":{"pool":"eu"},` +
		`"conditions":[{"name":"rate_limited","since":"2026-01-05T10:00:01Z","until":"2026-01-05T10:05:00Z","scope":"","reason":"429"}],` +
		`"can":{"read":true,"send":false,"bulk":false},"attention":[],"messages":{},"conversations":{}}},` +
		`"verdicts":[{"line":1,"account":"a","key":"","trigger":"adopt","outcome":"applied","from":"IDLE","to":"RUNNING","version":1,"source":"s","reason":""},` +
		`{"line":2,"account":"a","key":"","trigger":"rate_limited","outcome":"applied","from":"RUNNING","to":"DEGRADED","version":2,"source":"s","reason":"429"}],` +
		`"counts":{"applied":2,"noop":0,"stale":0,"rejected":0,"duplicate":0,"conflict":0,"invalid":0},"digest":"sha256:` + digest
	if text != want {
		t.Errorf("want %s\n got %s", want, text)
	}
}

func TestTheDigestSeesEveryDifference(t *testing.T) {
	base := `{"account":"a","trigger":"start","at":"2026-01-05T10:00:00Z","source":"s"}`
	seen := map[string]string{}
	for _, line := range []string{base, strings.Replace(base, `"a"`, `"b"`, 1), strings.Replace(base, "10:00:00", "10:00:01", 1), strings.Replace(base, `"s"`, `"t"`, 1),
		strings.Replace(base, `}`, `,"epoch":1}`, 1), strings.Replace(base, `}`, `,"epoch":1,"seq":1}`, 1), strings.Replace(base, `}`, `,"id":"x"}`, 1), strings.Replace(base, `}`, `,"id":"y"}`, 1),
		strings.Replace(base, `}`, `,"mode":"supervise"}`, 1), strings.Replace(base, `}`, `,"labels":{"a":"b"}}`, 1), strings.Replace(base, "start", "qr_received", 1)} {
		d := run(t, trace.Options{}, line).Digest
		if other, ok := seen[d]; ok {
			t.Errorf("the same digest for\n%s\n%s", line, other)
		}
		seen[d] = line
	}
	if first, second := run(t, trace.Options{}, base).Digest, run(t, trace.Options{}, base).Digest; first != second {
		t.Error("the same trace gives two digests")
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

func TestAReaderThatFails(t *testing.T) {
	if _, err := trace.Run(broken{}, trace.Options{Machines: lifecycle.Registry()}); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("got %v", err)
	}
}
