package projections

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/musterhq/muster/eventlog"
)

// Source gives a partition's records with a sequence above after, in order and
// each once, and goes on with new ones until ctx ends (which ends it without
// an error). An [eventlog.Log] is one.
type Source interface {
	Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error]
}

// The bounds of a Tee.
const (
	// DefaultTeeCapacity is the most records that a Tee keeps for each
	// partition: what a view may lag behind the writer before the log is asked.
	// Reading the log back slows the appends to it down by far more than a lag
	// does, so it is generous; what was taken is not kept.
	DefaultTeeCapacity = 1 << 16
	// teeIdle is how long a follower that has read everything offered waits
	// before it asks the log whether somebody else has written.
	teeIdle = 250 * time.Millisecond
	// teeTrust is the number of records that must have been offered before the
	// log's own follower is given up. Every gap in the offers doubles it.
	teeTrust    = 1024
	teeTrustMax = teeTrust << 10
	// teeBatch is the number of records taken under one lock or without
	// looking at the other side.
	teeBatch = 256
)

// Tee is a Source that serves records which this process has committed itself
// from memory, and everything else from the log behind it.
//
// The writer of a partition hands over what it has committed (Offer), after
// the log has acknowledged it; that never waits. A follower that finds its
// next record among the offers takes it from there. In every other case the
// log's own Follow is asked: at the start, after a gap or an overflow, and when
// no offer has come for a moment, since another process may have written. So
// an offer can make a record come earlier, and nothing that is or is not
// offered can make one be missed, come twice or out of order. Under load the
// offers come without a pause and the log is not asked at all; in quiet times
// its follower stays open beside them and costs nothing.
type Tee struct {
	log   Source
	rings []*teeRing
}

var _ Source = (*Tee)(nil)

// teeRing holds the latest records offered for one partition that were not yet
// taken: an unbroken run of sequences, oldest first from head.
type teeRing struct {
	mu       sync.Mutex
	records  []eventlog.Record
	head     int
	capacity int
	last     uint64        // sequence of the last record put; 0 = none was
	offered  uint64        // records ever put
	grown    chan struct{} // closed and replaced by an offer that somebody waits for
	waited   bool
}

// NewTee returns a Tee over log that keeps up to capacity records for each of
// the partitions (0: DefaultTeeCapacity). It is made for one follower of each
// partition: what that one has taken is forgotten, and another one would have
// to ask the log.
func NewTee(log Source, partitions, capacity int) *Tee {
	if capacity <= 0 {
		capacity = DefaultTeeCapacity
	}
	t := &Tee{log: log}
	for range partitions {
		t.rings = append(t.rings, &teeRing{capacity: capacity, grown: make(chan struct{})})
	}
	return t
}

// Offer hands over records of one partition that are stored in the log, in the
// order of their sequence. The records' Data must not change afterwards. It
// never waits; what there is no room for pushes the oldest out.
func (t *Tee) Offer(partition int, records []eventlog.Record) {
	r := t.rings[partition]
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range records {
		r.put(rec)
	}
	if r.waited {
		r.waited = false
		close(r.grown)
		r.grown = make(chan struct{})
	}
}

// put adds one record; one that does not follow the last begins a new run.
func (r *teeRing) put(rec eventlog.Record) {
	switch {
	case r.last == 0:
	case rec.Seq <= r.last:
		return
	case rec.Seq > r.last+1:
		r.drop(len(r.records) - r.head)
	}
	if len(r.records)-r.head == r.capacity {
		r.drop(1)
	}
	r.records = append(r.records, rec)
	r.last = rec.Seq
	r.offered++
}

// drop forgets the oldest n records.
func (r *teeRing) drop(n int) {
	clear(r.records[r.head : r.head+n])
	r.head += n
	if r.head == len(r.records) {
		r.records, r.head = r.records[:0], 0
	} else if r.head > teeBatch && r.head > len(r.records)/2 {
		kept := copy(r.records, r.records[r.head:])
		clear(r.records[kept:])
		r.records, r.head = r.records[:kept], 0
	}
}

// offers is what take found.
type offers struct {
	records []eventlog.Record // from the wanted one on
	count   uint64            // records ever offered
	awaited bool              // the wanted record lies behind all that were offered
	grown   <-chan struct{}   // closed by the next offer; nil when records were found
}

