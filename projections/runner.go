package projections

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// Runner keeps views up to date. Make one with New, start it with Run, ask its
// views at any time.
type Runner struct {
	cfg   Config
	parts []*runnerPart

	behind   atomic.Int64 // partitions that have not reached the start's last sequence
	caughtUp chan struct{}
	ended    chan struct{} // closed when Run returns
	started  atomic.Bool
	saveDue  chan struct{} // capacity 1

	mu      sync.Mutex // guards what follows
	status  Status
	health  []health        // by view
	rebuild *rebuild        // the last one, or the one that goes on
	past    []RebuildStatus // by view: the last one that has ended
}

// runnerPart is one partition's part of the Runner.
type runnerPart struct {
	number int

	// gate is held while a record is applied to all views and the position is
	// recorded, and while the partition is saved: a save never sees a record
	// that only some views know.
	gate      sync.Mutex
	applied   uint64 // records applied since the last save
	lastData  []byte // the last record of known; nil: loadedSum is its checksum
	loadedSum uint32
	known     uint64  // the roster holds everything up to here; some view may be behind
	slots     []slot  // by view
	again     lineage // while some view is folded again: accounts up to where it is

	total    atomic.Uint64 // records applied since the start
	position atomic.Uint64
	target   atomic.Uint64 // last sequence seen at the start
	caughtUp atomic.Bool
	info     eventlog.Info // as seen at the start

	waitMu  sync.Mutex
	waiters map[chan struct{}]uint64 // what to close when which sequence is reached
	nearest atomic.Uint64            // lowest sequence of a waiter; MaxUint64: none
}

// ErrEnded is returned by WaitFor when Run has returned before the sequence
// was reached.
var ErrEnded = errors.New("the views are no longer kept up to date")

// New returns a Runner that has not been started.
func New(cfg Config) (*Runner, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("new runner: %w", err)
	}
	r := &Runner{
		cfg:      cfg,
		caughtUp: make(chan struct{}),
		ended:    make(chan struct{}),
		saveDue:  make(chan struct{}, 1),
	}
	r.behind.Store(int64(cfg.History.Partitions()))
	for range cfg.Views {
		r.health = append(r.health, newHealth(cfg.History.Partitions()))
		r.past = append(r.past, RebuildStatus{})
	}
	for i := range cfg.History.Partitions() {
		p := &runnerPart{number: i, slots: make([]slot, len(cfg.Views)), waiters: map[chan struct{}]uint64{}}
		p.nearest.Store(noWaiter)
		r.parts = append(r.parts, p)
	}
	return r, nil
}

// Run loads the saved state, follows the history and keeps the views up to
// date until ctx ends or the log fails. It saves the state now and then and
// once more at the end. It returns nil when ctx ended, and may be called once.
func (r *Runner) Run(ctx context.Context) error {
	if r.started.Swap(true) {
		return errors.New("run views: already started")
	}
	defer close(r.ended)
	if err := r.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("run views: %w", err)
	}
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, p := range r.parts {
		wg.Go(func() {
			if err := r.follow(work, p); err != nil {
				cancel(err)
			}
		})
	}
	wg.Go(func() { r.keep(work) })
	wg.Wait()
	r.saveAtEnd(ctx)
	if err := context.Cause(work); ctx.Err() == nil && err != nil {
		return fmt.Errorf("run views: %w", err)
	}
	return nil
}

// prepare learns how far the history goes and loads the saved state.
func (r *Runner) prepare(ctx context.Context) error {
	r.mu.Lock()
	r.status.StartedAt = r.cfg.Now()
	r.mu.Unlock()
	for _, p := range r.parts {
		info, err := r.cfg.History.Info(ctx, p.number)
		if err != nil {
			return fmt.Errorf("partition %d: %w", p.number, err)
		}
		p.info = info
		p.target.Store(info.Last)
	}
	if err := r.load(ctx); err != nil {
		return err
	}
	for _, p := range r.parts {
		p.wake(p.position.Load())
		r.checkCaughtUp(p)
	}
	return nil
}

// follow applies a partition's records until ctx ends: first what is there,
// then what comes.
func (r *Runner) follow(ctx context.Context, p *runnerPart) error {
	decode := r.cfg.NewDecode()
	event := new(domain.Event)
	for rec, err := range r.cfg.History.Read(ctx, p.number, p.position.Load()) {
		if err != nil {
			return fmt.Errorf("read partition %d: %w", p.number, err)
		}
		r.take(p, rec, decode, event)
	}
	if ctx.Err() != nil {
		return nil
	}
	r.passEnd(p)
	for rec, err := range r.cfg.Source.Follow(ctx, p.number, p.position.Load()) {
		if err != nil {
			return fmt.Errorf("follow partition %d: %w", p.number, err)
		}
		r.take(p, rec, decode, event)
	}
	if ctx.Err() == nil {
		return fmt.Errorf("follow partition %d: %w", p.number, errEnded)
	}
	return nil
}

// passEnd is for a partition that has been read to its end. When its last
// records are missing, their place is taken as reached: they will never come.
func (r *Runner) passEnd(p *runnerPart) {
	position, target := p.position.Load(), p.target.Load()
	if position >= target {
		return
	}
	r.alarm(Alarm{Kind: GapInStream, Partition: p.number, Seq: target, Want: position + 1, Got: target + 1})
	p.gate.Lock()
	p.position.Store(target)
	p.gate.Unlock()
	p.wake(target)
	r.checkCaughtUp(p)
}

