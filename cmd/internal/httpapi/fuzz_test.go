package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/cmd/internal/httpapi"
)

// What is sent in a fuzz test goes to a whole server. Whatever it is, the answer must
// be one that the documents name: no panic, no internal error, problems as
// problem+json with a code of the table, all else as the JSON that it says it is;
// and it must not take memory without measure.

// fuzzed starts a server that is asked in a fuzz test. It holds some accounts, so
// that questions find something.
func fuzzed(f *testing.F) *server {
	f.Helper()
	s := start(f, f.TempDir(), func(c *config.Config) { c.Sync = "interval" })
	s.sent("acct-1", "start", "qr_received", "qr_scanned", "sync_completed")
	s.trigger("acct-1", `{"trigger":"rate_limited","data":{"until":"2099-01-01T00:00:00Z"}}`, http.StatusOK)
	s.trigger("acct-1", `{"trigger":"message_sent","key":"m-1"}`, http.StatusOK)
	s.trigger("acct-1", `{"trigger":"customer_message","key":"c-1","data":{"message":"q-1"}}`, http.StatusOK)
	s.trigger("acct-2", `{"trigger":"start","machine":"whatsapp@1","labels":{"pool":"eu"}}`, http.StatusOK)
	return s
}

// largestAnswer and mostAllocated bound what one small request may cost.
const (
	largestAnswer = 8 << 20
	mostAllocated = 64 << 20
)

// allocated is how many bytes the process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// fuzz makes a request and holds the answer to the rules; ok is false when the
// client refuses to send such a thing.
func (s *server) fuzz(t *testing.T, method, path, body string, headers ...string) (a answer, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	// A space or a control byte in the first line is no HTTP; the library answers that.
	path = strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f {
			return '+'
		}
		return r
	}, path)
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return a, false // no URL
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	before := allocated()
	resp, err := s.http.Do(req)
	if err != nil {
		if strings.Contains(err.Error(), "invalid header field") || strings.Contains(err.Error(), "invalid URL") {
			return a, false
		}
		t.Fatalf("%s %q: no answer: %v", method, path, err)
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return answer{status: resp.StatusCode, header: resp.Header}, true // it has no end
	}
	got, err := io.ReadAll(io.LimitReader(resp.Body, largestAnswer+1))
	switch n := allocated() - before; {
	case err != nil:
		t.Fatalf("%s %q: the answer broke off: %v", method, path, err)
	case len(got) > largestAnswer:
		t.Fatalf("%s %q: an answer of more than %d bytes", method, path, largestAnswer)
	case n > mostAllocated:
		t.Fatalf("%s %q: %d bytes were allocated for a request of %d", method, path, n, len(body))
	}
	a = answer{resp.StatusCode, resp.Header, got}
	a.wellFormed(t, method+" "+path)
	return a, true
}

// wellFormed holds an answer to what the documents promise of all answers.
func (a answer) wellFormed(t *testing.T, what string) {
	t.Helper()
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	switch {
	case a.status == http.StatusNotModified && len(a.body) == 0, a.status/100 == 3:
	case a.status >= http.StatusBadRequest:
		var p problem
		if err := json.Unmarshal(a.body, &p); err != nil || media != httpapi.TypeProblem {
			t.Fatalf("%s: status %d with %q of type %q: no problem+json (%v)", what, a.status, a.body, media, err)
		}
		row := slices.IndexFunc(httpapi.Codes(), func(c httpapi.Code) bool { return c.Code == p.Code && c.Status == a.status })
		if row < 0 || p.Status != a.status || p.Detail == "" {
			t.Fatalf("%s: status %d with %s: no row of the table", what, a.status, a.body)
		}
		if p.Code == httpapi.CodeInternal || p.Code == "refused_by_log" {
			t.Fatalf("%s: a fault of the server: %s", what, a.body)
		}
	case media == "application/json" && !json.Valid(a.body):
		t.Fatalf("%s: status %d with what is no JSON: %q", what, a.status, a.body)
	}
}

// segment writes a text as one segment of a path.
func segment(text string) string {
	return strings.ReplaceAll(url.PathEscape(text), ".", "%2E")
}

