package telemetry

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/musterhq/muster/domain"
)

// Tracer makes the spans of a trigger's way through the server:
//
//	HTTP request ──► trigger ─┬─► judge
//	(or none: NATS)           ├─► append ──► fsync
//	                          ├─► project
//	                          └─► alert, one for each try
//
// The trigger's span stands in the record as its trace context, so whatever reads
// the history later can hang its own spans on it: projections, alerts, the feed.
// Spans name triggers, outcomes and partitions, never an account.
//
// A nil Tracer makes none: nothing is wrapped then, and nothing costs anything.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	text     propagation.TraceContext
}

// TracingWanted says whether the environment asks for traces: an exporter is named,
// or an address to send them to, and the SDK is not disabled.
func TracingWanted(getenv func(string) string) bool {
	exporter := getenv("OTEL_TRACES_EXPORTER")
	switch {
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return false
	case exporter != "":
		return true
	default:
		return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	}
}

// OpenTracer returns the Tracer that the environment asks for, or nil. It sends
// OTLP over HTTP (protobuf); address, headers, certificates, sampler, batches and
// the resource are those of the standard variables.
func OpenTracer(ctx context.Context, version string) (*Tracer, error) {
	if !TracingWanted(os.Getenv) {
		return nil, nil
	}
	if e := os.Getenv("OTEL_TRACES_EXPORTER"); e != "" && e != "otlp" {
		return nil, fmt.Errorf("open the traces: OTEL_TRACES_EXPORTER is %q; it is otlp or none", e)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" && p != "http/protobuf" {
			return nil, fmt.Errorf("open the traces: %s is %q; only http/protobuf is spoken", name, p)
		}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the traces: %w", err)
	}
	// What the environment says of the resource wins over what is said here.
	res, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "muster"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("open the traces: %w", err)
	}
	return NewTracer(sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))), nil
}

// NewTracer returns a Tracer on a provider, which Close ends.
func NewTracer(p *sdktrace.TracerProvider) *Tracer {
	return &Tracer{provider: p, tracer: p.Tracer("github.com/musterhq/muster")}
}

// Close sends what is still to be sent, at most until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("close the traces: %w", err)
	}
	return nil
}

// traceparent is the name of the header, and the only field that is carried.
const traceparent = "traceparent"

// parent is a context whose span is the one that a trace context names.
func (t *Tracer) parent(ctx context.Context, tp string) context.Context {
	if tp == "" {
		return ctx
	}
	return t.text.Extract(ctx, propagation.MapCarrier{traceparent: tp})
}

// remote is parent for a record's trace context; ok is false when there is none,
// or when its trace is not sampled, so that no span is to be made.
func (t *Tracer) remote(tp string) (ctx context.Context, ok bool) {
	if tp == "" {
		return nil, false
	}
	ctx = t.parent(context.Background(), tp)
	return ctx, trace.SpanContextFromContext(ctx).IsSampled()
}

// text of a context's span, as a header has it; "" = it has none.
func (t *Tracer) header(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	t.text.Inject(ctx, carrier)
	return carrier[traceparent]
}

// about are the attributes of a judged trigger.
func about(e *domain.Event, partition int) trace.SpanStartEventOption {
	return trace.WithAttributes(
		attribute.String("muster.trigger", e.Trigger), attribute.String("muster.outcome", e.Outcome.String()), attribute.Int("muster.partition", partition))
}
