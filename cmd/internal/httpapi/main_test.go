package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/musterhq/muster/cmd/internal/app"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/domain/lifecycle"
)

// The goroutine is the NATS library's: it waits for ever on the status of a
// connection that was closed while it began.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// within is how long anything may take on a loaded machine.
const within = 60 * time.Second

// server is a whole Muster in this process.
type server struct {
	t    testing.TB
	app  *app.App
	url  string
	dir  string
	stop context.CancelFunc
	done chan error
	http *http.Client
}

// start starts a server on a folder; changes are made to its configuration.
func start(t testing.TB, dir string, changes ...func(*config.Config)) *server {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.HTTP, cfg.NATSListen = dir, "127.0.0.1:0", "127.0.0.1:0"
	for _, c := range changes {
		c(&cfg)
	}
	reg, origins := lifecycle.Registry(), map[string]string{}
	for _, m := range reg.List() {
		origins[m.Name()] = "built-in"
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{
		t: t, dir: dir, stop: cancel, done: make(chan error, 1), http: &http.Client{Transport: &http.Transport{}},
		app: app.New(app.Options{Config: cfg, Machines: reg, Origins: origins, Version: "test", Logger: slog.New(slog.DiscardHandler)}),
	}
	go func() { s.done <- s.app.Run(ctx) }()
	select {
	case <-s.app.Ready():
	case err := <-s.done:
		t.Fatalf("the server did not start: %v", err)
	case <-time.After(within):
		t.Fatal("the server did not get ready")
	}
	s.url = "http://" + s.app.HTTPAddr()
	t.Cleanup(s.end)
	return s
}

// end ends the server in order; a second time it does nothing.
func (s *server) end() {
	s.stop()
	if s.done == nil {
		return
	}
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Errorf("the server ended with: %v", err)
		}
	case <-time.After(within):
		s.t.Error("the server did not end")
	}
	s.done = nil
	s.http.CloseIdleConnections()
}

// shared is one server for all tests that only add accounts of their own.
func shared(t *testing.T) *server {
	t.Helper()
	return start(t, t.TempDir())
}

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes a request; headers come as name, value.
func (s *server) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	return ask(s.t, s.http, method, s.url+path, body, headers...)
}

func ask(t testing.TB, c *http.Client, method, url, body string, headers ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return answer{resp.StatusCode, resp.Header, got}
}

// get asks for something that must be there, in any form.
func (s *server) get(path string, into any) answer {
	s.t.Helper()
	a := s.do(http.MethodGet, path, "")
	a.want(s.t, http.StatusOK)
	if into != nil {
		a.read(s.t, into)
	}
	return a
}

// trigger sends a trigger of an account and wants a status.
func (s *server) trigger(account, body string, status int, headers ...string) answer {
	s.t.Helper()
	a := s.do(http.MethodPost, "/v1/accounts/"+account+"/triggers", body, headers...)
	a.want(s.t, status)
	return a
}

// sent sends an account's triggers, each of which must be applied or a noop, and
// returns where the last one stands.
func (s *server) sent(account string, triggers ...string) string {
	s.t.Helper()
	asOf := ""
	for _, name := range triggers {
		asOf = s.trigger(account, fmt.Sprintf(`{"trigger":%q,"source":"waha-1","by":"user"}`, name), http.StatusOK).header.Get("Muster-As-Of")
	}
	return asOf
}

func (a answer) want(t testing.TB, status int) {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
}

func (a answer) read(t testing.TB, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(a.body))
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

// problem is what every error is.
type problem struct {
	Type, Title, Code, Detail string
	Status                    int
	Retry                     bool
	Verdict                   *struct {
		Outcome, Earlier, From, To, Reason string
		Version                            uint64
	}
	Errors []struct{ Where, Detail string }
}

// problem reads a problem and holds it to what RFC 9457 and the table ask for.
func (a answer) problem(t testing.TB, code string) problem {
	t.Helper()
	var p problem
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("content type %q: %s", got, a.body)
	}
	a.read(t, &p)
	if p.Code != code || p.Status != a.status || p.Detail == "" {
		t.Fatalf("status %d with %s, want code %s", a.status, a.body, code)
	}
	return p
}
