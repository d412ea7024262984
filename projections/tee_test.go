package projections_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/projections"
)

// TestTeeUnderStress: records are written in groups and offered in every way
// that is allowed and some that are not: all, none, some of a group, twice, out
// of order, too many at once. A follower gets each once, in order.
func TestTeeUnderStress(t *testing.T) {
	const records, followers = 5_000, 3
	for seed := range uint64(4) {
		log := memlog.New(1)
		tee := projections.NewTee(log, 1, 64)
		w := newWriter(t, log)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for f := range uint64(followers) {
			all.Go(func() {
				follow(ctx, t, tee, rand.New(rand.NewPCG(seed, f)), uint64(f)*100, records)
			})
		}
		rng := rand.New(rand.NewPCG(seed, 99))
		var late []eventlog.Record
		for written := 0; written < records; {
			n := min(1+rng.IntN(200), records-written)
			group := w.write(n)[0]
			written += n
			switch rng.IntN(8) {
			case 0: // another process wrote it
			case 1:
				tee.Offer(0, group[:len(group)/2])
			case 2:
				tee.Offer(0, group[len(group)/2:])
			case 3:
				late = group
			case 4:
				tee.Offer(0, late)
				tee.Offer(0, group)
				tee.Offer(0, group)
			default:
				tee.Offer(0, group)
			}
		}
		all.Wait()
		cancel()
	}
}

// follow reads from after on up to the last record, now and then slowly, and
// checks what comes.
func follow(ctx context.Context, t *testing.T, s projections.Source, rng *rand.Rand, after, last uint64) {
	next := after + 1
	for rec, err := range s.Follow(ctx, 0, after) {
		if err != nil {
			t.Errorf("record %d: %v", next, err)
			return
		}
		if rec.Seq != next || len(rec.Data) == 0 {
			t.Errorf("got record %d, want %d", rec.Seq, next)
			return
		}
		if next++; next > last {
			return
		}
		if rng.IntN(500) == 0 {
			for range 1000 * rng.IntN(50) {
				_ = rng.Uint64()
			}
		}
	}
	t.Errorf("the follower ended before record %d", next)
}

// watched counts how often the log is followed, and can hold records back.
type watched struct {
	*memlog.Log
	follows  atomic.Int64
	open     atomic.Int64
	heldFrom atomic.Uint64 // records from here on are not delivered; 0: all are
}

func (l *watched) Follow(ctx context.Context, p int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		l.follows.Add(1)
		l.open.Add(1)
		defer l.open.Add(-1)
		for rec, err := range l.Log.Follow(ctx, p, after) {
			if held := l.heldFrom.Load(); held != 0 && rec.Seq >= held {
				<-ctx.Done()
				return
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// TestTeeServesOffersWithoutTheLog: what is offered comes although the log
// delivers nothing, and under load the log is not even asked.
func TestTeeServesOffersWithoutTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &watched{Log: memlog.New(1)}
		w := newWriter(t, log.Log)
		w.write(10)
		tee := projections.NewTee(log, 1, 0)
		r := start(t, log.Log, func(c *projections.Config) { c.Source = tee })
		r.caughtUp()
		log.heldFrom.Store(11)
		for range 100 {
			records := w.write(50)[0]
			tee.Offer(0, records)
			if err := r.WaitFor(t.Context(), 0, records[len(records)-1].Seq); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := log.open.Load(); n != 0 {
			t.Errorf("after 5000 offers %d followers of the log are open", n)
		}
		if n := log.follows.Load(); n != 1 {
			t.Errorf("the log was followed %d times, want once: at the start", n)
		}
		if s := r.Status(); s.Applied != 5010 || s.Repeated != 0 || len(s.Alarms) != 0 {
			t.Errorf("status: %+v", s)
		}
	})
}

// TestTeeAsksTheLogWhenNothingIsOffered: another process writes.
func TestTeeAsksTheLogWhenNothingIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &watched{Log: memlog.New(1)}
		w := newWriter(t, log.Log)
		tee := projections.NewTee(log, 1, 0)
		r := start(t, log.Log, func(c *projections.Config) { c.Source = tee })
		for range 60 {
			tee.Offer(0, w.write(50)[0])
		}
		r.reach(log.Log)
		synctest.Wait()
		began := time.Now()
		last := w.one("acct-1") // not offered
		if err := r.WaitFor(t.Context(), 0, last.Seq); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("a record that nobody offered came after %v", took)
		}
		// And a gap in the offers is filled at once.
		w.write(20)
		began = time.Now()
		tee.Offer(0, w.write(5)[0])
		r.reach(log.Log)
		if took := time.Since(began); took > 0 {
			t.Errorf("a gap in the offers was filled after %v", took)
		}
		if got, want := r.view.state(), fold(t, log.Log); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestTeeCatchesUpWhileMuchIsOffered: a follower far behind stays with the log
// until it has reached the offers.
func TestTeeCatchesUpWhileMuchIsOffered(t *testing.T) {
	const groups, group = 400, 50
	log := &watched{Log: memlog.New(1)}
	w := newWriter(t, log.Log)
	tee := projections.NewTee(log, 1, 128)
	for range groups {
		tee.Offer(0, w.write(group)[0])
	}
	next := uint64(1)
	for rec, err := range tee.Follow(t.Context(), 0, 0) {
		if err != nil || rec.Seq != next {
			t.Fatalf("got record %d, %v; want %d", rec.Seq, err, next)
		}
		if next%group == 0 && next < groups*group-2000 {
			tee.Offer(0, w.write(group)[0])
		}
		if next++; next > groups*group {
			break
		}
	}
	if n := log.follows.Load(); n != 1 {
		t.Errorf("the log was followed %d times, want once", n)
	}
}

// TestTeePassesOnWhatTheLogSays: its errors, its gaps, and its end.
func TestTeePassesOnWhatTheLogSays(t *testing.T) {
	log := memlog.New(1)
	newWriter(t, log).write(20)
	tee := projections.NewTee(failing{log, 7}, 1, 0)
	n := 0
	var last error
	for _, err := range tee.Follow(t.Context(), 0, 0) {
		if last = err; err == nil {
			n++
		}
	}
	if n != 7 || !errors.Is(last, errBroken) {
		t.Errorf("%d records, then %v; want 7, then the log's error", n, last)
	}

	log.Drop(0, 4)
	var seqs []uint64
	for rec, err := range projections.NewTee(log, 1, 0).Follow(t.Context(), 0, 2) {
		if err != nil {
			t.Fatal(err)
		}
		if seqs = append(seqs, rec.Seq); rec.Seq == 6 {
			break // ends the log's follower, too: goleak looks
		}
	}
	if fmt.Sprint(seqs) != "[3 5 6]" {
		t.Errorf("got %v, want 3, 5 and 6: record 4 is missing in the log", seqs)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range tee.Follow(ctx, 0, 0) {
		if err != nil {
			t.Errorf("the end of the context is no error: %v", err)
		}
		cancel()
	}
}
