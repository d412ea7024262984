package command

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// writer owns one partition: its goroutine is the only one that touches slots,
// agenda and the position.
type writer struct {
	set       *Set
	cfg       *Config
	partition int

	public      public // guards slots against who looks from outside
	slots       map[domain.AccountID]*slot
	agenda      *domain.Agenda
	own         domain.Trigger // the deadline being judged
	usual       int            // bytes of the last group's records
	last        uint64         // highest sequence that was seen
	whole       uint64         // all records up to here are folded
	incarnation string         // of the partition's stream
	saved       savedAt
	held        <-chan struct{} // deadlines wait until it is closed; nil: they do not wait
	opened      int64           // since when they do not, unix ns; 0 = they never had to
	quiet       bool            // only folds: nobody else is given what it reads
	saving      chan struct{}   // closed when the snapshot being written is done; nil: none is

	queue chan *request
	again []*request // lost against another writer: judged first in the next group
	ctl   chan func()

	mu      sync.RWMutex // guards closed against a Submit that is under way
	closed  error        // what Submit answers once the writer stops
	stopped chan struct{}
	done    chan struct{}

	ctx    context.Context // ends when the writer may wait for nothing any more
	cancel context.CancelFunc
}

func newWriter(s *Set, partition int) *writer {
	ctx, cancel := context.WithCancel(context.Background())
	return &writer{
		set: s, cfg: &s.cfg, partition: partition,
		slots:   map[domain.AccountID]*slot{},
		agenda:  domain.NewAgenda(),
		queue:   make(chan *request, s.cfg.QueueMax),
		ctl:     make(chan func()),
		stopped: make(chan struct{}),
		done:    make(chan struct{}),
		ctx:     ctx, cancel: cancel,
	}
}

func (w *writer) now() int64 { return w.cfg.Now().UnixNano() }

// submit queues a request or says why it is not taken.
func (w *writer) submit(r *request) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed != nil {
		return w.closed
	}
	select {
	case w.queue <- r:
		return nil
	default:
		return ErrOverloaded
	}
}

// stop lets the writer finish what it has taken and waits for its end; when
// ctx ends first, whatever it still waits for is given up.
func (w *writer) stop(ctx context.Context) error {
	w.mu.Lock()
	if w.closed == nil {
		w.closed = ErrShuttingDown
		close(w.stopped)
	}
	w.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		w.cancel()
		<-w.done
		return fmt.Errorf("stop partition %d: %w", w.partition, context.Cause(ctx))
	}
}

// run is the writer's goroutine.
func (w *writer) run() {
	defer close(w.done)
	defer w.cancel()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	group := make([]*request, 0, w.cfg.GroupMax)
	for {
		group = w.gather(group[:0], timer)
		if len(group) == 0 && w.stopping() {
			break
		}
		w.process(group)
		w.maybeSave()
	}
	w.saveLast()
}

func (w *writer) stopping() bool {
	select {
	case <-w.stopped:
		return true
	default:
		return false
	}
}

// gather waits for the first thing to do and takes all that waits behind it, up
// to GroupMax. It returns an empty group when a deadline is due, when the time
// for a snapshot has come, and when the writer stops with an empty queue.
func (w *writer) gather(group []*request, timer *time.Timer) []*request {
	group = append(group, w.again...)
	clear(w.again)
	w.again = w.again[:0]
	timer.Reset(w.wait())
	for len(group) == 0 {
		select {
		case r := <-w.queue:
			group = append(group, r)
		case f := <-w.ctl:
			f()
		case <-timer.C:
			return group
		case <-w.held:
			return group
		case <-w.stopped:
			return w.drain(group)
		}
	}
	return w.drain(group)
}

func (w *writer) drain(group []*request) []*request {
	for len(group) < w.cfg.GroupMax {
		select {
		case r := <-w.queue:
			group = append(group, r)
		default:
			return group
		}
	}
	return group
}

// wait is how long the writer may sleep: until the next deadline or the next
// look at the snapshot's age.
func (w *writer) wait() time.Duration {
	d := w.cfg.SnapshotAfter
	if at, ok := w.agenda.Next(); ok && w.held == nil {
		d = min(d, time.Duration(at-w.now()))
	}
	return max(d, 0)
}

// process takes one group through judging, the log and the answers.
func (w *writer) process(group []*request) {
	b := &batch{now: w.now()}
	began := w.stamp()
	for _, r := range group {
		w.judge(b, r)
	}
	w.fire(b)
	if len(b.entries) > 0 {
		judged := w.stamp()
		w.append(b)
		if w.cfg.Observer != nil {
			w.observed(b, len(group), began, judged)
		}
	}
	w.usual = b.bytes
	w.settle(b)
	w.keepUp(b)
}

func (w *writer) append(b *batch) {
	if err := w.set.Err(); err != nil {
		for _, it := range b.items {
			if it.record != nil {
				it.draft.fail = err
			}
		}
		return
	}
	results := w.cfg.Log.Append(w.ctx, w.partition, b.entries)
	i := 0
	for _, it := range b.items {
		if it.record == nil {
			continue
		}
		r := results[i]
		i++
		switch {
		case r.Err == nil:
			it.seq, it.draft.seq = r.Seq, r.Seq
			w.last = max(w.last, r.Seq)
		case it.draft.fail == nil:
			it.draft.fail = r.Err
		}
		if errors.Is(r.Err, eventlog.ErrFailed) {
			w.set.fail(fmt.Errorf("partition %d: %w", w.partition, r.Err))
		}
	}
}

// snapshotNow returns the folded accounts as they stand between two groups.
func (w *writer) snapshotNow(ctx context.Context) ([]frozen, uint64, error) {
	type answer struct {
		states []frozen
		seq    uint64
	}
	c := make(chan answer, 1)
	select {
	case w.ctl <- func() { c <- answer{w.freeze(), w.whole} }:
		a := <-c
		return a.states, a.seq, nil
	case <-w.done:
		return w.freeze(), w.whole, nil // nobody writes any more
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
}

// frozen is one account at one moment, safe to read from anywhere.
type frozen struct {
	acct   *domain.Account
	seq    uint64
	hash   [16]byte
	damage string
}

func (w *writer) freeze() []frozen {
	out := make([]frozen, 0, len(w.slots))
	for _, s := range w.slots {
		if s.acct != nil {
			out = append(out, frozen{s.acct, s.seq, s.hash, s.damage})
		}
	}
	return out
}
