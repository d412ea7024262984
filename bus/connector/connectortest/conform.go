package connectortest

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/bus/connector/sign"
	"github.com/musterhq/muster/domain"
)

// Subject is what a connector is tested with. The source has two secrets, as
// while one replaces the other.
type Subject struct {
	Connector connector.Connector
	Source    connector.Source

	Fact    Sample // makes an event in an empty Muster
	Later   Sample // a later fact of the same account, which moves its state
	Unknown Sample // well-formed, and not known; without a body: there is no such thing
	// Hidden are texts of these samples that must be kept nowhere: what people
	// wrote, names, pictures, codes.
	Hidden []string
	// Timed says that facts carry the peer's time, so that their order of arrival
	// does not matter.
	Timed bool
	// ByArrival says that a repeat of the fact cannot be told from a new one.
	ByArrival bool
}

// Sample is a request without its proof.
type Sample struct {
	Header map[string]string // beside Content-Type: application/json
	Body   string
}

// Conform gives a connector what every one must withstand.
func Conform(t *testing.T, s Subject) {
	t.Helper()
	if len(s.Source.Secrets) != 2 {
		t.Fatalf("the source has %d secrets, want two", len(s.Source.Secrets))
	}
	for _, c := range []struct {
		name string
		test func(*bench)
	}{
		{"proof right", (*bench).proofRight}, {"proof wrong or missing", (*bench).proofWrong}, {"proof of another body", (*bench).proofOfAnother},
		{"replayed", (*bench).replayed}, {"at once", (*bench).atOnce}, {"reordered", (*bench).reordered}, {"unknown", (*bench).unknown},
		{"too large", (*bench).tooLarge}, {"malformed", (*bench).malformed}, {"dying sender", (*bench).dying}, {"log that takes nothing", (*bench).noLog},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, &s)
			c.test(b)
			b.nothingLeaks()
		})
	}
}

// bench is a hub with the connector, an empty history and a log that is kept.
type bench struct {
	*testing.T
	s       *Subject
	h       *hub.Hub
	ledger  *Ledger
	log     syncBuffer
	mu      sync.Mutex
	answers bytes.Buffer
}

// syncBuffer is a buffer that many goroutines may write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func newBench(t *testing.T, s *Subject) *bench {
	t.Helper()
	b := &bench{T: t, s: s, ledger: NewLedger()}
	b.restart()
	return b
}

// restart begins again with an empty history.
func (b *bench) restart() {
	b.Helper()
	b.ledger = NewLedger()
	logger := slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h, err := hub.New(hub.Config{Ledger: b.ledger, Memory: &hub.MapMemory{}, Logger: logger}, []hub.Entry{{Connector: b.s.Connector, Source: &b.s.Source}})
	if err != nil {
		b.Fatal(err)
	}
	b.h = h
}

// signed makes the request that the peer sends under a secret ("": no proof).
func (b *bench) signed(one *Sample, secret string) *connector.Request {
	b.Helper()
	r := &connector.Request{
		Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, Query: url.Values{}, Body: []byte(one.Body), At: time.Now().UnixNano(),
	}
	for name, value := range one.Header {
		r.Header.Set(name, value)
	}
	if secret == "" {
		return r
	}
	source := b.s.Source
	source.Secrets = []string{secret}
	if err := sign.Request(&source, r); err != nil {
		b.Fatal(err)
	}
	return r
}

// serve gives a request to the hub and returns the status of the answer.
func (b *bench) serve(r *connector.Request) int {
	b.Helper()
	w := httptest.NewRecorder()
	req := httptest.NewRequest(r.Method, b.path(r), bytes.NewReader(r.Body))
	req.Header = r.Header.Clone()
	b.h.ServeHTTP(w, req)
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintln(&b.answers, w.Header(), w.Body)
	return w.Code
}

func (b *bench) path(r *connector.Request) string {
	path := hub.Prefix + b.s.Source.Kind
	if b.s.Source.Name != b.s.Source.Kind {
		path += "/" + b.s.Source.Name
	}
	return path + "?" + r.Query.Encode()
}

// good serves a sample with its proof and wants 200.
func (b *bench) good(one *Sample) {
	b.Helper()
	if status := b.serve(b.signed(one, b.s.Source.Secrets[0])); status != http.StatusOK {
		b.Fatalf("a good request gets %d\n%s", status, b.answers.String())
	}
}

func (b *bench) stats() hub.Stats { return b.h.Stats()[0] }

// nothing wants an empty history.
func (b *bench) nothing(when string) {
	b.Helper()
	if n := len(b.ledger.Events()); n != 0 {
		b.Errorf("%s: %d events, want none", when, n)
	}
}

