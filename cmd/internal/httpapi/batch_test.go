package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// line is one answer of a batch.
type line struct {
	Line                                int
	Account, Trigger, Outcome, From, To string
	Version                             uint64
	Reason, Code, Detail                string
}

// lines reads the answer of a batch.
func lines(t testing.TB, body []byte) []line {
	t.Helper()
	var out []line
	for text := range strings.Lines(string(body)) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		out = append(out, l)
	}
	return out
}

func (s *server) batch(body string) []line {
	s.t.Helper()
	a := s.do(http.MethodPost, "/v1/triggers", body, "Content-Type", "application/x-ndjson")
	a.want(s.t, http.StatusOK)
	return lines(s.t, a.body)
}

func TestBatchAnswersEachLine(t *testing.T) {
	s := shared(t)
	got := s.batch(strings.Join([]string{
		`{"account":"acct-1","trigger":"start"}`,
		``,
		`rubbish`,
		`{"account":"acct-1","trigger":"qr_received"}`,
		`   `,
		`{"account":"acct-1","trigger":"probe_ok"}`,
		`{"account":"acct-1","trigger":"qr_scanned","expect":1}`,
		`{"account":"acct-1","trigger":"` + strings.Repeat("x", 1<<20) + `"}`,
		`{"account":"acct-2","trigger":"start"}`,
		`{"account":"acct-1","trigger":"qr_scanned"}`,
	}, "\n"))
	want := []line{
		{Line: 1, Account: "acct-1", Trigger: "start", Outcome: "applied", To: "CONNECTING", Version: 1},
		{Line: 3, Outcome: "invalid"},
		{Line: 4, Account: "acct-1", Trigger: "qr_received", Outcome: "applied", To: "QR_REQUIRED", Version: 2},
		{Line: 6, Account: "acct-1", Trigger: "probe_ok", Outcome: "rejected", To: "QR_REQUIRED", Version: 3},
		{Line: 7, Account: "acct-1", Trigger: "qr_scanned", Outcome: "conflict", To: "QR_REQUIRED", Version: 3},
		{Line: 8, Code: "too_large"},
		{Line: 9, Account: "acct-2", Trigger: "start", Outcome: "applied", To: "CONNECTING", Version: 1},
		{Line: 10, Account: "acct-1", Trigger: "qr_scanned", Outcome: "applied", To: "SYNCING", Version: 4},
	}
	if len(got) != len(want) {
		t.Fatalf("%d answers, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		g := got[i]
		if g.Outcome == "invalid" && g.Reason == "" || g.Code != "" && g.Detail == "" {
			t.Errorf("line %d says no reason: %+v", g.Line, g)
		}
		g.From, g.Reason, g.Detail = "", "", ""
		if g != want[i] {
			t.Errorf("answer %d is %+v, want %+v", i, g, want[i])
		}
	}
}

func TestBatchKeepsTheOrderOfEachAccount(t *testing.T) {
	s := shared(t)
	const accounts, rounds = 50, 40
	var body strings.Builder
	for r := range rounds {
		for a := range accounts {
			fmt.Fprintf(&body, `{"account":"acct-%d","trigger":"message_sent","key":"m-%d"}`+"\n", a, r)
		}
	}
	got := s.batch(body.String())
	if len(got) != accounts*rounds {
		t.Fatalf("%d answers, want %d", len(got), accounts*rounds)
	}
	for i, g := range got {
		if g.Line != i+1 || g.Account != fmt.Sprint("acct-", i%accounts) || g.Version != uint64(i/accounts+1) {
			t.Fatalf("answer %d is %+v", i, g)
		}
	}
}

// TestBatchIsAnsweredWhileItIsSent sends a line only when the one before is
// answered.
func TestBatchIsAnsweredWhileItIsSent(t *testing.T) {
	s := shared(t)
	in, out := io.Pipe()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/triggers", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answers := bufio.NewScanner(resp.Body)
	for i, trigger := range []string{"start", "qr_received", "rubbish", "qr_scanned"} {
		if _, err := fmt.Fprintf(out, `{"account":"acct-1","trigger":%q}`+"\n", trigger); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() {
			t.Fatalf("no answer to %s: %v", trigger, answers.Err())
		}
		if got := lines(t, answers.Bytes())[0]; got.Line != i+1 || got.Trigger != trigger && got.Outcome != "invalid" {
			t.Errorf("answer to %s: %+v", trigger, got)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if answers.Scan() {
		t.Errorf("more than was asked for: %s", answers.Text())
	}
}

// TestBatchEndsWithTheServer ends the server while a batch pauses: the client
// learns that the rest was not read.
func TestBatchEndsWithTheServer(t *testing.T) {
	s := shared(t)
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/triggers", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answers := bufio.NewScanner(resp.Body)
	if _, err := io.WriteString(out, `{"account":"acct-1","trigger":"start"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if !answers.Scan() {
		t.Fatal("no answer")
	}
	begin := time.Now()
	s.end()
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the server took %v to end", took)
	}
	if !answers.Scan() {
		t.Fatalf("no last line: %v", answers.Err())
	}
	if got := lines(t, answers.Bytes())[0]; got.Line != 0 || got.Code != "shutting_down" {
		t.Errorf("last line %+v", got)
	}
}
