package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

// TestMain leaves out a goroutine of the client library's own that waits on a
// status channel which closing the connection takes away before it is read.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// within bounds what a test waits for.
const within = 30 * time.Second

// server is an App that runs, and who may use it.
type server struct {
	*App
	tokens map[auth.Role]string // made by everybody
}

// settings are the defaults, for a server of a test.
func settings(t *testing.T) config.Config {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(fs)
	if err := fs.Parse([]string{
		"--data", t.TempDir(), "--http", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--partitions", "2",
		"--snapshot-every", "100", "--snapshot-interval", "1s", "--inbox-mib", "16", "--body-mib", "1",
	}); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(fs)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// serving runs an App until the test ends. change may be nil.
func serving(t *testing.T, change func(*Options)) *server {
	t.Helper()
	opts := Options{Config: settings(t), Machines: lifecycle.Registry(), Version: "v1.2.3"}
	if change != nil {
		change(&opts)
	}
	a := New(opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(within):
			t.Error("the server does not end")
		}
	})
	select {
	case <-a.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("the server does not start: %v", err)
	case <-time.After(within):
		t.Fatal("the server does not start")
	}
	return &server{App: a, tokens: map[auth.Role]string{}}
}

// client is a client of the bus in this process, which needs no token.
func (s *server) client(t *testing.T) *bus.Client {
	t.Helper()
	nc, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return bus.NewClient(nc, bus.ClientConfig{})
}

// everybody makes a token of every role. The connector speaks for waha-1.
func (s *server) everybody(t *testing.T) {
	t.Helper()
	c := s.client(t)
	for _, role := range []auth.Role{auth.Admin, auth.Operator, auth.Reader, auth.Connector} {
		id, secret, whole := auth.NewSecret()
		req := api.TokenCreateRequest{ID: id, Hash: auth.HashOf(secret), Role: string(role), Name: string(role), By: "test"}
		if role == auth.Connector {
			req.Sources = []string{"waha-1"}
		}
		if err := c.Query(t.Context(), api.TokenCreateQuery, req, nil); err != nil {
			t.Fatal(err)
		}
		s.tokens[role] = whole
	}
}

// ask makes an HTTP request as the holder of a role's token; "" = nobody's. It
// returns the status and the beginning of the body.
func (s *server) ask(t *testing.T, role auth.Role, method, path, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case strings.HasSuffix(body, "\n"): // lines
		r.Header.Set("Content-Type", "application/x-ndjson")
	case body != "":
		r.Header.Set("Content-Type", "application/json")
	}
	if role != "" {
		r.Header.Set("Authorization", "Bearer "+s.tokens[role])
	}
	resp, err := http.DefaultTransport.RoundTrip(r) // follows no redirect
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp.StatusCode, "" // it does not end by itself
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// webhook configures a source of plain webhooks.
func webhook(name, secret string) config.Connector {
	return config.Connector{Source: &connector.Source{Kind: "plain", Name: name, Secrets: []string{secret}}}
}

// send has triggers of one account judged.
func send(t *testing.T, c *bus.Client, account string, triggers ...string) {
	t.Helper()
	for _, name := range triggers {
		r, err := c.Send(t.Context(), domain.Trigger{Account: domain.AccountID(account), Name: name, Source: "test", Expect: domain.NoExpect})
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome == domain.Invalid {
			t.Fatal(errors.New(r.Reason))
		}
	}
}

// until asks again and again until ok says that it is so.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	bound := time.After(within)
	for !ok() {
		select {
		case <-tick.C:
		case <-bound:
			t.Fatal(fmt.Sprint("waited in vain until ", what))
		}
	}
}