func FuzzTrigger(f *testing.F) {
	s := fuzzed(f)
	for _, c := range [][6]string{
		{"acct-1", `{"trigger":"start","by":"user"}`, `"2"`, "", `"k-1"`, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		{"acct-3", `{"trigger":"adopt","data":{"state":"RUNNING"},"machine":"whatsapp@2","mode":"supervise","labels":{"pool":"eu"}}`, "", "*", "", ""},
		{"acct-1", `{"trigger":"restricted","at":"2026-01-01T10:00:00Z","epoch":9,"seq":3,"data":{"scope":"new_chats","until":"2099-01-01T00:00:00Z"},"expect":7}`, "7", "", "k", ""},
		{"a/b c", `{"trigger":"customer_message","key":"c-1","data":{"message":"q-2"}}`, `W/"2"`, "", "", "rubbish"},
		{"acct-1", `{"trigger":"set_labels","by":"user","data":{"labels":{"a":"b","c":null}}}`, `"18446744073709551615"`, "", `"`, ""},
		{"wc", `{"trigger":"login_succeeded","machine":"wecom@1","data":{"sid_until":"2026-01-02T10:00:00Z","tgt_until":null}}`, "", "", "", ""},
		{"\xff", `{"trigger":1}`, "*", "*", "\x80", "\t"}, {"", `[]`, "-1", "x", "", ""},
	} {
		f.Add(c[0], []byte(c[1]), c[2], c[3], c[4], c[5])
	}
	f.Fuzz(func(t *testing.T, account string, body []byte, ifMatch, ifNoneMatch, key, traceparent string) {
		a, ok := s.fuzz(t, http.MethodPost, "/v1/accounts/"+segment(account)+"/triggers", string(body),
			"If-Match", ifMatch, "If-None-Match", ifNoneMatch, "Idempotency-Key", key, "traceparent", traceparent)
		if !ok || a.status != http.StatusOK {
			return
		}
		var v struct {
			Account, Outcome string
			Version          uint64
		}
		if a.read(t, &v); v.Account != account || v.Outcome == "" || a.header.Get("ETag") != fmt.Sprintf("%q", fmt.Sprint(v.Version)) {
			t.Fatalf("a trigger of %q is answered with %s, ETag %s", account, a.body, a.header.Get("ETag"))
		}
	})
}

func FuzzBatch(f *testing.F) {
	s := fuzzed(f)
	for _, body := range []string{
		"{\"account\":\"a\",\"trigger\":\"start\"}\n\n{\"account\":\"a\",\"trigger\":\"qr_received\",\"expect\":1}\r\n",
		"{\"account\":\"b\",\"trigger\":\"start\"}\nrubbish\n{\"account\":\"b\",\"trigger\":\"stop\",\"id\":\"1\"}", "\n\n \n", "", "null\n[]\n{}\n\"\"\n1e9\n",
		`{"account":"` + strings.Repeat("x", 200) + `","trigger":"start"}`, "{\"account\":\"\\ud800\",\"trigger\":\"start\"}\n",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, ok := s.fuzz(t, http.MethodPost, "/v1/triggers", string(body), "Content-Type", httpapi.TypeLines)
		if !ok {
			return
		}
		a.want(t, http.StatusOK)
		// One answer for each line that is not empty, with its number, in order.
		var want []int
		for i, line := range bytes.Split(body, []byte("\n")) {
			if len(bytes.TrimSpace(line)) > 0 {
				want = append(want, i+1)
			}
		}
		var got []int
		lines := bufio.NewScanner(bytes.NewReader(a.body))
		lines.Buffer(nil, largestAnswer)
		for lines.Scan() {
			var l struct {
				Line          int
				Outcome, Code string
			}
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil || (l.Outcome == "") == (l.Code == "") || l.Code == httpapi.CodeInternal {
				t.Fatalf("a line of the answer is %q (%v)", lines.Bytes(), err)
			}
			got = append(got, l.Line)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the lines %v are answered, want %v", got, want)
		}
	})
}

