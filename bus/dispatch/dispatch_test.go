package dispatch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

const startVerdict = `{"account":"acct-1","key":"","trigger":"start","outcome":"applied","from":"IDLE","to":"CONNECTING",` +
	`"version":1,"reason":"515","as_of":{"2":41}}`

func TestPlainClient(t *testing.T) {
	body := `{"id":"i-1","account":"acct-1","trigger":"start","source":"cli","epoch":3,"seq":17,"by":"user","reason":{"code":"515","text":"x"},"expect":5}`
	var fields map[string]any
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		t.Fatal(err)
	}
	for k, v := range fields { // JSON numbers are float64 for encoding/json
		if f, ok := v.(float64); ok {
			fields[k] = int64(f)
		}
	}
	packed, err := msgpack.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		contentType string
		body        []byte
		answered    string // its content type
	}{
		"JSON, no header":        {"", []byte(body), ""},
		"msgpack, no header":     {"", packed, ""},
		"JSON":                   {"application/json", []byte(body), "application/json"},
		"JSON with a charset":    {"application/json; charset=utf-8", []byte(body), "application/json"},
		"msgpack":                {"application/msgpack", packed, "application/msgpack"},
		"msgpack, the older way": {"application/x-msgpack", packed, "application/msgpack"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			judge := &fakeJudge{}
			r := newRig(t, Config{Judge: judge})
			m := &nats.Msg{Subject: "muster.cmd.acct-1", Data: tt.body}
			if tt.contentType != "" {
				m.Header = nats.Header{"Content-Type": {tt.contentType}}
			}
			got := r.ask(t, m)
			if ct := got.Header.Get("Content-Type"); ct != tt.answered {
				t.Errorf("answered as %q, want %q", ct, tt.answered)
			}
			if code := got.Header.Get(micro.ErrorCodeHeader); code != "" {
				t.Errorf("error code %s: %s", code, got.Data)
			}
			if asJSON := toJSON(t, got.Data); asJSON != startVerdict {
				t.Errorf("got  %s\nwant %s", asJSON, startVerdict)
			}
			want := domain.Trigger{
				ID: "i-1", Account: "acct-1", Name: "start", Source: "cli", Epoch: 3, Seq: 17, By: domain.ByUser,
				Reason: domain.Reason{Code: "515", Text: "x"}, Expect: 5,
			}
			if judged := judge.triggers(); len(judged) != 1 || fmt.Sprint(judged[0]) != fmt.Sprint(want) {
				t.Errorf("judged %+v, want %+v", judged, want)
			}
		})
	}
}

// toJSON brings an answer in either form to JSON with its names in order.
func toJSON(t *testing.T, b []byte) string {
	t.Helper()
	if len(b) > 0 && b[0] == '{' {
		return string(b)
	}
	d := msgpack.NewDecoder(bytes.NewReader(b))
	d.UseLooseInterfaceDecoding(true)
	n, err := d.DecodeMapLen()
	if err != nil {
		t.Fatalf("answer %q: %v", b, err)
	}
	var out []string
	for range n {
		k, err := d.DecodeString()
		if err != nil {
			t.Fatal(err)
		}
		v, err := d.DecodeInterfaceLoose()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%q:%s", k, text))
	}
	return "{" + strings.Join(out, ",") + "}"
}