// take appends to buf the offered records from next on, and forgets those
// before.
func (r *teeRing) take(next uint64, buf []eventlog.Record) offers {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := offers{records: buf, count: r.offered}
	if n := len(r.records) - r.head; n > 0 {
		first := r.records[r.head].Seq
		if end := first + uint64(n); next >= end {
			r.drop(n)
			found.awaited = true
		} else if next >= first {
			r.drop(int(next - first))
			found.records = append(buf, r.records[r.head:min(r.head+teeBatch, len(r.records))]...)
			return found
		}
	} else {
		found.awaited = r.last != 0 && next > r.last
	}
	r.waited = true
	found.grown = r.grown
	return found
}

// Follow gives the partition's records as [Source] says.
func (t *Tee) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		f := &teeFollower{
			tee: t, partition: partition, next: after + 1,
			yield: yield, trust: teeTrust, progress: time.Now(),
		}
		defer f.closeLog()
		f.run(ctx)
	}
}

// teeFollower is one run of Follow.
type teeFollower struct {
	tee       *Tee
	partition int
	yield     func(eventlog.Record, error) bool
	next      uint64 // sequence of the record that comes next
	buf       []eventlog.Record
	progress  time.Time // when the last record came

	log    *logFeed // nil while the offers are trusted to bring everything
	asked  bool     // log has been opened before
	opened uint64   // records ever offered when log was opened
	trust  uint64   // records offered since then that make log superfluous
}

// run alternates between the offers and the log until ctx ends, the log fails
// or nobody wants more.
func (f *teeFollower) run(ctx context.Context) {
	for ctx.Err() == nil {
		found := f.tee.rings[f.partition].take(f.next, f.buf[:0])
		f.buf = found.records
		if covered := len(found.records) > 0 || found.awaited; covered && found.count-f.opened >= f.trust {
			f.closeLog()
		}
		if len(found.records) > 0 {
			if !f.give(ctx, found.records) {
				return
			}
			continue
		}
		if f.log == nil && found.awaited && f.waitForOffer(ctx, found.grown) {
			continue
		}
		if f.log == nil {
			f.openLog(ctx, found)
		}
		if !f.fromLog(ctx, found.grown) {
			return
		}
	}
}

// give yields offered records and says whether to go on.
func (f *teeFollower) give(ctx context.Context, records []eventlog.Record) bool {
	for _, rec := range records {
		f.next = rec.Seq + 1
		if ctx.Err() != nil || !f.yield(rec, nil) {
			return false
		}
	}
	f.progress = time.Now()
	return true
}

// waitForOffer waits for an offer as long as records may be expected from
// there; false: ask the log.
func (f *teeFollower) waitForOffer(ctx context.Context, grown <-chan struct{}) bool {
	idle := time.NewTimer(teeIdle - time.Since(f.progress))
	defer idle.Stop()
	select {
	case <-grown:
		return true
	case <-ctx.Done():
		return true
	case <-idle.C:
		return false
	}
}

// openLog asks the log for what the offers do not have.
func (f *teeFollower) openLog(ctx context.Context, found offers) {
	if gap := !found.awaited && f.asked; gap {
		f.trust = min(2*f.trust, teeTrustMax)
	}
	f.asked, f.opened = true, found.count
	f.log = openLog(ctx, f.tee.log, f.partition, f.next-1)
}

// closeLog ends the log's follower, if there is one, and waits for its goroutine.
func (f *teeFollower) closeLog() {
	if f.log != nil {
		f.log.stop()
		f.log = nil
	}
}

// fromLog takes what the log's follower has, unless an offer comes first, and
// says whether to go on.
func (f *teeFollower) fromLog(ctx context.Context, grown <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-grown:
		return true
	case rec, ok := <-f.log.records:
		if !f.logged(ctx, rec, ok) {
			return false
		}
	}
	for range teeBatch {
		select {
		case rec, ok := <-f.log.records:
			if !f.logged(ctx, rec, ok) {
				return false
			}
		default:
			return true
		}
	}
	return true
}

// logged yields one record of the log (ok false: it has ended) and says
// whether to go on.
func (f *teeFollower) logged(ctx context.Context, rec eventlog.Record, ok bool) bool {
	switch {
	case ctx.Err() != nil:
		return false
	case !ok:
		f.yield(eventlog.Record{}, f.log.failure())
		return false
	case rec.Seq < f.next:
		return true // an offer came earlier
	}
	f.next = rec.Seq + 1
	f.progress = time.Now()
	return f.yield(rec, nil)
}
