package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/domain"
)

// lines are the log lines of the events so far, with their ids.
func lines(l *connectortest.Ledger) (lines []string) {
	for _, e := range l.Events() {
		_, line, _ := strings.Cut(domain.LogLine(e), "] ")
		lines = append(lines, line+" #"+e.ID)
	}
	return lines
}

const secret = "a-secret-of-toys"

// setup is a hub with the toy and a second source of it.
func setup(t *testing.T, l *connectortest.Ledger, change func(*hub.Config)) (*hub.Hub, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	cfg := hub.Config{Ledger: l, Memory: &hub.MapMemory{}, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&cfg)
	}
	h, err := hub.New(cfg, []hub.Entry{
		{Connector: connectortest.Toy{}, Source: &connector.Source{Kind: "toy", Name: "toy", Secrets: []string{secret, "the-old-one"}}},
		{Connector: connectortest.Toy{}, Source: &connector.Source{Kind: "toy", Name: "toy-2", Secrets: []string{"another"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, &log
}

func post(h http.Handler, path, token, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	h.ServeHTTP(w, r)
	return w
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func TestOrderOfChecks(t *testing.T) {
	large := strings.Repeat(" ", hub.MaxBody+1)
	tests := []struct {
		name, method, path, token, body string
		status                          int
		header, value                   string
	}{
		{"unknown kind, wrong method, too large", "PUT", "/hooks/none", "", large, 404, "Content-Type", "application/problem+json"},
		{"unknown source", "POST", "/hooks/toy/none", secret, "[]", 404, "", ""},
		{"too many segments", "POST", "/hooks/toy/toy/more", secret, "[]", 404, "", ""},
		{"outside", "POST", "/other/toy", secret, "[]", 404, "", ""},
		{"wrong method, too large", "PUT", "/hooks/toy", "", large, 405, "Allow", "POST, OPTIONS"},
		{"too large, not authentic", "POST", "/hooks/toy", "guess", large, 413, "", ""},
		{"too large a handshake", "OPTIONS", "/hooks/toy", "", large, 413, "", ""},
		{"handshake", "OPTIONS", "/hooks/toy", "", "", 200, "Toy", "yes"},
		{"not authentic, malformed", "POST", "/hooks/toy", "guess", "{", 401, "WWW-Authenticate", `Webhook realm="toy"`},
		{"another source's secret", "POST", "/hooks/toy", "another", "[]", 401, "", ""},
		{"malformed", "POST", "/hooks/toy", secret, "{", 400, "", ""},
		{"good", "POST", "/hooks/toy", secret, "[]", 200, "", ""},
		{"good, the older secret, a slash at the end", "POST", "/hooks/toy/", "the-old-one", "[]", 200, "", ""},
		{"good, the event's name behind it", "POST", "/hooks/toy/event", secret, "[]", 200, "", ""},
		{"good, the other source", "POST", "/hooks/toy/toy-2", "another", "[]", 200, "", ""},
		{"good, the other source with the event's name", "POST", "/hooks/toy/toy-2/event", "another", "[]", 200, "", ""},
		{"as large as may be", "POST", "/hooks/toy", secret, "[" + strings.Repeat(" ", hub.MaxBody-2) + "]", 200, "", ""},
	}
	for _, unknown := range []bool{false, true} { // is the body's length known before?
		l := connectortest.NewLedger()
		h, log := setup(t, l, nil)
		for _, tt := range tests {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(tt.method, tt.path+"?key=in-the-query", strings.NewReader(tt.body))
			if unknown {
				r.ContentLength = -1
			}
			r.Header.Set("Authorization", "Bearer "+tt.token)
			h.ServeHTTP(w, r)
			if w.Code != tt.status || tt.header != "" && w.Header().Get(tt.header) != tt.value {
				t.Errorf("%s (length unknown: %v): %d %v, want %d", tt.name, unknown, w.Code, w.Header(), tt.status)
			}
			if body := w.Body.String(); strings.Contains(body, secret) || strings.Contains(body, "guess") {
				t.Errorf("%s: the answer holds %s", tt.name, body)
			}
		}
		same(t, "events", lines(l), "[]")
		for _, hidden := range []string{secret, "guess", "another", "in-the-query"} {
			if strings.Contains(log.String(), hidden) {
				t.Errorf("the log holds %q: %s", hidden, log)
			}
		}
		s := h.Stats()[0]
		same(t, "counters", []any{s.Name, s.Requests, s.Unauthenticated, s.Malformed, s.TooLarge, s.Aborted, s.LastRefusal},
			"[toy 11 2 1 2 0 the token is not the source's]")
	}
}

func TestDeliveries(t *testing.T) {
	l := connectortest.NewLedger()
	h, _ := setup(t, l, nil)
	for i, step := range []struct{ body, want string }{
		{`[{"id":"1","account":"a","triggers":["ready"]},{"id":"2","account":"b","triggers":["start"]}]`, ""},
		{`[{"id":"1","account":"a","triggers":["ready"]}]`, "known"},
		{`[{"id":"3","account":"a","triggers":["begin"]}]`, "two triggers"},
		{`[{"id":"3","account":"a","triggers":["begin"]}]`, "known, though begin is one trigger now"},
		{`[{"account":"a","triggers":["start"]},{"account":"a","triggers":["start"]}]`, "no id: judged again"},
		{`[{"boring":true},{"unknown":"fly"},{"id":"9","account":"c","triggers":["known"]}]`, "nothing"},
		{`[{"id":"10","account":"` + strings.Repeat("x", 200) + `","triggers":["start"]}]`, "no account can be made of it"},
		{`[{"id":"11","account":"b","triggers":["connection_ready"]},{"id":"12","account":"*","triggers":["probe_failed"]}]`, "all that are up"},
	} {
		if w := post(h, "/hooks/toy", secret, step.body); w.Code != http.StatusOK || w.Body.Len() != 0 {
			t.Errorf("step %d: %d %s", i, w.Code, w.Body)
		}
	}
	want := []string{
		"toy:a: IDLE -> RUNNING via adopt #1", "toy:b: IDLE -> CONNECTING via start #2",
		"toy:a: RUNNING -> DISCONNECTED via connection_lost #3", "toy:a: DISCONNECTED -> RECONNECTING via start #3#2",
		"toy:a: RECONNECTING -x start (noop) #", "toy:a: RECONNECTING -x start (noop) #",
		"toy:b: CONNECTING -> RUNNING via connection_ready #11", "toy:b: RUNNING -> DEGRADED via probe_failed #12",
	}
	got := lines(l)
	if len(got) > 2 && got[0] > got[1] { // accounts of one request have no order
		got[0], got[1] = got[1], got[0]
	}
	same(t, "events", strings.Join(got, "\n"), strings.Join(want, "\n"))
	s := h.Stats()[0]
	same(t, "counters", fmt.Sprint(s.Facts, s.Duplicates, s.Ignored, s.Unmapped, s.Outcomes["applied"], s.Outcomes["noop"], s.Outcomes["invalid"]), "7 2 2 2 6 2 1")
	samples, ok := h.Samples("toy")
	if !ok || len(samples) != 2 || samples[0].What != "event fly" || samples[0].Kept["event"] != "fly" || samples[1].Kept["trigger"] != "start" {
		t.Errorf("the samples are %+v", samples)
	}
	for _, e := range l.Events() {
		if e.Source != "toy" || e.At == 0 {
			t.Errorf("%s has source %q and time %d", domain.LogLine(e), e.Source, e.At)
		}
	}
}

// TestNewest: of such deliveries only a repeat of the last one is known.
func TestNewest(t *testing.T) {
	l := connectortest.NewLedger()
	h, _ := setup(t, l, nil)
	down, up := `[{"id":"down","newest":true,"account":"a","triggers":["begin"]}]`, `[{"id":"up","newest":true,"account":"a","triggers":["ready"]}]`
	for _, body := range []string{up, up, down, down, up, down, up, up} {
		if w := post(h, "/hooks/toy", secret, body); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	want := []string{
		"toy:a: IDLE -> RUNNING via adopt #up",
		"toy:a: RUNNING -> DISCONNECTED via connection_lost #down", "toy:a: DISCONNECTED -> RECONNECTING via start #down#2",
		"toy:a: RECONNECTING -> RUNNING via connection_ready #up~2",
		"toy:a: RUNNING -> DISCONNECTED via connection_lost #down~2", "toy:a: DISCONNECTED -> RECONNECTING via start #down~2#2",
		"toy:a: RECONNECTING -> RUNNING via connection_ready #up~3",
	}
	same(t, "events", strings.Join(lines(l), "\n"), strings.Join(want, "\n"))
}

// TestSamplesAreTheLast: no more than twenty are kept.
func TestSamplesAreTheLast(t *testing.T) {
	h, _ := setup(t, connectortest.NewLedger(), nil)
	for i := range 25 {
		post(h, "/hooks/toy", secret, fmt.Sprintf(`[{"unknown":"e-%d"}]`, i))
	}
	samples, _ := h.Samples("toy")
	if len(samples) != 20 || samples[0].What != "event e-5" || samples[19].What != "event e-24" {
		t.Errorf("%d samples, from %v", len(samples), samples)
	}
	if _, ok := h.Samples("none"); ok {
		t.Error("a source that there is not has samples")
	}
}

// TestMappedOnAnOldAccount: another writer moves the account between the look and
// the judgement; what was mapped on the older one is not judged.
func TestMappedOnAnOldAccount(t *testing.T) {
	l := connectortest.NewLedger()
	h, _ := setup(t, l, nil)
	post(h, "/hooks/toy", secret, `[{"id":"1","account":"a","triggers":["ready"]}]`)
	moved := false
	l.Looked = func() {
		if !moved {
			moved = true
			l.Put(domain.Trigger{Account: "toy:a", Name: "connection_lost", Source: "another", HasAt: true, At: time.Now().UnixNano(), Expect: domain.NoExpect})
		}
	}
	if w := post(h, "/hooks/toy", secret, `[{"id":"2","account":"a","triggers":["begin"]}]`); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	want := []string{
		"toy:a: IDLE -> RUNNING via adopt #1", "toy:a: RUNNING -> DISCONNECTED via connection_lost #", "toy:a: DISCONNECTED -> RECONNECTING via start #2",
	}
	same(t, "events", strings.Join(lines(l), "\n"), strings.Join(want, "\n"))

	l.Looked = func() { // and one that never stops is given up
		l.Put(domain.Trigger{Account: "toy:a", Name: "user_action_needed", HasAt: true, At: time.Now().UnixNano(), Expect: domain.NoExpect})
	}
	if w := post(h, "/hooks/toy", secret, `[{"id":"3","account":"a","triggers":["start"]}]`); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s, want 503", w.Code, w.Body)
	}
}

// TestTheLogTakesNothing: the peer is told to come again, and what it repeats is
// judged once.
func TestTheLogTakesNothing(t *testing.T) {
	l := connectortest.NewLedger()
	h, log := setup(t, l, nil)
	fault := errors.New("the disk is on fire")
	l.Before = func(*domain.Trigger) error { return fault }
	body := `[{"id":"1","account":"a","triggers":["ready"]},{"id":"2","account":"b","triggers":["ready"]},{"unknown":"x"}]`
	w := post(h, "/hooks/toy", secret, body)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "fire") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if !strings.Contains(log.String(), "the disk is on fire") {
		t.Errorf("the operator is not told: %s", log)
	}
	l.Before = func(t *domain.Trigger) error {
		if t.Account == "toy:b" {
			return fault
		}
		return nil
	}
	if w := post(h, "/hooks/toy", secret, body); w.Code != http.StatusServiceUnavailable {
		t.Errorf("half of it: %d, want 503", w.Code)
	}
	l.Before = nil
	if w := post(h, "/hooks/toy", secret, body); w.Code != http.StatusOK {
		t.Errorf("at last: %d", w.Code)
	}
	same(t, "events", lines(l), []string{"toy:a: IDLE -> RUNNING via adopt #1", "toy:b: IDLE -> RUNNING via adopt #2"})
	s := h.Stats()[0]
	same(t, "counters", fmt.Sprint(s.Unavailable, s.Facts, s.Duplicates, s.Unmapped), "2 1 1 1")
}

// TestALaterTriggerIsWaitedFor: once the first trigger of a delivery is stored,
// the peer's repeat would be a duplicate; so the second one is tried on.
func TestALaterTriggerIsWaitedFor(t *testing.T) {
	l := connectortest.NewLedger()
	h, _ := setup(t, l, nil)
	post(h, "/hooks/toy", secret, `[{"id":"1","account":"a","triggers":["ready"]}]`)
	faults := 3
	l.Before = func(t *domain.Trigger) error {
		if t.Name == "start" && faults > 0 {
			faults--
			return errors.New("not now")
		}
		return nil
	}
	if w := post(h, "/hooks/toy", secret, `[{"id":"2","account":"a","triggers":["begin"]}]`); w.Code != http.StatusOK || faults != 0 {
		t.Errorf("%d, %d faults left", w.Code, faults)
	}
	same(t, "state", l.Peek("toy:a").State, "RECONNECTING")
}

// TestOneAccountInOrder: deliveries of one account are served one after the other,
// others side by side.
func TestOneAccountInOrder(t *testing.T) {
	l := connectortest.NewLedger()
	h, _ := setup(t, l, nil)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			account := "a"
			if i%2 == 0 {
				account = fmt.Sprint("other-", i)
			}
			if w := post(h, "/hooks/toy", secret, fmt.Sprintf(`[{"id":"%d","account":"%s","triggers":["begin"]}]`, i, account)); w.Code != http.StatusOK {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	wg.Wait()
	same(t, "version of the one", l.Peek("toy:a").Version, 32)
	same(t, "accounts", len(l.Accounts()), 33)
	same(t, "conflicts", h.Stats()[0].Outcomes["conflict"], 0)
}

// TestTooManyAtOnce: beyond the bound a peer is told to come again; Close lets
// those finish that are inside.
func TestTooManyAtOnce(t *testing.T) {
	l := connectortest.NewLedger()
	h, _ := setup(t, l, func(c *hub.Config) { c.Most = 1 })
	inside, leave := make(chan struct{}), make(chan struct{})
	l.Before = func(*domain.Trigger) error { close(inside); <-leave; return nil }
	done := make(chan int)
	go func() {
		done <- post(h, "/hooks/toy", secret, `[{"id":"1","account":"a","triggers":["ready"]}]`).Code
	}()
	<-inside
	if w := post(h, "/hooks/toy", secret, `[]`); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v, want 503", w.Code, w.Header())
	}
	bounded, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := h.Close(bounded); err == nil {
		t.Error("Close did not wait for who is inside")
	}
	close(leave)
	same(t, "the first one", <-done, 200)
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	same(t, "after the end", post(h, "/hooks/toy", secret, `[]`).Code, 503)
}

// TestSlowAndDyingSenders over real connections.
func TestSlowAndDyingSenders(t *testing.T) {
	l := connectortest.NewLedger()
	h, _ := setup(t, l, func(c *hub.Config) { c.BodyWithin = 100 * time.Millisecond })
	srv := httptest.NewServer(h)
	defer srv.Close()
	body := `[{"id":"1","account":"a","triggers":["ready"]}]`
	head := fmt.Sprintf("POST /hooks/toy HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", secret, len(body))
	dial := func() net.Conn {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	slow := dial() // sends half and then nothing
	defer slow.Close()
	if _, err := io.WriteString(slow, head+body[:10]); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(slow)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("a slow sender gets %q, %v", answer, err)
	}
	dying := dial() // sends half and goes
	if _, err := io.WriteString(dying, head+body[:10]); err != nil {
		t.Fatal(err)
	}
	dying.Close()
	until(t, func() bool { return h.Stats()[0].Aborted == 2 })
	same(t, "events", lines(l), "[]")

	gone := dial() // sends all and goes before the answer
	if _, err := io.WriteString(gone, head+body); err != nil {
		t.Fatal(err)
	}
	gone.Close()
	until(t, func() bool { return len(lines(l)) == 1 })
	same(t, "events", lines(l), "[toy:a: IDLE -> RUNNING via adopt #1]")

	patient := dial() // the time for a body is no time for the next request
	defer patient.Close()
	for range 2 {
		if _, err := io.WriteString(patient, head+body); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(patient, line); err != nil || string(line) != "HTTP/1.1 200" {
			t.Fatalf("%q, %v", line, err)
		}
		drain(t, patient)
		<-time.After(150 * time.Millisecond) // longer than a body may take
	}
}

// drain reads to the end of an answer without a body.
func drain(t *testing.T, c net.Conn) {
	t.Helper()
	var text []byte
	one := make([]byte, 1)
	for !bytes.HasSuffix(text, []byte("\r\n\r\n")) {
		if _, err := io.ReadFull(c, one); err != nil {
			t.Fatal(err)
		}
		text = append(text, one...)
	}
}

// until polls until ok says so.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	bound := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-bound:
			t.Fatal("it did not come to that within 30 s")
		}
	}
}

func TestTwoSourcesOfOneName(t *testing.T) {
	s := &connector.Source{Kind: "toy", Name: "toy", Secrets: []string{secret}}
	_, err := hub.New(hub.Config{Ledger: connectortest.NewLedger(), Memory: &hub.MapMemory{}}, []hub.Entry{{Connector: connectortest.Toy{}, Source: s}, {Connector: connectortest.Toy{}, Source: s}})
	if err == nil || !strings.Contains(err.Error(), `two sources "toy"`) {
		t.Errorf("got %v", err)
	}
	if _, err := hub.New(hub.Config{}, nil); err == nil {
		t.Error("a hub without a ledger was made")
	}
}