func TestBadInput(t *testing.T) {
	judge := &fakeJudge{}
	r := newRig(t, Config{Judge: judge})
	pack := func(v any) string {
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	tests := map[string]struct {
		subject, contentType, body string
		code, account              string
		says                       []string // parts of the reason
	}{
		"empty body":        {"acct-1", "", "", "400", "acct-1", []string{"empty"}},
		"not JSON":          {"acct-1", "", `{"trigger":`, "400", "acct-1", []string{"not JSON"}},
		"a JSON list":       {"acct-1", "", `["start"]`, "400", "acct-1", []string{"not JSON"}},
		"cut msgpack":       {"acct-1", "application/msgpack", pack(map[string]any{"trigger": "start"})[:5], "400", "acct-1", nil},
		"cut msgpack head":  {"acct-1", "application/msgpack", "\xde\x00", "400", "acct-1", nil},
		"msgpack, no map":   {"acct-1", "application/msgpack", pack("start"), "400", "acct-1", nil},
		"JSON as msgpack":   {"acct-1", "application/msgpack", `{"trigger":"start"}`, "400", "acct-1", nil},
		"msgpack as JSON":   {"acct-1", "application/json", pack(map[string]any{"trigger": "start"}), "400", "acct-1", []string{"not JSON"}},
		"content type":      {"acct-1", "text/plain", `{"trigger":"start"}`, "415", "acct-1", []string{`"text/plain"`, "application/msgpack"}},
		"unknown field":     {"acct-1", "", `{"trigger":"start","epcoh":1}`, "400", "acct-1", []string{"epcoh", "epoch"}},
		"unknown, packed":   {"acct-1", "", pack(map[string]any{"account": "acct-1", "trigger": "start", "epcoh": 1}), "400", "acct-1", []string{"epcoh", "epoch"}},
		"wrong type":        {"acct-1", "", `{"trigger":"start","epoch":"3"}`, "400", "acct-1", []string{"epoch"}},
		"no trigger":        {"acct-1", "", `{}`, "400", "acct-1", []string{"trigger"}},
		"account, a number": {"acct-1", "", `{"trigger":"start","account":7}`, "400", "acct-1", []string{"account", "text"}},
		"account, empty":    {"acct-1", "", `{"trigger":"start","account":""}`, "400", "acct-1", []string{"account"}},
		"another account":   {"acct-1", "", `{"trigger":"start","account":"acct-2"}`, "400", "acct-2", []string{`"acct-1"`, `"acct-2"`}},
		"another, packed":   {"acct-1", "", pack(map[string]any{"trigger": "start", "account": "acct-2"}), "400", "acct-2", []string{`"acct-1"`, `"acct-2"`}},
		"bad token":         {"acct+1", "", `{"trigger":"start"}`, "400", "", []string{"acct+1", "escaped"}},
		"bad escape":        {"acct=4", "", `{"trigger":"start"}`, "400", "", []string{"escape"}},
		"control character": {"a=00b", "", `{"trigger":"start"}`, "400", "a\x00b", []string{"control character"}},
		"129 bytes":         {strings.Repeat("a", 129), "", `{"trigger":"start"}`, "400", strings.Repeat("a", 129), []string{"129", "128"}},
		"Muster's own":      {"acct-1", "", `{"trigger":"mark_stuck"}`, "400", "acct-1", []string{"mark_stuck"}},
		"a secret":          {"acct-1", "", `{"trigger":"start","data":{"apiKey":"k"}}`, "400", "acct-1", []string{"apiKey"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := &nats.Msg{Subject: "muster.cmd." + tt.subject, Data: []byte(tt.body), Header: nats.Header{}}
			if tt.contentType != "" {
				m.Header.Set("content-type", tt.contentType) // any case will do
			}
			got := r.ask(t, m)
			if code := got.Header.Get(micro.ErrorCodeHeader); code != tt.code {
				t.Errorf("code %q, want %s", code, tt.code)
			}
			var v struct {
				Account, Outcome, Reason, From, To string
				Version                            int
				AsOf                               map[string]int `json:"as_of"`
			}
			if err := json.Unmarshal([]byte(toJSON(t, got.Data)), &v); err != nil {
				t.Fatalf("%q: %v", got.Data, err)
			}
			if v.Outcome != "invalid" || v.Account != tt.account || v.From != "" || v.To != "" || v.Version != 0 || len(v.AsOf) != 0 || v.Reason == "" {
				t.Errorf("got %s", got.Data)
			}
			if head := got.Header.Get(micro.ErrorHeader); head != v.Reason && !strings.Contains(v.Reason, "\x00") {
				t.Errorf("header says %q, verdict %q", head, v.Reason)
			}
			for _, part := range tt.says {
				if !strings.Contains(v.Reason, part) {
					t.Errorf("%q does not say %q", v.Reason, part)
				}
			}
		})
	}
	if got := judge.triggers(); len(got) != 0 {
		t.Errorf("the judge got %+v", got)
	}
	if s := r.endpoint.Stats(); s.Invalid != uint64(len(tests)) || s.Answered != s.Invalid || s.InFlight != 0 {
		t.Errorf("stats %+v after %d bad requests", s, len(tests))
	}
}

func TestAccountMayBeLeftOut(t *testing.T) {
	bodies := map[string]string{
		"JSON":             `{"trigger":"start"}`,
		"JSON with spaces": " { \n\"trigger\":\"start\" } ",
		"msgpack":          "\x81\xa7trigger\xa5start",
		"msgpack, map16":   "\xde\x00\x01\xa7trigger\xa5start",
		"msgpack, map32":   "\xdf\x00\x00\x00\x01\xa7trigger\xa5start",
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			judge := &fakeJudge{}
			r := newRig(t, Config{Judge: judge})
			r.ask(t, &nats.Msg{Subject: `muster.cmd.=22a=2Eb=22`, Data: []byte(body)})
			if got := judge.triggers(); len(got) != 1 || got[0].Account != `"a.b"` || got[0].Name != "start" {
				t.Errorf("judged %+v", got)
			}
		})
	}
}

