package app

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/alert"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/cmd/internal/telemetry"
	"github.com/musterhq/muster/domain"
)

// receiver is an alert endpoint that keeps the trace contexts it is given.
type receiver struct {
	mu   sync.Mutex
	seen []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	_, _ = io.Copy(io.Discard, q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, q.Header.Get("traceparent"))
}

func (r *receiver) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.seen, func(tp string) bool { return strings.Contains(tp, id) })
}

// TestOneTrace: whichever way a trigger comes, one trace leads from there through
// judging, storing, syncing and the views to the alert, and stands in the feed.
func TestOneTrace(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	told := &receiver{}
	pager := httptest.NewServer(told)
	defer pager.Close()
	secret, err := alert.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	s := serving(t, func(o *Options) {
		o.Tracer = telemetry.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
		o.Config.Connectors = []config.Connector{webhook("shop", "a secret of the shop")}
		o.Config.Alerts.Settings = alert.Settings{
			Debounce: -1, Gather: 50 * time.Millisecond, Endpoints: []alert.Endpoint{{Name: "pager", URL: pager.URL, Secrets: []alert.Secret{secret}}},
		}
	})
	nc, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	feed, err := nc.SubscribeSync(bus.FeedSubjects)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	post := func(path, tp, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.HTTPAddr()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer a secret of the shop")
		if !strings.HasPrefix(path, "/hooks/") {
			r.Header.Del("Authorization")
		}
		r.Header.Set("traceparent", tp)
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	// Each of the ways ends in QR_REQUIRED, for which a human is told.
	ways := map[string]struct {
		id   string // of the trace
		span string // of the way in; "" = it has none of its own
		send func(tp string)
	}{
		"webhook": {"0af7651916cd43dd8448eb211c803101", "POST /hooks/plain", func(tp string) {
			post("/hooks/plain/shop", tp, `{"account":"hooked","trigger":"qr_received"}`)
		}},
		"HTTP": {"0af7651916cd43dd8448eb211c803102", "POST /v1/accounts", func(tp string) {
			post("/v1/accounts/asked/triggers", tp, `{"trigger":"qr_received","source":"cli"}`)
		}},
		"NATS": {"0af7651916cd43dd8448eb211c803103", "", func(tp string) {
			m := &nats.Msg{Subject: "muster.cmd.said", Header: nats.Header{"traceparent": {tp}}, Data: []byte(`{"trigger":"qr_received","source":"cli"}`)}
			if r, err := nc.RequestMsg(m, within); err != nil || !strings.Contains(string(r.Data), "applied") {
				t.Fatalf("%v %v", r, err)
			}
		}},
		"inbox": {"0af7651916cd43dd8448eb211c803104", "", func(tp string) {
			m := &nats.Msg{Subject: "muster.in.waited", Header: nats.Header{"traceparent": {tp}}, Data: []byte(`{"trigger":"qr_received","source":"cli"}`)}
			if _, err := nc.RequestMsg(m, within); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			way.send("00-" + way.id + "-b7ad6b7169203331-01")
			want := []string{"alert", "append", "fsync", "judge", "project", "trigger"}
			if way.span != "" {
				want = append([]string{way.span}, want...)
			}
			var got []string
			until(t, "all spans are there", func() bool {
				got = nil
				for _, sp := range spans.GetSpans() {
					if sp.SpanContext.TraceID().String() == way.id {
						got = append(got, sp.Name)
					}
				}
				slices.Sort(got)
				got = slices.Compact(got)
				return len(got) >= len(want)
			})
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("the trace has %q, want %q", got, want)
			}
			if !told.has(way.id) {
				t.Error("the alert does not carry the trace")
			}
			m, err := feed.NextMsg(within)
			if err != nil {
				t.Fatal(err)
			}
			var e bus.Event
			if err := json.Unmarshal(m.Data, &e); err != nil || !strings.Contains(e.Traceparent, way.id) {
				t.Errorf("the feed has traceparent %q, %v", e.Traceparent, err)
			}
		})
	}
	for _, sp := range spans.GetSpans() {
		for _, a := range sp.Attributes {
			for _, account := range []string{"hooked", "asked", "said", "waited"} {
				if strings.Contains(a.Value.Emit()+sp.Name, account) {
					t.Errorf("span %s names an account: %v", sp.Name, a)
				}
			}
		}
	}
}

// TestTriggersWithoutATrace begin one of their own.
func TestTriggersWithoutATrace(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	s := serving(t, func(o *Options) {
		o.Tracer = telemetry.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	})
	r, err := s.client(t).Send(t.Context(), domain.Trigger{Account: "a", Name: "start", Source: "cli", Expect: domain.NoExpect})
	if err != nil || r.Outcome != domain.Applied {
		t.Fatalf("%+v %v", r, err)
	}
	until(t, "the views' span is there", func() bool {
		return slices.ContainsFunc(spans.GetSpans(), func(sp tracetest.SpanStub) bool { return sp.Name == "project" })
	})
	traces := map[string]bool{}
	for _, sp := range spans.GetSpans() {
		traces[sp.SpanContext.TraceID().String()] = true
	}
	if len(traces) != 1 {
		t.Errorf("%d traces, want 1", len(traces))
	}
}
