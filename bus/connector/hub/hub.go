package hub

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/musterhq/muster/bus/connector"
)

// Prefix is where the hub's paths begin: /hooks/<kind>[/<source>][/<tail>].
const Prefix = "/hooks/"

// MaxBody is the largest body that is taken, in bytes.
const MaxBody = 4 << 20

// Config is what a Hub needs. Ledger and Memory are required.
type Config struct {
	Ledger Ledger
	Memory connector.Memory

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: discarded

	Most         int           // requests that are served at once (default 1024); others get 503
	Parallel     int           // accounts of one request that are served at once (default 16)
	BodyWithin   time.Duration // a body must have arrived by then (default 20 s)
	AnswerWithin time.Duration // bound of everything after that (default 25 s)
}

// Entry is one source with the connector of its kind.
type Entry struct {
	Connector connector.Connector
	Source    *connector.Source
}

// Hub is the handler of all webhooks.
type Hub struct {
	cfg     Config
	kinds   map[string]*kind
	slots   chan struct{}
	closed  atomic.Bool
	stripes [1024]chan struct{} // each holds a token while an account of it is served
	seed    maphash.Seed
}

type kind struct {
	connector connector.Connector
	shaker    connector.Shaker // nil: it has none
	tailer    connector.Tailer // nil: it has none
	allow     string
	sources   map[string]*endpoint
}

type endpoint struct {
	kind   *kind
	source *connector.Source
	count  counters
}

// New returns a hub for these sources. Two of one name are an error: their
// accounts would have the same ids.
func New(cfg Config, entries []Entry) (*Hub, error) {
	if cfg.Ledger == nil || cfg.Memory == nil {
		return nil, errors.New("a hub needs a ledger and a memory")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Most, cfg.Parallel = or(cfg.Most, 1024), or(cfg.Parallel, 16)
	cfg.BodyWithin, cfg.AnswerWithin = or(cfg.BodyWithin, 20*time.Second), or(cfg.AnswerWithin, 25*time.Second)
	h := &Hub{cfg: cfg, kinds: map[string]*kind{}, slots: make(chan struct{}, cfg.Most), seed: maphash.MakeSeed()}
	for i := range h.stripes {
		h.stripes[i] = make(chan struct{}, 1)
	}
	names := map[string]bool{}
	for _, e := range entries {
		if names[e.Source.Name] {
			return nil, fmt.Errorf("there are two sources %q; their accounts would have the same ids", e.Source.Name)
		}
		names[e.Source.Name] = true
		k := h.kindOf(e.Connector)
		k.sources[e.Source.Name] = &endpoint{kind: k, source: e.Source}
	}
	return h, nil
}

func or[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

func (h *Hub) kindOf(c connector.Connector) *kind {
	if k := h.kinds[c.Kind()]; k != nil {
		return k
	}
	k := &kind{connector: c, allow: strings.Join(c.Methods(), ", "), sources: map[string]*endpoint{}}
	k.shaker, _ = c.(connector.Shaker)
	k.tailer, _ = c.(connector.Tailer)
	h.kinds[c.Kind()] = k
	return k
}

// Close lets nobody in any more (503) and waits until those who are have been
// answered. The error is ctx's.
func (h *Hub) Close(ctx context.Context) error {
	h.closed.Store(true)
	for range h.cfg.Most {
		select {
		case h.slots <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("wait for webhooks: %w", context.Cause(ctx))
		}
	}
	return nil
}

// route finds the source that a path names.
func (h *Hub) route(path string) *endpoint {
	rest, ok := strings.CutPrefix(path, Prefix)
	if !ok {
		return nil
	}
	name, rest, _ := strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	k := h.kinds[name]
	if k == nil {
		return nil
	}
	if source, ok := SourceOf(k.connector, rest); ok {
		return k.sources[source]
	}
	return nil
}

// SourceOf returns the name of the source that is meant by what follows the kind
// in a path: the kind's own name when nothing does. A segment that the peer
// appends is left out; ok is false when there is more than one other.
func SourceOf(c connector.Connector, rest string) (name string, ok bool) {
	before, last := "", rest
	if i := strings.LastIndexByte(rest, '/'); i >= 0 {
		before, last = rest[:i], rest[i+1:]
	}
	if t, is := c.(connector.Tailer); is && last != "" && t.Tail(last) {
		rest = before
	}
	if rest == "" {
		return c.Kind(), true
	}
	return rest, !strings.Contains(rest, "/")
}

// ServeHTTP answers one request of a peer.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := h.route(r.URL.Path)
	if e == nil {
		problem(w, http.StatusNotFound, "no such source", "no connector of this name is configured, or it has no such source")
		return
	}
	e.count.requests.Add(1)
	if !slices.Contains(e.kind.connector.Methods(), r.Method) {
		w.Header().Set("Allow", e.kind.allow)
		problem(w, http.StatusMethodNotAllowed, "method not allowed", "this connector serves "+e.kind.allow)
		return
	}
	if h.closed.Load() {
		h.later(w, e, errClosed)
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		h.later(w, e, errBusy)
		return
	}
	body, err := h.body(w, r)
	if err != nil {
		h.refuseBody(w, e, err)
		return
	}
	at := h.cfg.Now().UnixNano()
	e.count.lastSeen.Store(at)
	req := &connector.Request{Method: r.Method, Header: r.Header, Body: body, At: at}
	if r.URL.RawQuery == "" {
		req.Query = url.Values{}
	} else {
		req.Query = r.URL.Query()
	}
	h.serve(context.WithoutCancel(r.Context()), w, e, req)
}

// serve answers a request that has arrived whole.
func (h *Hub) serve(ctx context.Context, w http.ResponseWriter, e *endpoint, req *connector.Request) {
	if e.kind.shaker != nil {
		if a, ok := e.kind.shaker.Shake(e.source, req); ok {
			shake(w, &a)
			return
		}
	}
	if err := e.kind.connector.Authentic(e.source, req); err != nil {
		why := err.Error()
		e.count.unauthenticated.Add(1)
		e.count.refusal.Store(&why)
		h.cfg.Logger.Debug("webhook not believed", "kind", e.source.Kind, "source", e.source.Name, "reason", why)
		w.Header().Set("WWW-Authenticate", `Webhook realm="`+e.source.Kind+`"`)
		problem(w, http.StatusUnauthorized, "not authenticated", "the request does not prove that it comes from who knows the secret")
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.cfg.AnswerWithin, errSlowLog)
	defer cancel()
	deliveries, err := e.kind.connector.Read(ctx, e.source, h.cfg.Memory, req)
	var memory *connector.MemoryError
	switch {
	case errors.As(err, &memory):
		h.later(w, e, err)
		return
	case err != nil:
		e.count.malformed.Add(1)
		problem(w, http.StatusBadRequest, "malformed", err.Error())
		return
	}
	if err := h.deliver(ctx, e, req, deliveries); err != nil {
		h.later(w, e, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}
