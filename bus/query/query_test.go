package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within is the bound of every wait in these tests.
const within = 20 * time.Second

// serve runs queries on a server of their own and returns the service and a plain client.
func serve(t *testing.T, cfg Config, queries ...Query) (*bus.Service, *nats.Conn) {
	t.Helper()
	s, err := bus.StartServer(t.Context(), bus.ServerConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	nc, err := s.Connect("muster")
	if err != nil {
		t.Fatal(err)
	}
	svc, err := bus.NewService(nc, bus.ServiceConfig{Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if nc.IsClosed() {
			return
		}
		if err := svc.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := Register(svc, cfg, queries); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(within); err != nil {
		t.Fatal(err)
	}
	client, err := s.Connect("client")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return svc, client
}

func ask(t *testing.T, nc *nats.Conn, name, body string) *nats.Msg {
	t.Helper()
	m, err := nc.Request("muster.q."+name, []byte(body), within)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type double struct {
	N int `json:"n"`
}

func TestQuery(t *testing.T) {
	_, nc := serve(t, Config{}, Query{Name: "math.double", Description: "doubles n", Handle: Of(func(_ context.Context, req double) (any, error) {
		return double{N: 2 * req.N}, nil
	})})
	for body, want := range map[string]string{`{"n":21}`: `{"n":42}`, ``: `{"n":0}`, ` {} `: `{"n":0}`, `null`: `{"n":0}`} {
		got := ask(t, nc, "math.double", body)
		if string(got.Data) != want || len(got.Header) != 0 {
			t.Errorf("%q gives %v %s, want %s", body, got.Header, got.Data, want)
		}
	}
	var info micro.Info
	m, err := nc.Request("$SRV.INFO.muster", nil, within)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	if len(info.Endpoints) != 1 || info.Endpoints[0].Name != "math-double" || info.Endpoints[0].Metadata["description"] != "doubles n" {
		t.Errorf("info %+v", info)
	}
}

func TestErrors(t *testing.T) {
	handle := Of(func(ctx context.Context, req double) (any, error) {
		switch req.N {
		case 1:
			return nil, fmt.Errorf("look it up: %w", &bus.Error{Code: http.StatusNotFound, Title: "not found", Detail: "there is no such account"})
		case 2:
			return nil, errors.New("secret cause")
		case 3:
			<-ctx.Done()
			return nil, ctx.Err()
		case 4:
			return strings.Repeat("x", 2<<20), nil
		default:
			return func() {}, nil // cannot be encoded
		}
	})
	_, nc := serve(t, Config{Timeout: 50 * time.Millisecond}, Query{Name: "try", Handle: handle})
	tests := map[string]struct {
		body  string
		code  int
		says  []string
		retry bool
	}{
		"not JSON":       {`{"n":`, 400, []string{"not JSON"}, false},
		"two values":     {`{} {}`, 400, []string{"not JSON"}, false},
		"unknown field":  {`{"m":1}`, 400, []string{`"m"`}, false},
		"wrong type":     {`{"n":"1"}`, 400, []string{"string", "n"}, false},
		"its own error":  {`{"n":1}`, 404, []string{"there is no such account"}, false},
		"internal":       {`{"n":2}`, 500, []string{"log says why"}, false},
		"too slow":       {`{"n":3}`, 503, []string{"in time"}, true},
		"too large":      {`{"n":4}`, 413, []string{"smaller page"}, false},
		"not encodable":  {`{"n":5}`, 500, []string{"log says why"}, false},
		"a list instead": {`[1]`, 400, []string{"array"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := ask(t, nc, "try", tt.body)
			if got := m.Header.Get(micro.ErrorCodeHeader); got != fmt.Sprint(tt.code) {
				t.Errorf("header says %q, want %d", got, tt.code)
			}
			var p struct {
				Code          int
				Title, Detail string
				Retryable     bool
			}
			if err := json.Unmarshal(m.Data, &p); err != nil {
				t.Fatalf("%s: %v", m.Data, err)
			}
			if p.Code != tt.code || p.Title == "" || p.Retryable != tt.retry || strings.Contains(p.Detail, "secret") {
				t.Errorf("got %s", m.Data)
			}
			for _, part := range tt.says {
				if !strings.Contains(p.Detail, part) {
					t.Errorf("%q does not say %q", p.Detail, part)
				}
			}
		})
	}
}

func TestParallelIsBounded(t *testing.T) {
	var running, most atomic.Int64
	gate := make(chan struct{})
	_, nc := serve(t, Config{Parallel: 3}, Query{Name: "slow", Handle: func(context.Context, json.RawMessage) (any, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-gate
		return n, nil
	}})
	answers := make(chan *nats.Msg, 10)
	sub, err := nc.ChanSubscribe("answers", answers)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for range 10 {
		if err := nc.PublishRequest("muster.q.slow", "answers", nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		select {
		case gate <- struct{}{}:
		case <-time.After(within):
			t.Fatalf("request %d did not start", i)
		}
	}
	for range 10 {
		select {
		case <-answers:
		case <-time.After(within):
			t.Fatal("an answer is missing")
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d ran at once", most.Load())
	}
}

func TestStopWaitsAndThenCancels(t *testing.T) {
	started := make(chan struct{})
	svc, nc := serve(t, Config{}, Query{Name: "endless", Handle: func(ctx context.Context, _ json.RawMessage) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if err := nc.PublishRequest("muster.q.endless", "answers", nil); err != nil {
		t.Fatal(err)
	}
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := svc.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestRegisterRefusesABadTable(t *testing.T) {
	svc, _ := serve(t, Config{})
	for _, q := range []Query{{Name: "x"}, {Name: "a b", Handle: Of(func(context.Context, double) (any, error) { return nil, nil })}} {
		if err := Register(svc, Config{}, []Query{q}); err == nil {
			t.Errorf("query %q was registered", q.Name)
		}
	}
}
