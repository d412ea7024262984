package projections_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/projections"
)

// TestWaitForWhatWasSaved: who waits before the saved state is loaded is told
// when it is.
func TestWaitForWhatWasSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, blobs := memlog.New(1), new(memlog.Blobs)
		newWriter(t, log).write(30)
		first := start(t, log, func(c *projections.Config) { c.Blobs = blobs })
		first.caughtUp()
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
		second, err := projections.New(projections.Config{
			History: log, Roster: projections.NewRoster(1), Views: []projections.View{newRecorder(1)}, Blobs: blobs,
		})
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() { waited <- second.WaitFor(context.Background(), 0, 30) }()
		synctest.Wait() // it waits
		ctx, cancel := context.WithCancel(context.Background())
		go func() { _ = second.Run(ctx) }()
		if err := <-waited; err != nil {
			t.Error(err)
		}
		cancel()
		<-second.Ended()
		if s := second.Status(); s.Resumed != 30 {
			t.Errorf("resumed %d records, want 30", s.Resumed)
		}
	})
}

func TestWaitFor(t *testing.T) {
	log := memlog.New(2)
	w := newWriter(t, log)
	r := start(t, log, nil)
	rec := w.one("acct-1")
	if err := r.WaitFor(t.Context(), rec.Partition, rec.Seq); err != nil {
		t.Errorf("wait for a record that was written: %v", err)
	}
	if err := r.WaitAll(t.Context(), map[int]uint64{0: 0, rec.Partition: rec.Seq}); err != nil {
		t.Errorf("wait for all: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 2)
	go func() { waits <- r.WaitFor(ctx, 0, 1000) }()
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("wait with a context that ended: %v", err)
	}
	go func() { waits <- r.WaitFor(context.Background(), 1, 1000) }()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, projections.ErrEnded) {
		t.Errorf("wait of a Runner that ended: %v", err)
	}
	if err := r.WaitFor(t.Context(), 7, 1); err == nil {
		t.Error("waited for a partition that does not exist")
	}
}

func TestManyWaiters(t *testing.T) {
	log := memlog.New(1)
	w := newWriter(t, log)
	r := start(t, log, nil)
	var waiters sync.WaitGroup
	for i := range uint64(64) {
		waiters.Go(func() {
			if err := r.WaitFor(t.Context(), 0, 1+i*3); err != nil {
				t.Errorf("wait for %d: %v", 1+i*3, err)
			} else if at := r.AsOf()[0]; at < 1+i*3 {
				t.Errorf("waited for %d, but the view is at %d", 1+i*3, at)
			}
		})
	}
	w.write(200)
	waiters.Wait()
}

// TestTheNearestWaiterIsToldFirst: somebody who waits for long does not keep
// those waiting who wait for less.
func TestTheNearestWaiterIsToldFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(1)
		w := newWriter(t, log)
		r := start(t, log, nil)
		synctest.Wait()
		reached := make(chan uint64, 3)
		for _, seq := range []uint64{2, 1, 100} { // in this order
			go func() {
				if r.WaitFor(t.Context(), 0, seq) == nil {
					reached <- seq
				}
			}()
			synctest.Wait()
		}
		for _, want := range []uint64{1, 2} {
			w.one("acct-1")
			synctest.Wait()
			select {
			case seq := <-reached:
				if seq != want {
					t.Errorf("after record %d the one who waits for %d was told", want, seq)
				}
			default:
				t.Errorf("after record %d nobody was told", want)
			}
		}
		if len(reached) != 0 {
			t.Errorf("the one who waits for %d was told after record 2", <-reached)
		}
	})
}
