package telemetry

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/musterhq/muster/bus/alert"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/projections"
)

// HTTP makes a span of each request under one of the prefixes, and hands its trace
// context on in the request's own header. Live streams have none: they have no end.
func (t *Tracer) HTTP(next http.Handler, prefixes ...string) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := ""
		for _, p := range prefixes {
			if rest, ok := strings.CutPrefix(r.URL.Path, p); ok && !strings.HasPrefix(rest, "stream") {
				word, _, _ := strings.Cut(rest, "/")
				name = r.Method + " " + p + word // what follows names accounts
			}
		}
		if name == "" {
			next.ServeHTTP(w, r)
			return
		}
		ctx := t.text.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("http.request.method", r.Method)))
		defer span.End()
		r = r.WithContext(ctx)
		r.Header = r.Header.Clone()
		t.text.Inject(ctx, propagation.HeaderCarrier(r.Header))
		seen := &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(seen, r)
		span.SetAttributes(attribute.Int("http.response.status_code", seen.code))
		if seen.code >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(seen.code))
		}
	})
}

// status remembers the status of an answer.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader notes the status.
func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Judged are the writers with a span for each trigger that is given to them.
type Judged struct {
	*command.Set
	t *Tracer
}

// Judged makes the spans of triggers, whichever way they come.
func (t *Tracer) Judged(s *command.Set) Judged { return Judged{s, t} }

// Submit is the writers' own, with a span from taking the trigger to its answer.
// The trigger's trace context becomes the span's.
func (j Judged) Submit(t domain.Trigger, done func(command.Answer)) error {
	return j.submit(context.Background(), t, done)
}

// Do is the writers' own, with a span under that of ctx, or of the trigger.
func (j Judged) Do(ctx context.Context, t domain.Trigger) command.Answer {
	c := make(chan command.Answer, 1)
	if err := j.submit(ctx, t, func(a command.Answer) { c <- a }); err != nil {
		return command.Answer{Err: err}
	}
	select {
	case a := <-c:
		return a
	case <-ctx.Done():
		return command.Answer{Err: context.Cause(ctx)}
	}
}

func (j Judged) submit(ctx context.Context, t domain.Trigger, done func(command.Answer)) error {
	ctx, span := j.t.tracer.Start(j.t.parent(ctx, t.Traceparent), "trigger", trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("muster.trigger", t.Name)))
	if span.SpanContext().IsValid() {
		t.Traceparent = j.t.header(ctx)
	}
	err := j.Set.Submit(t, func(a command.Answer) {
		done(a)
		end(span, &a)
	})
	if err != nil {
		end(span, &command.Answer{Err: err})
	}
	return err
}

// end ends the span of a trigger.
func end(span trace.Span, a *command.Answer) {
	if a.Err != nil {
		span.SetStatus(codes.Error, "not judged")
	} else {
		span.SetAttributes(attribute.String("muster.outcome", a.Verdict.Outcome.String()), attribute.Int("muster.partition", a.Partition))
	}
	span.End()
}

// Observer makes the spans of judging, appending and syncing, and hands on what
// it is told.
func (t *Tracer) Observer(next *Writers) command.Observer {
	if t == nil {
		return next
	}
	next.keepPasses()
	return &stages{Writers: next, t: t}
}

type stages struct {
	*Writers
	t *Tracer
}

// Group makes the spans of each traced event of a group.
func (s *stages) Group(g *command.Group) {
	s.Writers.Group(g)
	pass, synced := s.pass(g)
	for _, e := range g.Events {
		ctx, ok := s.t.remote(e.Traceparent)
		if !ok {
			continue
		}
		s.t.span(ctx, "judge", g.Began, g.Judged, about(e, g.Partition))
		stored := s.t.span(ctx, "append", g.Judged, g.Stored, about(e, g.Partition), trace.WithAttributes(attribute.Int("muster.group", g.Records)))
		if synced {
			s.t.span(stored, "fsync", pass.began, pass.ended)
		}
	}
}

// span makes a span whose times are known, and returns the context under it.
func (t *Tracer) span(ctx context.Context, name string, began, ended time.Time, opts ...trace.SpanStartEventOption) context.Context {
	all := []trace.SpanStartOption{trace.WithTimestamp(began)}
	for _, o := range opts {
		all = append(all, o)
	}
	ctx, span := t.tracer.Start(ctx, name, all...)
	span.End(trace.WithTimestamp(ended))
	return ctx
}

// passed is the time of one pass of the barrier.
type passed struct{ began, ended time.Time }

// passes are the last passes of the barrier, by partition.
type passes struct {
	mu   sync.Mutex
	last map[int]passed
}

func (p *passes) note(partition int, began, ended time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[partition] = passed{began, ended}
}

// pass is the pass that has made a group durable, if there was one.
func (w *Writers) pass(g *command.Group) (p passed, ok bool) {
	w.passes.mu.Lock()
	defer w.passes.mu.Unlock()
	p, ok = w.passes.last[g.Partition]
	return p, ok && !p.began.Before(g.Judged) && !p.ended.After(g.Stored)
}

// source follows records and makes a span of what is done with each.
type source struct {
	projections.Source
	t    *Tracer
	live func() bool
}

// Source makes a span for each traced record while its consumer, the views, applies
// it. live says whether the start is done: what is replayed has had its spans.
func (t *Tracer) Source(s projections.Source, live func() bool) projections.Source {
	if t == nil {
		return s
	}
	return &source{s, t, live}
}

// Follow is the source's own.
func (s *source) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		reader := codec.NewReader()
		for rec, err := range s.Source.Follow(ctx, partition, after) {
			began := time.Now()
			more := yield(rec, err)
			if err == nil && s.live() {
				s.applied(reader, &rec, began)
			}
			if !more {
				return
			}
		}
	}
}

func (s *source) applied(reader *codec.Reader, rec *eventlog.Record, began time.Time) {
	ended := time.Now()
	var e domain.Event
	if err := reader.Read(rec.Data, &e); err != nil {
		return // the views say so
	}
	if ctx, ok := s.t.remote(e.Traceparent); ok {
		s.t.span(ctx, "project", began, ended, about(&e, rec.Partition))
	}
}

// Tried makes a span of each try of an alert, in the trace of the event that it is
// about.
func (t *Tracer) Tried(d *alert.Delivery, began time.Time, r alert.Result) {
	ctx, ok := t.remote(d.Trace)
	if !ok {
		return
	}
	_, span := t.tracer.Start(ctx, "alert", trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("muster.kind", d.Kind), attribute.String("muster.endpoint", d.Endpoint),
			attribute.Int("muster.attempt", d.Attempts+1), attribute.Int("http.response.status_code", r.Code)))
	if r.Code < 200 || r.Code > 299 {
		span.SetStatus(codes.Error, "not delivered")
	}
	span.End()
}