// take applies one record to all views and then records the position.
func (r *Runner) take(p *runnerPart, rec eventlog.Record, decode Decode, e *domain.Event) {
	position := p.position.Load()
	if rec.Seq <= position {
		r.count(func(s *Status) { s.Repeated++ })
		return
	}
	if rec.Seq != position+1 {
		r.alarm(Alarm{Kind: GapInStream, Partition: p.number, Seq: rec.Seq, Want: position + 1, Got: rec.Seq})
	}
	p.gate.Lock()
	r.apply(p, rec, decode, e)
	p.applied++
	p.total.Add(1)
	due := p.applied == r.cfg.SaveAfter
	p.position.Store(rec.Seq)
	p.gate.Unlock()

	if due {
		r.requestSave()
	}
	if rec.Seq >= p.nearest.Load() {
		p.wake(rec.Seq)
	}
	if !p.caughtUp.Load() {
		r.checkCaughtUp(p)
	}
}

// apply decodes a record and hands it to the views; the caller holds gate.
func (r *Runner) apply(p *runnerPart, rec eventlog.Record, decode Decode, e *domain.Event) {
	first := rec.Seq > p.known // else it is read again for a view that does not hold it
	if first {
		p.known, p.lastData, p.again = rec.Seq, rec.Data, nil
	}
	ids := r.cfg.Roster.Ids(p.number)
	g := given{at: Place{Partition: p.number, Seq: rec.Seq}, event: e}
	if err := read(rec, decode, e); err != nil {
		r.alarm(Alarm{Kind: Unreadable, Partition: p.number, Seq: rec.Seq, Account: domain.AccountID(rec.Account), Err: err})
		g.event = nil
		g.at.Account, g.damaged = ids.Find(rec.Account)
		r.feed(p, &g)
		return
	}
	var want uint64
	if first {
		g.at.Account = ids.Add(rec.Account)
		version := ids.version(g.at.Account)
		want = uint64(*version) + 1
		*version = uint32(e.Version)
	} else {
		g.at.Account = ids.Add(rec.Account) // it is there
		want, _ = p.again.follows(g.at.Account, e.Version)
	}
	if g.damaged = e.Version != want; g.damaged {
		r.alarm(Alarm{Kind: GapInAccount, Partition: p.number, Seq: rec.Seq, Account: domain.AccountID(rec.Account), Want: want, Got: e.Version})
	}
	r.feed(p, &g)
}

// checkCaughtUp closes CaughtUp when the last partition has reached its target.
func (r *Runner) checkCaughtUp(p *runnerPart) {
	if p.position.Load() < p.target.Load() || p.caughtUp.Swap(true) {
		return
	}
	if r.behind.Add(-1) == 0 {
		for _, v := range r.cfg.Views {
			r.settle(v)
		}
		r.count(func(s *Status) { s.CaughtUpAfter = r.cfg.Now().Sub(s.StartedAt) })
		close(r.caughtUp)
	}
}

// CaughtUp is closed when every partition has reached the last sequence that
// its stream had when Run began. It stays open when Run ends before.
func (r *Runner) CaughtUp() <-chan struct{} { return r.caughtUp }

// Ended is closed when Run has returned.
func (r *Runner) Ended() <-chan struct{} { return r.ended }

// AsOf is the position of each partition: the sequence of the last event that
// every view holds. Asked before a view, it says what the view's answer holds
// at least.
func (r *Runner) AsOf() map[int]uint64 {
	positions := make(map[int]uint64, len(r.parts))
	for _, p := range r.parts {
		positions[p.number] = p.position.Load()
	}
	return positions
}

// Behind is the number of records that are still to be applied before the
// views are where the history was at the start; 0 once CaughtUp is closed.
func (r *Runner) Behind() (records uint64) {
	for _, p := range r.parts {
		if target, at := p.target.Load(), p.position.Load(); target > at {
			records += target - at
		}
	}
	return records
}

// appliedTotal is the number of records applied since the start.
func (r *Runner) appliedTotal() (sum uint64) {
	for _, p := range r.parts {
		sum += p.total.Load()
	}
	return sum
}

// requestSave asks for a save soon.
func (r *Runner) requestSave() {
	select {
	case r.saveDue <- struct{}{}:
	default:
	}
}

// keep saves the state when it is due and measures the rate, until ctx ends.
func (r *Runner) keep(ctx context.Context) {
	save := time.NewTicker(r.cfg.SaveEvery)
	defer save.Stop()
	rate := time.NewTicker(rateEvery)
	defer rate.Stop()
	meter := newMeter(r.cfg.Now(), r.appliedTotal())
	for {
		select {
		case <-ctx.Done():
			return
		case <-rate.C:
			perSecond := meter.tick(r.cfg.Now(), r.appliedTotal())
			r.count(func(s *Status) { s.PerSecond = perSecond })
		case <-save.C:
			r.saveNow(ctx)
		case <-r.saveDue:
			r.saveNow(ctx)
			save.Reset(r.cfg.SaveEvery)
		}
	}
}
