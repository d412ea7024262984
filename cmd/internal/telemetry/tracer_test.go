package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
)

func TestTracingWanted(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"nothing":          {nil, false},
		"an address":       {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, true},
		"one for traces":   {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, true},
		"an exporter":      {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		"none":             {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, false},
		"disabled":         {map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, false},
		"metrics' address": {map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"}, false},
	} {
		if got := TracingWanted(func(k string) string { return tt.env[k] }); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestOTLP sends spans to a collector that the environment names.
func TestOTLP(t *testing.T) {
	got := make(chan string, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type")
		if len(body) == 0 {
			got <- "an empty body"
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	tracer, err := OpenTracer(t.Context(), "v1.2.3")
	if err != nil || tracer == nil {
		t.Fatalf("%v %v", tracer, err)
	}
	now := time.Now()
	tracer.Observer(newWriters(prometheus.NewRegistry())).Group(&command.Group{Began: now, Judged: now, Stored: now, Records: 1, Events: []*domain.Event{
		{Trigger: "start", Outcome: domain.Applied, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}})
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want, said := "POST /v1/traces application/x-protobuf", <-got; said != want {
		t.Errorf("the collector was asked %q, want %q", said, want)
	}
	for name, value := range map[string]string{"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if _, err := OpenTracer(t.Context(), ""); err == nil {
				t.Errorf("%s=%s was taken", name, value)
			}
		})
	}
}

// TestOff: without a Tracer nothing is wrapped.
func TestOff(t *testing.T) {
	t.Setenv("OTEL_SDK_DISABLED", "true")
	off, err := OpenTracer(t.Context(), "")
	if off != nil || err != nil {
		t.Fatalf("%v %v, want none", off, err)
	}
	w := newWriters(prometheus.NewRegistry())
	if got := off.Observer(w); got != command.Observer(w) {
		t.Error("the observer is wrapped")
	}
	tee := &projections.Tee{}
	if got := off.Source(tee, nil); got != projections.Source(tee) {
		t.Error("the source is wrapped")
	}
	mux := http.NewServeMux()
	if got := off.HTTP(mux, "/v1/"); got != http.Handler(mux) {
		t.Error("the handler is wrapped")
	}
}

// TestNotSampled: what its caller does not sample has no spans.
func TestNotSampled(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tracer := NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	o := tracer.Observer(newWriters(prometheus.NewRegistry()))
	now := time.Now()
	for _, tp := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "nonsense", ""} {
		o.Group(&command.Group{Began: now, Judged: now, Stored: now, Records: 1, Events: []*domain.Event{{Trigger: "start", Traceparent: tp}}})
	}
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("%d spans, want none", n)
	}
}

// BenchmarkWriters is what measuring costs a writer for each trigger of a group.
func BenchmarkWriters(b *testing.B) {
	const group = 100
	w := newWriters(prometheus.NewRegistry())
	for name, o := range map[string]command.Observer{
		"off":    (*Tracer)(nil).Observer(w),
		"traced": NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))).Observer(newWriters(prometheus.NewRegistry())),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			now := time.Now()
			g := command.Group{Began: now, Judged: now, Stored: now, Records: group}
			for i := 0; b.Loop(); i++ {
				came := time.Now()
				if i%group == 0 {
					o.Group(&g)
				}
				o.Answered(domain.Applied, nil, time.Since(came))
			}
		})
	}
}
