// Package query exposes read models over NATS: each query is one endpoint of
// the micro service, under muster.q.
//
// It owns the road from a request to a handler and back: the check that the
// body is JSON, the bound on time and on how many run at once, and the shape
// of errors ([bus.Error]). It knows no view; whoever wires the process gives it
// a table of handlers. Nothing here is authoritative.
//
// When something fails the caller gets a micro error with a code, a title and
// a sentence: 400 for a bad request, the handler's own [*bus.Error], 503 when
// the answer was not ready in time, 413 when it does not fit into a message,
// and 500 for everything else, whose cause is logged and not shown.
package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/musterhq/muster/bus"
)

// Handler answers one request, which is valid JSON ("{}" when the body was
// empty). Its answer is encoded as JSON.
type Handler func(ctx context.Context, req json.RawMessage) (any, error)

// Query is one row of the table.
type Query struct {
	Name        string // below muster.q., e.g. "accounts.get"
	Description string // what it asks and answers, shown by `nats micro info`
	Handle      Handler
}

// Config bounds the queries; the zero value is good.
type Config struct {
	Timeout  time.Duration // of one request (default 30 s)
	Parallel int           // requests of one query that run at once (default 8)
	// As, when set, is asked about each question whose subject names who asks
	// (bus.NamedQuery): it returns the context that the handler gets, or a
	// [*bus.Error] that says why there is no answer. nil: such questions have no
	// endpoint.
	As     func(ctx context.Context, name, query string) (context.Context, error)
	Logger *slog.Logger // gets the causes of internal errors (default: discarded)
}

// Of makes a Handler of a function on a request struct. Unknown fields and
// wrong types are refused by name.
func Of[Req any](f func(ctx context.Context, req Req) (any, error)) Handler {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var req Req
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&req); err != nil {
			return nil, invalid(strings.TrimPrefix(err.Error(), "json: "))
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, invalid("there is more behind the first JSON value")
		}
		return f(ctx, req)
	}
}

func invalid(detail string) *bus.Error {
	return &bus.Error{Code: http.StatusBadRequest, Title: "invalid request", Detail: detail}
}

// Register adds the queries to the service, whose Stop waits for those that run.
func Register(s *bus.Service, cfg Config, queries []Query) error {
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 8
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	n := named{as: cfg.As, nc: s.Conn(), log: cfg.Logger, queries: map[string]*endpoint{}}
	for _, q := range queries {
		if q.Handle == nil {
			return fmt.Errorf("register query %s: it has no handler", q.Name)
		}
		ctx, cancel := context.WithCancel(context.Background())
		e := &endpoint{Query: q, cfg: cfg, nc: s.Conn(), slots: make(chan struct{}, cfg.Parallel), ctx: ctx, cancel: cancel}
		n.queries[q.Name] = e
		err := s.AddEndpoint(bus.EndpointConfig{
			Name:    strings.ReplaceAll(q.Name, ".", "-"),
			Subject: bus.QuerySubject(q.Name),
			Metadata: map[string]string{
				"description": q.Description,
				"format":      bus.TypeJSON,
			},
			Handler: micro.HandlerFunc(e.handle),
			Wait:    e.wait,
		})
		if err != nil {
			cancel()
			return fmt.Errorf("register query %s: %w", q.Name, err)
		}
	}
	if cfg.As == nil {
		return nil
	}
	return n.register(s)
}

// endpoint runs one query.
type endpoint struct {
	Query
	cfg    Config
	nc     *nats.Conn
	slots  chan struct{}
	ctx    context.Context // the life of the endpoint, ended by wait
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// handle starts a request when a slot is free; until then later ones wait.
func (e *endpoint) handle(req micro.Request) {
	e.slots <- struct{}{}
	e.wg.Go(func() {
		defer func() { <-e.slots }()
		e.answer(e.ctx, req.Reply(), req.Data())
	})
}

// answer runs the handler and publishes what it gives. The request's own
// Respond is not used: it must not be called once handle has returned.
func (e *endpoint) answer(ctx context.Context, reply string, body []byte) {
	m := &nats.Msg{}
	got, err := e.run(ctx, body)
	if err == nil {
		m.Data, err = json.Marshal(got)
	}
	if err == nil && int64(len(m.Data)) > e.nc.MaxPayload() {
		err = &bus.Error{
			Code: http.StatusRequestEntityTooLarge, Title: "answer too large",
			Detail: fmt.Sprintf("the answer has %d bytes and a message takes %d at most; ask for a smaller page", len(m.Data), e.nc.MaxPayload()),
		}
	}
	if err != nil {
		m = e.problem(err).Message()
	}
	if m.Subject = reply; reply == "" {
		return
	}
	if err := e.nc.PublishMsg(m); err != nil {
		e.cfg.Logger.Warn("query not answered", "query", e.Name, "error", err)
	}
}

func (e *endpoint) run(ctx context.Context, body []byte) (any, error) {
	if len(body) == 0 {
		body = []byte("{}")
	}
	if !json.Valid(body) {
		return nil, invalid("the body is not JSON")
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	return e.Handle(ctx, body)
}

// problem turns a handler's error into what the caller is told.
func (e *endpoint) problem(err error) *bus.Error {
	var known *bus.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.DeadlineExceeded):
		return &bus.Error{Code: http.StatusServiceUnavailable, Title: "not in time", Detail: "the answer was not ready in time", Retryable: true}
	case errors.Is(err, context.Canceled):
		return &bus.Error{Code: http.StatusServiceUnavailable, Title: "shutting down", Detail: "the server is shutting down", Retryable: true}
	default:
		e.cfg.Logger.Error("query failed", "query", e.Name, "error", err)
		return &bus.Error{Code: http.StatusInternalServerError, Title: "internal error", Detail: "the server could not answer; its log says why"}
	}
}

// lastMoment is what cancelled requests have to end in.
const lastMoment = time.Second

// wait returns when all requests have been answered. When ctx ends first they
// are cancelled; the error says that some did not end even so.
func (e *endpoint) wait(ctx context.Context) error {
	defer e.cancel()
	done := make(chan struct{})
	go func() { // ends with the last handler
		e.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	e.cancel()
	bound := time.NewTimer(lastMoment)
	defer bound.Stop()
	select {
	case <-done:
		return nil
	case <-bound.C:
		return fmt.Errorf("query %s: %d requests did not end: %w", e.Name, len(e.slots), context.Cause(ctx))
	}
}