func TestOddAccounts(t *testing.T) {
	judge := &fakeJudge{}
	r := newRig(t, Config{Judge: judge})
	tests := map[string]string{ // account → token, written here and not computed
		"15550100001@s.whatsapp.net": "15550100001=40s=2Ewhatsapp=2Enet",
		"+1 555 01":                  "=2B1=20555=2001",
		"*":                          "=2A",
		">":                          "=3E",
		"a.*.>":                      "a=2E=2A=2E=3E",
		"=":                          "=3D",
		"🤖":                          "=F0=9F=A4=96",
		`q"\`:                        "q=22=5C",
	}
	for account, token := range tests {
		body, err := json.Marshal(map[string]string{"account": account, "trigger": "start"})
		if err != nil {
			t.Fatal(err)
		}
		got := r.ask(t, &nats.Msg{Subject: "muster.cmd." + token, Data: body})
		var v struct{ Account, Outcome string }
		if err := json.Unmarshal(got.Data, &v); err != nil {
			t.Fatalf("%s: %v", got.Data, err)
		}
		if v.Account != account || v.Outcome != "applied" {
			t.Errorf("account %q: %s", account, got.Data)
		}
	}
	if got := judge.triggers(); len(got) != len(tests) {
		t.Errorf("judged %d of %d", len(got), len(tests))
	}
}

func TestTooLargeFailsAtOnce(t *testing.T) {
	r := newRig(t, Config{Judge: &fakeJudge{}})
	_, err := r.client.Request("muster.cmd.a", make([]byte, 2<<20), within)
	if !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("client library: %v", err)
	}

	// A client that does not look at the server's limit is told, and let go.
	c, err := net.Dial("tcp", r.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "CONNECT {\"verbose\":false}\r\nPUB muster.cmd.a reply %d\r\n", 2<<20); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Maximum Payload Violation") {
			return
		}
	}
	t.Errorf("the server did not name the violation (%v)", lines.Err())
}

func TestAnswerThatDoesNotFit(t *testing.T) {
	r := newRig(t, Config{Judge: &fakeJudge{}})
	for name, body := range map[string]string{
		"a long unknown field": `{"trigger":"start","` + strings.Repeat("x", 900_000) + `":1}`,
		"a long bad trigger":   `{"trigger":"` + strings.Repeat(`\"`, 500_000) + `","epcoh":1}`,
		"a long good trigger":  `{"trigger":"` + strings.Repeat("\x7f", 900_000) + `"}`,
	} {
		got := r.ask(t, &nats.Msg{Subject: "muster.cmd.a", Data: []byte(body)})
		if code := got.Header.Get(micro.ErrorCodeHeader); code != "400" && code != "413" {
			t.Errorf("%s: code %q, %.100s", name, code, got.Data)
		}
		if n := len(got.Header.Get(micro.ErrorHeader)); n > 600 {
			t.Errorf("%s: the header has %d bytes", name, n)
		}
	}
}

func TestErrorsOfTheJudge(t *testing.T) {
	tests := map[string]struct {
		err                error
		code, title        string
		retryable, unknown bool
		says               string
	}{
		"overloaded":    {command.ErrOverloaded, "503", "overloaded", true, false, "queue is full"},
		"shutting down": {command.ErrShuttingDown, "503", "shutting down", true, false, "shutting down"},
		"not the owner": {command.ErrNotOwner, "503", "not the owner", true, false, "partition"},
		"contended":     {command.ErrContended, "503", "contended", true, false, "another writer"},
		"undecided":     {command.ErrUndecided, "504", "outcome unknown", true, true, "same id"},
		"damaged":       {&command.DamagedError{Account: "a", Reason: "version 3 is missing"}, "423", "damaged", false, false, "version 3 is missing"},
		"refused":       {fmt.Errorf("append: %w: maximum messages exceeded", eventlog.ErrRefused), "500", "refused by the log", false, false, "maximum messages exceeded"},
		"no room": {
			fmt.Errorf("append: %w: %w: free some space and send again", eventlog.ErrRefused, eventlog.ErrNoRoom), "507", "no room", false, false, "the disk is full: free some space",
		},
		"anything else": {errors.New("secret detail"), "500", "internal error", false, false, "log says why"},
	}
	for name, tt := range tests {
		for _, when := range []string{"at Submit", "in the answer"} {
			t.Run(name+" "+when, func(t *testing.T) {
				r := newRig(t, Config{Judge: &fakeJudge{do: func(_ domain.Trigger, done func(command.Answer)) error {
					if when == "at Submit" {
						return tt.err
					}
					done(command.Answer{Err: tt.err})
					return nil
				}}})
				got := r.ask(t, &nats.Msg{Subject: "muster.cmd.a", Data: []byte(`{"trigger":"start"}`)})
				if code := got.Header.Get("Nats-Service-Error-Code"); code != tt.code {
					t.Errorf("code %q, want %s", code, tt.code)
				}
				if after := got.Header.Get("Retry-After"); (after != "") != tt.retryable {
					t.Errorf("Retry-After %q", after)
				}
				var p struct {
					Code               int
					Title, Detail      string
					Retryable, Unknown bool
				}
				if err := json.Unmarshal(got.Data, &p); err != nil {
					t.Fatalf("%s: %v", got.Data, err)
				}
				if fmt.Sprint(p.Code) != tt.code || p.Title != tt.title || p.Retryable != tt.retryable || p.Unknown != tt.unknown {
					t.Errorf("got %s", got.Data)
				}
				if !strings.Contains(p.Detail, tt.says) || strings.Contains(p.Detail, "secret detail") {
					t.Errorf("detail %q", p.Detail)
				}
			})
		}
	}
}

func TestInvalidVerdictOfTheJudge(t *testing.T) {
	r := newRig(t, Config{Judge: &fakeJudge{do: func(t domain.Trigger, done func(command.Answer)) error {
		done(command.Answer{Verdict: domain.Verdict{Account: t.Account, Trigger: t.Name, Outcome: domain.Invalid, Reason: "no such trigger"}})
		return nil
	}}})
	got := r.ask(t, &nats.Msg{Subject: "muster.cmd.a", Data: []byte(`{"trigger":"strat"}`)})
	if got.Header.Get(micro.ErrorCodeHeader) != "400" || got.Header.Get(micro.ErrorHeader) != "no such trigger" {
		t.Errorf("headers %v", got.Header)
	}
	if want := `"outcome":"invalid"`; !strings.Contains(string(got.Data), want) {
		t.Errorf("%s does not hold %s", got.Data, want)
	}
}

func TestTraceHeaders(t *testing.T) {
	judge := &fakeJudge{}
	r := newRig(t, Config{Judge: judge})
	r.ask(t, &nats.Msg{
		Subject: "muster.cmd.a", Data: []byte(`{"trigger":"start"}`),
		Header: nats.Header{
			"Traceparent":           {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
			"Muster-Correlation-Id": {"c-1"}, "Muster-Causation-Id": {strings.Repeat("x", 129)},
		},
	})
	got := judge.triggers()[0]
	if got.Traceparent != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" || got.Correlation != "c-1" || got.Causation != "" {
		t.Errorf("got %+v", got)
	}
}