// nothingLeaks looks for the secrets and the hidden texts in everything that is
// kept or said.
func (b *bench) nothingLeaks() {
	b.Helper()
	samples, _ := b.h.Samples(b.s.Source.Name)
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	said := map[string][]byte{
		"the log": b.log.b.Bytes(), "an answer": b.answers.Bytes(),
		"a sample": fmt.Appendf(nil, "%v", samples), "the counters": fmt.Appendf(nil, "%+v", b.h.Stats()),
	}
	for _, text := range append(append([]string{}, b.s.Source.Secrets...), b.s.Hidden...) {
		for where, content := range said {
			if form := LeaksIn(content, text); form != "" {
				b.Errorf("%q is in %s as %s", text, where, form)
			}
		}
		for _, e := range b.ledger.Events() {
			if form := Leaks(e, text); form != "" {
				b.Errorf("%q is in an event as %s: %s", text, form, domain.LogLine(e))
			}
		}
	}
}

// proofRight: each of the source's secrets is good.
func (b *bench) proofRight() {
	for _, secret := range b.s.Source.Secrets {
		b.restart()
		if status := b.serve(b.signed(&b.s.Fact, secret)); status != http.StatusOK {
			b.Errorf("it gets %d", status)
		}
		if len(b.ledger.Events()) == 0 {
			b.Error("it makes no event")
		}
	}
}

// proofWrong: no other secret is, nor a broken proof, nor none.
func (b *bench) proofWrong() {
	right := b.s.Source.Secrets[0]
	for _, secret := range []string{"another-secret", right + "x", right[:len(right)-1], strings.ToUpper(right) + "-", ""} {
		if status := b.serve(b.signed(&b.s.Fact, secret)); status != http.StatusUnauthorized {
			b.Errorf("under the secret %q it gets %d, want 401", secret, status)
		}
	}
	for _, proof := range []string{"", "Bearer ", "Bearer", "sha256=", "zz", strings.Repeat("0", 128), "Bearer a.b.c", "Bearer ..", "\xff\xfe"} {
		r := b.signed(&b.s.Fact, "another-secret")
		plain := b.signed(&b.s.Fact, "")
		for name := range r.Header {
			if plain.Header.Get(name) != r.Header.Get(name) && r.Header.Get(name) != "sha512" {
				r.Header.Set(name, proof)
			}
		}
		for name := range r.Query {
			r.Query.Set(name, proof)
		}
		if status := b.serve(r); status != http.StatusUnauthorized {
			b.Errorf("with the proof %q it gets %d, want 401", proof, status)
		}
	}
	b.nothing("without a right proof")
	if s := b.stats(); s.Unauthenticated != 14 || s.LastRefusal == "" {
		b.Errorf("%d refusals are counted, want 14; the last is %q", s.Unauthenticated, s.LastRefusal)
	}
}

// proofOfAnother: where the proof covers the body, it is good for no other one.
func (b *bench) proofOfAnother() {
	fact, later := b.signed(&b.s.Fact, b.s.Source.Secrets[0]), b.signed(&b.s.Later, b.s.Source.Secrets[0])
	if bytes.Equal(fact.Body, later.Body) {
		return // what differs stands in the headers
	}
	covers := false
	for name := range fact.Header {
		covers = covers || len(fact.Header.Get(name)) >= 64 && fact.Header.Get(name) != later.Header.Get(name)
	}
	fact.Body = append(fact.Body, ' ')
	want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusOK}[covers]
	if status := b.serve(fact); status != want {
		b.Errorf("a body that was altered gets %d, want %d", status, want)
	}
}

// replayed: the same request again changes nothing.
func (b *bench) replayed() {
	b.good(&b.s.Fact)
	events := b.ledger.Events()
	for range 3 {
		b.good(&b.s.Fact)
	}
	for _, e := range b.ledger.Events()[len(events):] {
		if !b.s.ByArrival || e.Outcome == domain.Applied {
			b.Errorf("a repeat has appended %s", domain.LogLine(e))
		}
	}
	if d := b.stats().Duplicates; !b.s.ByArrival && d != 3 {
		b.Errorf("%d duplicates are counted, want 3", d)
	}
}

// atOnce: a peer that is impatient sends the same several times side by side.
func (b *bench) atOnce() {
	r := b.signed(&b.s.Fact, b.s.Source.Secrets[0])
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if status := b.serve(r); status != http.StatusOK {
				b.Errorf("it gets %d", status)
			}
		})
	}
	wg.Wait()
	all := b.ledger.Events()
	b.restart()
	b.good(&b.s.Fact)
	once := len(b.ledger.Events())
	for _, e := range all[min(once, len(all)):] {
		if !b.s.ByArrival || e.Outcome == domain.Applied {
			b.Errorf("the same eight times at once has appended %s", domain.LogLine(e))
		}
	}
}

