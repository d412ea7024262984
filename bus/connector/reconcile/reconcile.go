package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/domain"
)

// Ledger is the history as far as it is needed here. It is used from many
// goroutines.
type Ledger interface {
	// Account returns the fold of the account's events, nil when it has none. It
	// must not be changed.
	Account(ctx context.Context, id domain.AccountID) (*domain.Account, error)
	// Judge has a trigger judged; with a nil error the verdict is durable.
	Judge(ctx context.Context, t domain.Trigger) (domain.Verdict, error)
	// OfSource lists the accounts of this process whose ids begin with the source's
	// name and a colon and to which yes says so.
	OfSource(ctx context.Context, source string, yes func(*domain.Account) bool) ([]domain.AccountID, error)
}

// Config is what a Reconciler needs. Ledger, Judge and Sources are required.
type Config struct {
	Ledger  Ledger
	Judge   *domain.Judge
	Sources []*connector.Source // those without Poll are left out

	RecoverAfter time.Duration     // when accounts that nobody speaks of come into doubt (default 30 s)
	PerSecond    int               // triggers, and questions about single sessions, over all sources (default 100)
	Parallel     int               // requests at once, over all sources (default 4)
	Timeout      time.Duration     // of one request, its answer included (default 30 s)
	Transport    http.RoundTripper // default: a pool of its own
	Now          func() time.Time  // default time.Now
	Logger       *slog.Logger      // default: discarded

	sleep func(ctx context.Context, d time.Duration) bool // tests: false when ctx has ended
}

// Reconciler polls sources. Make one with New.
type Reconciler struct {
	sources []*source
}

// shared is what all sources use together.
type shared struct {
	cfg    Config
	began  time.Time
	client *http.Client
	slots  chan struct{}
	rate   *rate.Limiter
}

// New returns a reconciler for those sources that can be asked. The error names
// what is missing, or a source whose kind cannot be asked.
func New(cfg Config) (*Reconciler, error) {
	if cfg.Ledger == nil || cfg.Judge == nil {
		return nil, errors.New("a reconciler needs a ledger and a judge")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.sleep == nil {
		cfg.sleep = sleep
	}
	cfg.PerSecond, cfg.Parallel = or(cfg.PerSecond, 100), or(cfg.Parallel, 4)
	cfg.RecoverAfter, cfg.Timeout = or(cfg.RecoverAfter, 30*time.Second), or(cfg.Timeout, 30*time.Second)
	sh := &shared{
		cfg: cfg, began: cfg.Now(), slots: make(chan struct{}, cfg.Parallel), rate: rate.NewLimiter(rate.Limit(cfg.PerSecond), max(1, cfg.PerSecond/10)),
		client: newClient(cfg.Transport, cfg.Timeout, cfg.Parallel),
	}
	r := &Reconciler{}
	for _, s := range cfg.Sources {
		if s.Poll == nil {
			continue
		}
		p, ok := peers[s.Kind]
		if !ok {
			return nil, fmt.Errorf("source %q is of kind %s, whose sessions cannot be asked for", s.Name, s.Kind)
		}
		r.sources = append(r.sources, newSource(sh, s, p))
	}
	return r, nil
}

func or[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// Run polls until ctx ends. It returns when every poll under way has ended.
func (r *Reconciler) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range r.sources {
		wg.Go(func() { s.run(ctx) })
	}
	wg.Wait()
}

// Poll asks a source once, now, and publishes what differs. A source that is not
// polled is an error. It does not run beside another poll of the source.
func (r *Reconciler) Poll(ctx context.Context, name string) (Report, error) {
	for _, s := range r.sources {
		if s.Name == name {
			return s.poll(ctx)
		}
	}
	return Report{}, fmt.Errorf("source %q is not polled", name)
}

// Stats is what came of a source's polls so far.
type Stats struct {
	Source    string
	Polls     uint64 // that succeeded
	Failures  uint64 // polls that did not
	Published uint64 // triggers
	Vanished  uint64 // accounts that were stopped because the server has them no more
	Last      Report // of the last poll that succeeded
	LastAt    time.Time
	LastError string // of the last poll, "" = it succeeded
}

// Stats returns the numbers of every polled source, in the order of the sources.
func (r *Reconciler) Stats() []Stats {
	out := make([]Stats, len(r.sources))
	for i, s := range r.sources {
		s.statsMu.Lock()
		out[i] = s.stats
		s.statsMu.Unlock()
	}
	return out
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
