package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/httpapi/live"
	"github.com/musterhq/muster/domain"
)

// Prefix is the path under which everything lies but the OpenAPI documents.
const Prefix = "/v1/"

// MaxBody is the largest body, and the largest line of a batch, in bytes.
const MaxBody = 1 << 20

// Sender has triggers judged; a *bus.Client is one.
type Sender interface {
	Send(ctx context.Context, t domain.Trigger) (bus.Reply, error)
	SendMany(ctx context.Context, triggers iter.Seq[domain.Trigger], window int, each func(bus.Sent) bool) error
}

var _ Sender = (*bus.Client)(nil)

// Config is what an API is made of. Queries, Sender and Live are required.
type Config struct {
	Queries []query.Query // the table of questions, the same as on the bus
	Sender  Sender
	Live    live.Config // where the stream's events come from
	Version string      // of the program
	// Guard stands before every route and lets in who meets its need; nil: all
	// are let in.
	Guard  func(need auth.Role, next http.Handler) http.Handler
	Logger *slog.Logger

	Timeout   time.Duration // of a request that is no stream (default 30 s)
	KeepAlive time.Duration // between two signs of life on a quiet stream (default 15 s)
	WriteWait time.Duration // how long a client may read nothing before it is cut off (default 20 s)
	ReadWait  time.Duration // how long a batch may pause (default 60 s)
}

// API is the HTTP surface under /v1. It is an http.Handler.
type API struct {
	cfg     Config
	queries map[string]query.Handler
	mux     *http.ServeMux
	huma    huma.API
	live    *live.Hub
	routes  []Route
	guarded map[auth.Role]http.Handler
	needs   map[string]auth.Role // by pattern
	docs    struct{ json, yaml []byte }

	life   context.Context // of streams and batches; ended by Close
	cancel context.CancelFunc
	mu     sync.RWMutex // held for writing to close
	closed bool
	wg     sync.WaitGroup // requests
}

// New returns the API. Close ends it.
func New(cfg Config) (*API, error) {
	a := &API{cfg: cfg, queries: map[string]query.Handler{}, mux: http.NewServeMux()}
	a.defaults()
	for _, q := range cfg.Queries {
		a.queries[q.Name] = q.Handle
	}
	a.life, a.cancel = context.WithCancel(context.Background())
	a.huma = humago.New(a.mux, document(cfg.Version))
	a.register()
	finish(a.huma.OpenAPI())
	if err := a.serveDocument(); err != nil {
		return nil, fmt.Errorf("describe the HTTP API: %w", err)
	}
	a.guard()
	if cfg.Live.Log != nil {
		a.live = live.New(cfg.Live)
	}
	return a, nil
}

func (a *API) defaults() {
	c := &a.cfg
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value *time.Duration
		is    time.Duration
	}{{&c.Timeout, 30 * time.Second}, {&c.KeepAlive, 15 * time.Second}, {&c.WriteWait, 20 * time.Second}, {&c.ReadWait, time.Minute}} {
		if *d.value == 0 {
			*d.value = d.is
		}
	}
}

// guard puts the guard before the routes, once for each role. A path that no route
// has needs no more than to be somebody.
func (a *API) guard() {
	a.needs, a.guarded = map[string]auth.Role{}, map[auth.Role]http.Handler{}
	for _, r := range append(a.routes, Route{Role: auth.Any}) {
		a.needs[r.Method+" "+r.Path] = r.Role
		if a.guarded[r.Role] != nil {
			continue
		}
		h := http.Handler(http.HandlerFunc(a.serve))
		if a.cfg.Guard != nil {
			h = a.cfg.Guard(r.Role, h)
		}
		a.guarded[r.Role] = h
	}
}

// Close ends the streams with a last event, lets batches answer what they have
// taken, refuses what comes later, and waits for the rest, at most until ctx ends.
func (a *API) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	if a.live != nil {
		a.live.Close()
	}
	done := make(chan struct{})
	go func() { // ends with the last request
		a.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the HTTP API: requests are still going on: %w", context.Cause(ctx))
	}
}

// enter counts a request in; false: the API is closed.
func (a *API) enter() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return false
	}
	a.wg.Add(1)
	return true
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !a.enter() {
		NewProblem(CodeShuttingDown, "the server is shutting down").Write(w)
		return
	}
	defer a.wg.Done()
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(a.cfg.Timeout + a.cfg.WriteWait)) // streams set their own
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()                  // the connection may go on to others
	said := &tracked{ResponseWriter: w}
	w = said
	defer a.recovered(said, r)
	need := auth.Any
	if _, pattern := a.mux.Handler(r); pattern != "" {
		need = a.needs[pattern]
	}
	h := a.guarded[need]
	if h == nil { // a redirect to the clean path
		h = a.guarded[auth.Any]
	}
	h.ServeHTTP(w, r)
}

// serve answers a request that was let in.
func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	if h, pattern := a.mux.Handler(r); pattern == "" {
		noRoute(w, r, h)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// recovered tells of a fault of ours; the client gets an internal error when
// nothing was sent yet, and a broken connection else.
func (a *API) recovered(w *tracked, r *http.Request) {
	switch v := recover(); {
	case v == nil:
	case v == http.ErrAbortHandler:
		panic(v)
	default:
		if r.Context().Err() != nil {
			return // the client has gone while it was answered
		}
		a.cfg.Logger.Error("a request panicked", "method", r.Method, "pattern", r.Pattern, "panic", fmt.Sprint(v))
		if w.begun {
			panic(http.ErrAbortHandler)
		}
		NewProblem(CodeInternal, "the server could not answer; its log says why").Write(w)
	}
}

// tracked is a response that knows whether it has begun.
type tracked struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader begins the response.
func (t *tracked) WriteHeader(status int) {
	t.begun = true
	t.ResponseWriter.WriteHeader(status)
}

// Write begins the response, if it has not begun.
func (t *tracked) Write(b []byte) (int, error) {
	t.begun = true
	return t.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// noRoute answers for a path or method that no operation has. The mux knows which
// of the two it is.
func noRoute(w http.ResponseWriter, r *http.Request, h http.Handler) {
	said := statusOnly{header: http.Header{}}
	h.ServeHTTP(&said, r)
	if said.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", said.header.Get("Allow"))
		NewProblem(CodeMethod, fmt.Sprintf("%s is not for this path; it takes %s", r.Method, said.header.Get("Allow"))).Write(w)
		return
	}
	NewProblem(CodeNoPath, fmt.Sprintf("there is no path %q; /openapi.json lists them", r.URL.Path)).Write(w)
}

// statusOnly is a response of which only the head counts.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }

// bounded is the context of one request that is no stream.
func (a *API) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.cfg.Timeout)
}

// ask asks one question of the table and returns its answer.
func ask[R any](ctx context.Context, a *API, name string, req any) (answer R, err error) {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	handle := a.queries[name]
	if handle == nil {
		return answer, a.problemOf(ctx, name, errors.New("the question is not in the table"))
	}
	body, err := json.Marshal(req)
	if err != nil {
		return answer, a.problemOf(ctx, name, fmt.Errorf("encode the question: %w", err))
	}
	got, err := handle(ctx, body)
	if err != nil {
		return answer, a.problemOf(ctx, name, err)
	}
	answer, ok := got.(R)
	if !ok {
		return answer, a.problemOf(ctx, name, fmt.Errorf("the answer is a %T", got))
	}
	return answer, nil
}