// reordered: in either order all are taken, and, where the peer tells the time,
// the state is the same.
func (b *bench) reordered() {
	b.good(&b.s.Fact)
	b.good(&b.s.Later)
	want := b.states()
	b.restart()
	b.good(&b.s.Later)
	b.good(&b.s.Fact)
	if got := b.states(); b.s.Timed && !maps.Equal(got, want) {
		b.Errorf("in order it ends with %v, the other way round with %v", want, got)
	}
}

func (b *bench) states() map[string]string {
	states := map[string]string{}
	for _, id := range b.ledger.Accounts() {
		states[string(id)] = b.ledger.Peek(id).State
	}
	return states
}

// unknown: counted and kept as a sample, and no event.
func (b *bench) unknown() {
	if b.s.Unknown.Body == "" {
		return
	}
	b.good(&b.s.Unknown)
	b.nothing("unknown")
	samples, _ := b.h.Samples(b.s.Source.Name)
	if s := b.stats(); s.Unmapped != 1 || len(samples) != 1 || samples[0].What == "" {
		b.Errorf("%d unmapped are counted, and %+v is kept; want one of each", s.Unmapped, samples)
	}
}

// tooLarge: refused before the proof is looked at.
func (b *bench) tooLarge() {
	for _, secret := range []string{"", b.s.Source.Secrets[0]} {
		r := b.signed(&b.s.Fact, secret)
		r.Body = append(r.Body, bytes.Repeat([]byte(" "), hub.MaxBody)...)
		if status := b.serve(r); status != http.StatusRequestEntityTooLarge {
			b.Errorf("it gets %d, want 413", status)
		}
	}
	b.nothing("too large")
}

// malformed: a proof that is good for a body that is not gets 400. A peer whose
// proof stands in the body cannot prove anything then.
func (b *bench) malformed() {
	body := b.s.Fact.Body
	bad := []string{"{", "nonsense", `{"a":`, `"text"`, "1", "{}{}", "\x00", "\xff", strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000)}
	for cut := 1; cut < 8; cut++ {
		bad = append(bad, body[:len(body)*cut/8])
	}
	proof := b.signed(&b.s.Fact, b.s.Source.Secrets[0])
	inBody := string(proof.Body) != body
	for _, text := range bad {
		one := Sample{Header: b.s.Fact.Header, Body: text}
		r, want := proof, http.StatusUnauthorized
		if inBody {
			r.Body = []byte(text)
		} else {
			r, want = b.signed(&one, b.s.Source.Secrets[0]), http.StatusBadRequest
		}
		if status := b.serve(r); status != want && status != http.StatusBadRequest {
			b.Errorf("%.40q gets %d, want %d", text, status, want)
		}
	}
	b.nothing("malformed")
}

// dying: a sender that goes in the middle of its body leaves nothing, and others
// are served.
func (b *bench) dying() {
	srv := httptest.NewServer(b.h)
	defer srv.Close()
	r := b.signed(&b.s.Fact, b.s.Source.Secrets[0])
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", b.path(r), len(r.Body)+1)
	if err := r.Header.Write(&head); err != nil {
		b.Fatal(err)
	}
	head.WriteString("\r\n")
	if _, err := c.Write(append(head.Bytes(), r.Body...)); err != nil {
		b.Fatal(err)
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for bound := time.Now().Add(30 * time.Second); b.stats().Aborted == 0; <-tick.C {
		if time.Now().After(bound) {
			b.Fatal("the hub does not see that the sender has gone")
		}
	}
	b.nothing("a sender that went")
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, srv.URL+b.path(r), bytes.NewReader(r.Body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header = r.Header
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		b.Errorf("the next one gets %d, %v", answer.StatusCode, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// noLog: the peer is told to come again, and what it repeats is judged once.
func (b *bench) noLog() {
	b.ledger.Before = func(*domain.Trigger) error { return errNoLog }
	if status := b.serve(b.signed(&b.s.Fact, b.s.Source.Secrets[0])); status != http.StatusServiceUnavailable {
		b.Errorf("it gets %d, want 503", status)
	}
	b.nothing("the log takes nothing")
	b.ledger.Before = nil
	b.good(&b.s.Fact)
	if len(b.ledger.Events()) == 0 {
		b.Error("the repeat makes no event")
	}
}

var errNoLog = fmt.Errorf("the log takes nothing now")
