package projections

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// Why a view cannot be rebuilt.
var (
	ErrNoView     = errors.New("there is no such view")
	ErrRebuilding = errors.New("another view is being rebuilt")
	ErrNotReady   = errors.New("the views have not caught up yet")
)

// RebuildStatus is how far a rebuild has come, or how the last one ended. The
// zero value is that there was none.
type RebuildStatus struct {
	Running   bool
	Started   time.Time
	Ended     time.Time // zero while it runs
	Done      uint64    // records folded
	Total     uint64    // records to fold when it began
	PerSecond float64   // on average
	Failed    string    // why it ended without success; the old state stayed
}

// Left is how long it will take yet, at the rate so far; ok is false when that
// cannot be said.
func (s *RebuildStatus) Left() (d time.Duration, ok bool) {
	if !s.Running || s.PerSecond <= 0 {
		return 0, false
	}
	return time.Duration(float64(s.Total-min(s.Done, s.Total)) / s.PerSecond * float64(time.Second)), true
}

// rebuild folds one view anew beside the one that answers.
type rebuild struct {
	r       *Runner
	index   int // of the view
	old     Renewer
	view    View // the new one
	limit   *rate.Limiter
	started time.Time
	total   uint64
	done    atomic.Uint64
	parts   []rebuildPart
}

type rebuildPart struct {
	slot
	versions lineage
	decode   Decode
	event    domain.Event
}

// What a rebuild does at once.
const (
	rebuildBatch = 256  // records between two looks at the limit
	rebuildNear  = 1000 // so few records behind, the partitions are held and it is switched
	rebuildRuns  = 20   // tries to come so near
)

// Rebuild folds a view anew from the first record of the history, beside the one
// that answers and goes on being kept up to date, and puts it in the old one's
// place when it has caught up. It reads at most maxRate records per second (0: as
// many as it can), the last few excepted. A view that was halted takes events
// again. When the new one cannot take an event and the rule for it is Halt, when
// the log fails or ctx ends, the old one stays. It can be called once Run has
// caught up, for one view at a time, and returns when it is over.
func (r *Runner) Rebuild(ctx context.Context, name string, maxRate float64) error {
	b, err := r.beginRebuild(ctx, name, maxRate)
	if err != nil {
		return fmt.Errorf("rebuild view %q: %w", name, err)
	}
	err = b.run(ctx)
	r.endRebuild(b, err)
	if err != nil {
		return fmt.Errorf("rebuild view %q: %w", name, err)
	}
	r.requestSave()
	return nil
}

func (r *Runner) beginRebuild(ctx context.Context, name string, maxRate float64) (*rebuild, error) {
	b := &rebuild{r: r, index: -1, started: r.cfg.Now(), limit: rate.NewLimiter(rate.Inf, rebuildBatch)}
	if maxRate > 0 {
		b.limit.SetLimit(rate.Limit(maxRate))
	}
	for i, v := range r.cfg.Views {
		if renewer, ok := v.(Renewer); ok && v.Name() == name {
			b.index, b.old = i, renewer
		}
	}
	switch {
	case closed(r.ended):
		return nil, ErrEnded
	case !closed(r.caughtUp):
		return nil, ErrNotReady
	case b.index < 0:
		return nil, ErrNoView
	}
	for _, p := range r.parts {
		info, err := r.cfg.History.Info(ctx, p.number)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p.number, err)
		}
		b.total += info.Messages
		b.parts = append(b.parts, rebuildPart{decode: r.cfg.NewDecode()})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rebuild != nil {
		return nil, ErrRebuilding
	}
	b.view = b.old.Renew()
	r.rebuild = b
	return b, nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (r *Runner) endRebuild(b *rebuild, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := b.status(r.cfg.Now())
	s.Running, s.Ended = false, r.cfg.Now()
	if err != nil {
		s.Failed = err.Error()
	}
	r.past[b.index], r.rebuild = s, nil
}

// status is how far it has come.
func (b *rebuild) status(now time.Time) RebuildStatus {
	s := RebuildStatus{Running: true, Started: b.started, Done: b.done.Load(), Total: b.total}
	if d := now.Sub(b.started).Seconds(); d > 0 {
		s.PerSecond = float64(s.Done) / d
	}
	return s
}

// run folds until the new view is near, and switches.
func (b *rebuild) run(ctx context.Context) error {
	for try := 0; ; try++ {
		for _, p := range b.r.parts {
			if err := b.fold(ctx, p, math.MaxUint64); err != nil {
				return err
			}
		}
		if b.behind() <= rebuildNear {
			break
		}
		if try == rebuildRuns {
			return fmt.Errorf("it cannot catch up: %d records come in while it folds", b.behind())
		}
		b.limit.SetLimit(rate.Inf) // what has come meanwhile; at a limit it might never get near
	}
	b.r.settle(b.view)
	for _, p := range b.r.parts {
		if err := b.change(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// behind is the number of records that the old view holds and the new one does not.
func (b *rebuild) behind() (n uint64) {
	for _, p := range b.r.parts {
		if at := b.parts[p.number].at; p.position.Load() > at {
			n += p.position.Load() - at
		}
	}
	return n
}

// fold takes a partition's records up to a sequence, or to where the log ends now.
func (b *rebuild) fold(ctx context.Context, p *runnerPart, upTo uint64) error {
	part := &b.parts[p.number]
	taken := 0
	for rec, err := range b.r.cfg.History.Read(ctx, p.number, part.at) {
		if err != nil {
			return fmt.Errorf("read partition %d: %w", p.number, err)
		}
		if rec.Seq > min(upTo, p.position.Load()) {
			break // the roster may not know its account yet
		}
		if err := b.take(p, part, rec); err != nil {
			return err
		}
		b.done.Add(1)
		if taken++; taken%rebuildBatch == 0 {
			if err := b.limit.WaitN(ctx, rebuildBatch); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// take folds one record.
func (b *rebuild) take(p *runnerPart, part *rebuildPart, rec eventlog.Record) error {
	ids := b.r.cfg.Roster.Ids(p.number)
	ids.RLock()
	number, known := ids.Find(rec.Account)
	ids.RUnlock()
	g := given{at: Place{Partition: p.number, Seq: rec.Seq, Account: number}, event: &part.event}
	if err := read(rec, part.decode, &part.event); err != nil {
		g.event, g.damaged = nil, known
	} else if _, follows := part.versions.follows(number, part.event.Version); !follows {
		g.damaged = true
	}
	if cause := b.give(&g); cause != nil {
		if b.r.poisonOf(b.old) == Halt {
			return fmt.Errorf("partition %d, sequence %d, account %q: %w", p.number, rec.Seq, rec.Account, cause)
		}
		part.parked++
		part.note(&g, cause)
	}
	part.at = rec.Seq
	return nil
}

// give hands it to the new view and says with what that panicked, if it did.
func (b *rebuild) give(g *given) (cause *panicked) {
	defer func() {
		if value := recover(); value != nil {
			cause = &panicked{value, debug.Stack()}
		}
	}()
	g.feed(b.view)
	return nil
}

// change holds a partition, folds the last records and puts the new state in the
// old one's place.
func (b *rebuild) change(ctx context.Context, p *runnerPart) error {
	p.gate.Lock()
	defer p.gate.Unlock()
	position := p.position.Load()
	b.limit.SetLimit(rate.Inf)
	if err := b.fold(ctx, p, position); err != nil {
		return err
	}
	s := b.parts[p.number].slot
	s.at = position // also where the last records are missing
	p.slots[b.index] = s
	b.old.Take(p.number, b.view)
	p.applied++ // something to save
	b.r.report(p, b.index)
	return nil
}
