package reconcile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// source is one polled source.
type source struct {
	*connector.Source
	sh   *shared
	kind *kind

	polling   sync.Mutex               // one poll at a time; guards what follows
	missing   map[domain.AccountID]int // how many lists in a row lack an account
	elsewhere map[domain.AccountID]bool

	statsMu sync.Mutex
	stats   Stats
}

func newSource(sh *shared, s *connector.Source, k *kind) *source {
	return &source{
		Source: s, sh: sh, kind: k, missing: map[domain.AccountID]int{}, elsewhere: map[domain.AccountID]bool{}, stats: Stats{Source: s.Name},
	}
}

// Within how long after the start a source is asked for the first time.
const firstWithin = 5 * time.Second

// run polls until ctx ends: at a random moment soon, once more when accounts have
// come into doubt, and then at its interval, give or take a tenth.
func (s *source) run(ctx context.Context) {
	every := s.Poll.Every
	b := &backoff.ExponentialBackOff{InitialInterval: min(2*time.Second, every), RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: every}
	b.Reset()
	wait := rand.N(min(firstWithin, every))
	again, settled := s.sh.cfg.RecoverAfter+firstWithin, false
	for s.sh.cfg.sleep(ctx, wait) {
		_, err := s.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			wait = min(b.NextBackOff(), every)
			s.sh.cfg.Logger.Warn("the sessions of a source could not be asked for", "source", s.Name, "error", err, "again_in", wait.Round(time.Second))
			continue
		}
		b.Reset()
		wait = every - every/10 + rand.N(every/5+1)
		if !settled && again < wait {
			wait = again + rand.N(firstWithin)
		}
		settled = true
	}
}

// Report is what one poll found.
type Report struct {
	Sessions  int // in the list
	Odd       int // elements of the list that are no session, or of an unknown status
	Published int // triggers
	Changed   int // accounts whose state differed
	Confirmed int // accounts that agreed and were in doubt
	Vanished  int // accounts that the server has no more
	Left      int // accounts that changed meanwhile, or whose state could not be asked for: until the next poll
}

// poll asks once and publishes what differs.
func (s *source) poll(ctx context.Context) (Report, error) {
	s.polling.Lock()
	defer s.polling.Unlock()
	r, err := s.compare(ctx)
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	s.stats.Published += uint64(r.Published)
	s.stats.Vanished += uint64(r.Vanished)
	if err != nil {
		s.stats.Failures++
		s.stats.LastError = err.Error()
		return r, fmt.Errorf("poll source %q: %w", s.Name, err)
	}
	s.stats.Polls++
	s.stats.Last, s.stats.LastAt, s.stats.LastError = r, s.sh.cfg.Now(), ""
	return r, nil
}

func (s *source) compare(ctx context.Context) (Report, error) {
	base, err := url.Parse(s.Poll.URL)
	if err != nil {
		return Report{}, fmt.Errorf("the address of the poll is none")
	}
	marks, err := s.marks(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("look at the accounts: %w", err)
	}
	at := s.sh.cfg.Now().UnixNano()
	body, err := s.ask(ctx, s.kind.list(base))
	if err != nil {
		return Report{}, err
	}
	list, odd, err := s.kind.readList(body)
	if err != nil {
		return Report{}, err
	}
	p := &pass{source: s, base: base, at: at, marks: marks, listed: map[domain.AccountID]session{}}
	p.Sessions, p.Odd = len(list), odd
	for _, one := range list {
		id, ok := peer.Account(s.Source, one.native)
		if _, twice := p.listed[id]; !ok || twice {
			p.Odd++
			continue
		}
		p.listed[id] = one
	}
	if err := p.sessions(ctx); err != nil {
		return p.Report, err
	}
	return p.Report, p.vanished(ctx)
}

// mark is what an account was when the question was asked.
type mark struct {
	state               string
	since, epoch, seq   int64
	heard, lastByItself int64 // latest time of any source; of the source and its poll
}

func (s *source) markOf(a *domain.Account) mark {
	m := mark{state: a.State, since: a.Since, epoch: a.Epoch, seq: a.Seq}
	for _, h := range a.Sources {
		m.heard = max(m.heard, h.At)
		if h.Source == s.Name || h.Source == s.name() {
			m.lastByItself = max(m.lastByItself, h.At)
		}
	}
	return m
}

// name is the source of what is published.
func (s *source) name() string { return s.Name + "/poll" }

func (s *source) marks(ctx context.Context) (map[domain.AccountID]mark, error) {
	var mu sync.Mutex
	out := map[domain.AccountID]mark{}
	_, err := s.sh.cfg.Ledger.OfSource(ctx, s.Name, func(a *domain.Account) bool {
		m := s.markOf(a)
		mu.Lock()
		out[a.ID] = m
		mu.Unlock()
		return false
	})
	return out, err
}

func sorted[V any](m map[domain.AccountID]V) []domain.AccountID {
	ids := make([]domain.AccountID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
