package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/seal"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/readytime"
	"github.com/musterhq/muster/projections/stats"
	"github.com/musterhq/muster/projections/transitions"
)

// Options say how an archive is replayed. The zero value replays all of it.
type Options struct {
	Machines *machine.Registry // required; for the classes of states

	// UntilTime leaves out what was recorded later (unix ns); 0: nothing.
	UntilTime int64
	// UntilSeq leaves out what has a higher sequence, by partition; a partition
	// that is not named is read to its end.
	UntilSeq map[int]uint64
	// Account limits the replay to one account; "" = all.
	Account domain.AccountID

	// Keys, when they are set, open what is sealed, and give accounts their ids.
	Keys *seal.Keys

	// Trust leaves out the check of the segments' SHA-256.
	Trust bool
	// Damaged, when it is set, is told of each part that is damaged, and the
	// replay goes on behind it. nil: damage ends the replay.
	Damaged func(error)
	// Workers is how many partitions are folded side by side; 0: one per core.
	Workers int
	// Progress, when it is set, counts the records that were folded.
	Progress *atomic.Int64
	// ViewsOnly leaves out the folded accounts, and so the digest.
	ViewsOnly bool
	// NoTransitions leaves out the view of transitions, and so those numbers.
	NoTransitions bool
}

// Fleet is what a replay gave.
type Fleet struct {
	Distribution *distribution.View
	Transitions  *transitions.View
	ReadyTime    *readytime.View

	AsOf   map[int]uint64
	Events int64
	Last   int64 // when the last event was recorded, unix ns

	folded   []*domain.Folding
	accounts []*domain.Account
}

// Accounts are the fleet's accounts, in no order, forgotten ones too; none when
// only the views were asked for. They are made at the first call.
func (f *Fleet) Accounts() []*domain.Account {
	for _, one := range f.folded {
		f.accounts = append(f.accounts, one.Account())
	}
	f.folded = nil
	return f.accounts
}

// Digest names the state of the fleet.
func (f *Fleet) Digest() string { return domain.Digest(f.Accounts()) }

// Stats are the fleet's numbers at a time (unix ns).
func (f *Fleet) Stats(now int64) stats.Stats {
	return stats.Of(f.AsOf, f.Distribution, f.Transitions, f.ReadyTime, now)
}

// replayGC lets the heap grow further than usual before it is collected: what a
// replay allocates, it mostly keeps.
const replayGC = 400

// Replay folds an archive. The error is a *archive.Fault when the archive is
// damaged, an ErrHistory when its records do not follow one another.
func Replay(ctx context.Context, a *archive.Archive, o Options) (*Fleet, error) {
	n := a.Partitions()
	f := &Fleet{
		Distribution: distribution.New(n, o.Machines), Transitions: transitions.New(n), ReadyTime: readytime.New(n, o.Machines),
		AsOf: map[int]uint64{},
	}
	defer debug.SetGCPercent(debug.SetGCPercent(replayGC)) // back to what it was
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	folds := make([]*fold, n)
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *fold)
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			bench := domain.NewBench()
			for p := range next {
				p.bench = bench
				if err := p.run(work, a); err != nil {
					cancel(fmt.Errorf("replay partition %d: %w", p.partition, err))
				}
			}
		})
	}
	for i := range folds {
		folds[i] = newFold(f, i, o)
		next <- folds[i]
	}
	close(next)
	wg.Wait()
	if err := context.Cause(work); err != nil {
		return nil, err
	}
	for i, p := range folds {
		f.AsOf[i] = p.last
		f.Events += p.events
		f.Last = max(f.Last, p.lastTime)
		for _, a := range p.accounts {
			if a.version > 0 && !o.ViewsOnly {
				f.folded = append(f.folded, &a.fold)
			}
		}
	}
	return f, nil
}

// ErrHistory is wrapped when the records of an archive do not follow one another.
var ErrHistory = errors.New("the history is not whole")

// fold folds one partition.
type fold struct {
	fleet     *Fleet
	partition int
	o         Options
	until     uint64

	reader   *codec.Reader
	event    domain.Event
	brief    domain.Brief
	tally    domain.Event  // what the view of transitions looks at in a brief
	bench    *domain.Bench // of the worker
	accounts []*foldedAccount
	ids      map[string]*foldedAccount // accounts by id, asked once for each segment they occur in
	named    []*foldedAccount          // the segment's accounts, by their numbers there

	last     uint64
	lastTime int64
	events   int64
}

// foldedAccount is an account. What every event looks at stands together with the text
// of its id: to look for each elsewhere takes longer than to compare them.
type foldedAccount struct {
	version uint64
	id      domain.AccountID // mostly in text
	number  uint32           // within the partition
	text    [32]byte
	fold    domain.Folding
}

func newFold(f *Fleet, partition int, o Options) *fold {
	p := &fold{fleet: f, partition: partition, o: o, until: math.MaxUint64, reader: codec.NewReader(), ids: map[string]*foldedAccount{}}
	if s, ok := o.UntilSeq[partition]; ok {
		p.until = s
	}
	return p
}