// FuzzQuestion asks every path that is read, with any query and any segment for the
// names in it, and any header that such a request may carry.
func FuzzQuestion(f *testing.F) {
	s := fuzzed(f)
	var paths []string
	for _, r := range httpapi.Routes() {
		if r.Method == http.MethodGet && r.ID != "stream" {
			paths = append(paths, r.Path)
		}
	}
	for i := range paths {
		f.Add(uint8(i), "acct-1", "limit=2&wait_for=0:1", `"3"`, "")
	}
	for i, query := range []string{
		"label=pool=eu&label=tier=gold&limit=1000&after=acct-1", "prefix=%2B1555&state=RUNNING&class=ready&condition=stuck&desired=run&source=waha-1&attention=scan_qr",
		"since_from=2026-01-01T10:00:00Z&since_before=0001-01-01T00:00:00%2B24:00", "do=send&scope=new_chats&limit=1", "by=label", "window=24h", "window=-1ns", "step=hour", "minutes=1440",
		"at=2026-01-01T10:00:00Z", "at=9999-12-31T23:59:59.999999999Z", "label=pool", "accounts=true&kind=scan_qr", "overdue=true&state=SENT&account=acct-1", "mode=human&unanswered=1", "format=dot",
		"before=YWNjdC0x&limit=0", "samples=x&status=dead", "limit=99999999999999999999", "limit=1;limit=2", "%zz=%", "wait_for=%7B%220%22:1%7D", "wait_for=63:9223372036854775807", "after=%00&limit=5",
	} {
		for at := i % 3; at < len(paths); at += 3 {
			f.Add(uint8(at), "acct-1", query, "", "0:1")
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, name, query, match, waitFor string) {
		if strings.Contains(query, "wait_for") || waitFor != "" {
			// A position that is not there is waited for, as long as a request may last;
			// FuzzPosition reads positions.
			query, waitFor = strings.ReplaceAll(query, "wait_for", "wait-for"), ""
		}
		path := paths[int(which)%len(paths)]
		for _, of := range []string{"{account}", "{message}", "{contact}", "{machine}"} {
			path = strings.ReplaceAll(path, of, segment(name))
		}
		s.fuzz(t, http.MethodGet, path+"?"+query, "", "If-None-Match", match, "Muster-Wait-For", waitFor)
	})
}

// FuzzBody sends bodies to every path that takes one, beside those of triggers.
func FuzzBody(f *testing.F) {
	s := fuzzed(f)
	var paths []string
	for _, r := range httpapi.Routes() {
		if r.Method == http.MethodPost && r.ID != "sendTrigger" && r.ID != "sendTriggers" {
			paths = append(paths, r.Path)
		}
	}
	for i := range paths {
		for _, body := range []string{
			`{"message":"q-1","side":"bot","handler":"h-1","source":"s"}`, `{"action":"mute","target":{"account":"acct-1","kind":"stuck"},"by":"ann","reason":"known","until":"2099-01-01T00:00:00Z"}`,
			`{"role":"connector","sources":["waha-1"],"name":"x","id":"aaaaaaaaaaaaaaaa","hash":"00","expires":"2099-01-01T00:00:00Z","rate":5}`,
			`{"id":"x","dead":true}`, `{"endpoint":"ops"}`, `{"name":"accounts","max_rate":1}`, `{}`, `{"all":true}`, `null`, `[`, "",
		} {
			f.Add(uint8(i), "acct-1", []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, name string, body []byte) {
		path := paths[int(which)%len(paths)]
		path = strings.ReplaceAll(strings.ReplaceAll(path, "{account}", segment(name)), "{contact}", segment(name))
		s.fuzz(t, http.MethodPost, path, string(body))
	})
}

// FuzzStream asks for the stream from any position with any filters, and ends it as
// soon as it begins.
func FuzzStream(f *testing.F) {
	s := fuzzed(f)
	for _, c := range [][2]string{
		{"", "account=acct-1&trigger=start&outcome=applied&state=RUNNING&source=waha-1"}, {"0:1", ""}, {"0:1,1:7", "after=0:0"}, {"0:9223372036854775807", ""}, {"63:1", ""},
		{"-1:2", "outcome=boom"}, {"0:1,0:1", "account=&account="}, {"x", "after=x"}, {"", "after=0%3A2&trigger="}, {"0:18446744073709551616", "%"},
	} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, last, query string) {
		a, ok := s.fuzz(t, http.MethodGet, "/v1/stream?"+query, "", "Last-Event-ID", last)
		if ok && a.status == http.StatusOK && !utf8.ValidString(last) {
			t.Fatalf("a stream goes on behind %q", last)
		}
	})
}
