package play

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/trace"
)

// Result is what came of a sequence, in the form in which it is printed.
type Result struct {
	HTTP            []int                        `json:"http"`             // status of each answer
	Bodies          map[string]string            `json:"bodies"`           // request index → body of the answer
	ResponseHeaders map[string]map[string]string `json:"response_headers"` // request index → headers of the answer
	Accounts        map[string]Account           `json:"accounts"`
	NoNewEvents     []int                        `json:"no_new_events"` // requests that appended nothing
	Unmapped        int64                        `json:"unmapped"`
	Ignored         int64                        `json:"ignored"`

	Events []bus.PlacedEvent `json:"events"` // what was stored, in order

	// Samples are what was kept of unmapped units, by source.
	Samples map[string][]hub.Sample `json:"samples"`

	// Stored are the events themselves, Spans which of them each request appended
	// (from, and up to before), Stats the counters of all sources.
	Stored []*domain.Event `json:"-"`
	Spans  [][2]int        `json:"-"`
	Stats  []hub.Stats     `json:"-"`
}

// Account is an account at the end, with the states that it entered by applied
// moves, in order.
type Account struct {
	domain.AccountView
	Trail []string `json:"trail"`
}

// Run plays the sequence through the connector of its kind.
func Run(ctx context.Context, c *Case, k connector.Connector, judge *domain.Judge) (*Result, error) {
	sources, err := c.Sources(k)
	if err != nil {
		return nil, err
	}
	entries := make([]hub.Entry, len(sources))
	for i, s := range sources {
		entries[i] = hub.Entry{Connector: k, Source: s}
	}
	run := trace.NewRunner(judge)
	h, err := hub.New(hub.Config{
		Ledger: &ledger{run: run}, Memory: &hub.MapMemory{}, Parallel: 1,
		Now: func() time.Time { return time.Unix(0, run.Now()) },
	}, entries)
	if err != nil {
		return nil, err
	}
	out := &Result{Bodies: map[string]string{}, ResponseHeaders: map[string]map[string]string{}, NoNewEvents: []int{}, Samples: map[string][]hub.Sample{}}
	for i := range c.Requests {
		r := &c.Requests[i]
		run.Advance(r.At.UnixNano())
		before := len(run.Events())
		answer, err := r.serve(ctx, h)
		if err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
		out.take(i, answer, before, len(run.Events()))
	}
	until := run.Now()
	if c.Expect.Until != nil {
		until = max(until, c.Expect.Until.UnixNano())
	}
	run.Fire(until)
	out.finish(run, h, sources)
	return out, nil
}

// serve gives the request to the handler.
func (r *Request) serve(ctx context.Context, h http.Handler) (*recorder, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, "http://localhost"+r.Path, bytes.NewReader(r.Bytes()))
	if err != nil {
		return nil, err
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	w := &recorder{header: http.Header{}}
	h.ServeHTTP(w, req)
	return w, nil
}

// recorder keeps an answer.
type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
}

// Header is that of the answer.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader keeps the status.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write keeps the body.
func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

func (out *Result) take(i int, a *recorder, from, end int) {
	key := strconv.Itoa(i)
	out.HTTP = append(out.HTTP, a.status)
	out.Bodies[key] = a.body.String()
	headers := map[string]string{}
	for name, values := range a.header {
		headers[name] = strings.Join(values, ", ")
	}
	out.ResponseHeaders[key] = headers
	out.Spans = append(out.Spans, [2]int{from, end})
	if from == end {
		out.NoNewEvents = append(out.NoNewEvents, i)
	}
}

func (out *Result) finish(run *trace.Runner, h *hub.Hub, sources []*connector.Source) {
	end := run.Result()
	out.Stored = end.Events
	out.Events = make([]bus.PlacedEvent, len(end.Events))
	for i, e := range end.Events {
		out.Events[i] = bus.PlacedEvent{Account: string(e.Account), Event: bus.EventView(e, uint64(i+1))}
	}
	out.Accounts = map[string]Account{}
	for id, view := range end.Accounts {
		out.Accounts[id] = Account{AccountView: view, Trail: Trail(end.Events, domain.AccountID(id))}
	}
	out.Stats = h.Stats()
	for _, s := range out.Stats {
		out.Unmapped += s.Unmapped
		out.Ignored += s.Ignored
	}
	for _, s := range sources {
		if samples, _ := h.Samples(s.Name); len(samples) > 0 {
			out.Samples[s.Name] = samples
		}
	}
}

// Trail lists the states that an account entered by applied moves.
func Trail(events []*domain.Event, id domain.AccountID) []string {
	trail := []string{}
	for _, e := range events {
		moves := e.Kind == domain.KindSession || e.Kind == domain.KindMark
		if e.Account == id && moves && e.Outcome == domain.Applied && e.From != e.To {
			trail = append(trail, e.To)
		}
	}
	return trail
}

// ledger is the history of the virtual player. The hub serves one request after
// the other, and one account of it after the other.
type ledger struct{ run *trace.Runner }

var _ hub.Ledger = (*ledger)(nil)

// Account returns the account as folded so far.
func (l *ledger) Account(_ context.Context, id domain.AccountID) (*domain.Account, error) {
	return l.run.Account(id), nil
}

// Judge judges at the virtual clock's time.
func (l *ledger) Judge(_ context.Context, t domain.Trigger) (domain.Verdict, error) {
	return l.run.Judge(&t).Verdict, nil
}

// OfSource looks at all accounts.
func (l *ledger) OfSource(_ context.Context, source string, yes func(*domain.Account) bool) ([]domain.AccountID, error) {
	var ids []domain.AccountID
	for _, a := range l.run.Result().Fold {
		if strings.HasPrefix(string(a.ID), source+":") && yes(a) {
			ids = append(ids, a.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}