func (p *fold) run(ctx context.Context, a *archive.Archive) error {
	defer p.settle()
	sums := a.Manifest.Partitions[p.partition].Segments
	for i, s := range a.Segments(p.partition) {
		if err := ctx.Err(); err != nil {
			return nil // the cause is told once
		}
		if s.First() > p.until {
			return nil
		}
		err := p.check(s, sums, i)
		if err == nil {
			err = p.segment(ctx, s)
		}
		var fault *archive.Fault
		if errors.As(err, &fault) && p.o.Damaged != nil {
			p.o.Damaged(err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle folds what the accounts have only noted, side by side with other partitions.
func (p *fold) settle() {
	for _, a := range p.accounts {
		a.fold.Settle()
	}
}

// check compares a sealed segment with the sum that the manifest names.
func (p *fold) check(s *archive.Segment, sums []archive.SegmentInfo, i int) error {
	if p.o.Trust || !s.Sealed {
		return nil
	}
	sum, err := s.Sum()
	if err == nil && sum != sums[i].SHA256 {
		err = &archive.Fault{File: sums[i].File, Partition: p.partition, First: sums[i].First, Last: sums[i].Last, What: "its SHA-256 is not the one that the manifest names"}
	}
	return err
}

func (p *fold) segment(ctx context.Context, s *archive.Segment) error {
	sc := s.Scan()
	defer sc.Close()
	p.named = p.named[:0]
	var b archive.Block
	for {
		if ctx.Err() != nil {
			return nil
		}
		err := sc.Next(&b)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, id := range b.Names {
			p.named = append(p.named, p.enter(id))
		}
		before := p.events
		for i := range b.Entries {
			if err := p.entry(&b.Entries[i]); err != nil {
				return err
			}
		}
		if p.o.Progress != nil {
			p.o.Progress.Add(p.events - before)
		}
	}
}

// enter returns an account of a segment.
func (p *fold) enter(id string) *foldedAccount {
	a, ok := p.ids[id]
	if ok {
		return a
	}
	a = &foldedAccount{number: uint32(len(p.accounts))}
	a.fold.Use(p.bench)
	p.ids[id] = a
	p.accounts = append(p.accounts, a)
	if name, ok := p.o.named(id); ok {
		id = name
	}
	if a.id = domain.AccountID(id); len(id) <= len(a.text) {
		text := a.text[:copy(a.text[:], id)] // and never changed
		a.id = domain.AccountID(unsafe.String(unsafe.SliceData(text), len(text)))
	}
	return a
}

// named is the account's id where it is stored under an alias.
func (o *Options) named(alias string) (string, bool) {
	if o.Keys == nil {
		return "", false
	}
	return o.Keys.Account(alias)
}

// entry folds one record.
func (p *fold) entry(r *archive.Entry) error {
	a := p.named[r.Account]
	id := a.id
	if r.Seq > p.until || p.o.Account != "" && id != p.o.Account {
		return nil
	}
	data := r.Data
	if p.o.Keys != nil {
		data = p.o.Keys.Plain(string(id), data)
	}
	if a.version > 0 && codec.Brief(data, id, &p.brief) {
		return p.fact(r.Seq, a)
	}
	e := &p.event
	e.Account = id
	err := p.reader.Fold(data, e)
	if err == nil && e.Account != id {
		err = fmt.Errorf("%w: the record names account %q", ErrHistory, e.Account)
	}
	if err != nil {
		return fmt.Errorf("sequence %d, account %q: %w", r.Seq, id, err)
	}
	if ok, err := p.next(r.Seq, a, e.Version, e.Recorded); !ok {
		return err
	}
	at := projections.Place{Partition: p.partition, Seq: r.Seq, Account: a.number}
	p.fleet.Distribution.Apply(at, e)
	if !p.o.NoTransitions {
		p.fleet.Transitions.Apply(at, e)
	}
	p.fleet.ReadyTime.Apply(at, e)
	if !p.o.ViewsOnly {
		a.fold.Evolve(e)
	}
	return nil
}

// fact folds the record that was read as a brief. The counts of states and the
// times to RUNNING do not look at those of accounts that they know.
func (p *fold) fact(seq uint64, a *foldedAccount) error {
	b := &p.brief
	if ok, err := p.next(seq, a, b.Version, b.Recorded); !ok {
		return err
	}
	if !p.o.NoTransitions {
		e := &p.tally
		e.Kind, e.Outcome, e.From, e.Trigger, e.At = b.Kind, b.Outcome, b.From, b.Trigger, b.At
		p.fleet.Transitions.Apply(projections.Place{Partition: p.partition, Seq: seq, Account: a.number}, e)
	}
	if !p.o.ViewsOnly {
		a.fold.EvolveBrief(b)
	}
	return nil
}

// next takes up an account's next event; ok is false for one that is left out.
func (p *fold) next(seq uint64, a *foldedAccount, version uint64, recorded int64) (ok bool, err error) {
	if p.o.UntilTime != 0 && recorded > p.o.UntilTime {
		return false, nil
	}
	if want := a.version + 1; version != want {
		if err := p.broken(seq, a.id, want, version); err != nil {
			return false, err
		}
	}
	a.version = version
	p.last, p.lastTime = seq, max(p.lastTime, recorded)
	p.events++
	return true, nil
}

// broken is a gap in an account's event numbers.
func (p *fold) broken(seq uint64, id domain.AccountID, want, got uint64) error {
	err := fmt.Errorf("%w: account %q at sequence %d of partition %d has event %d where event %d should be", ErrHistory, id, seq, p.partition, got, want)
	if p.o.Damaged == nil {
		return err
	}
	p.o.Damaged(err)
	return nil
}
