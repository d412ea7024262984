package projections_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/projections"
)

// TestRebuildUnderTraffic: a view is folded anew while events come in, and holds
// the same as if nothing had been; the other views notice nothing.
func TestRebuildUnderTraffic(t *testing.T) {
	log, blobs := memlog.New(3), new(memlog.Blobs)
	w := newWriter(t, log)
	w.write(3000)
	view := newPicky("main", 3, nothing)
	r := start(t, log, func(c *projections.Config) { c.Blobs, c.Views = blobs, append(c.Views, view) })
	r.caughtUp()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				w.write(50)
			}
		}
	}()
	for range 5 {
		if err := r.Rebuild(t.Context(), "main", 0); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-ended
	r.reach(log)
	want := fold(t, log)
	if got := view.state(); !slices.Equal(got, want) || view.repeated > 0 {
		t.Errorf("the rebuilt view holds %v, %d events came twice; want %v", got, view.repeated, want)
	}
	if got := r.view.state(); !slices.Equal(got, want) || r.view.repeated > 0 {
		t.Errorf("the other view holds %v, want %v", got, want)
	}
	s := statusOf(t, r, "main").Rebuild
	if s.Running || s.Failed != "" || s.Ended.IsZero() || s.Done < 3000 || s.PerSecond <= 0 {
		t.Errorf("status of the rebuild: %+v", s)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if err := r.Rebuild(t.Context(), "main", 0); !errors.Is(err, projections.ErrEnded) {
		t.Errorf("a rebuild when the runner has ended: %v", err)
	}
}

// TestRebuildRevivesAHaltedView: with what halted it mended, it takes events
// again; while it is not, the rebuild fails and the old state stays.
func TestRebuildRevivesAHaltedView(t *testing.T) {
	log := memlog.New(2)
	w := newWriter(t, log)
	w.write(200)
	var mended atomic.Bool
	sick := newPicky("sick", 2, func(at projections.Place) bool { return !mended.Load() && seventh(at) })
	r := start(t, log, func(c *projections.Config) { c.Views = append(c.Views, sick) })
	r.reach(log)
	r.caughtUp()
	before := sick.state()
	err := r.Rebuild(t.Context(), "sick", 0)
	if err == nil || !strings.Contains(err.Error(), "partition 1, sequence 7") || !strings.Contains(err.Error(), "no taste") {
		t.Fatalf("a rebuild over the event that halted the view: %v", err)
	}
	if s := statusOf(t, r, "sick"); !slices.Equal(sick.state(), before) || s.Rebuild.Failed == "" || s.Sound() {
		t.Errorf("after a rebuild that failed: %v, %+v", sick.state(), s)
	}
	mended.Store(true)
	if err := r.Rebuild(t.Context(), "sick", 0); err != nil {
		t.Fatal(err)
	}
	w.write(40)
	r.reach(log)
	if got, want := sick.state(), fold(t, log); !slices.Equal(got, want) {
		t.Errorf("the view holds %v, want %v", got, want)
	}
	if s := statusOf(t, r, "sick"); !s.Sound() || len(s.Faults) != 0 {
		t.Errorf("the view is still said to be sick: %+v", s)
	}
}

// TestRebuildPassesOverWhatIsParked: as the rule of the view says.
func TestRebuildPassesOverWhatIsParked(t *testing.T) {
	log := memlog.New(2)
	newWriter(t, log).write(200)
	parking := newPicky("parking", 2, seventh)
	r := start(t, log, func(c *projections.Config) { c.Views, c.Poison = append(c.Views, parking), projections.Park })
	r.reach(log)
	r.caughtUp()
	before := parking.state()
	if err := r.Rebuild(t.Context(), "parking", 0); err != nil {
		t.Fatal(err)
	}
	if s := statusOf(t, r, "parking"); !slices.Equal(parking.state(), before) || s.Parked != 1 || len(s.Faults) != 1 {
		t.Errorf("got %v, want %v; %+v", parking.state(), before, s)
	}
}

// TestRebuildKnowsOfDamage: what is damaged in the history is found again.
func TestRebuildKnowsOfDamage(t *testing.T) {
	log := memlog.New(1)
	w := newWriter(t, log)
	w.write(100)
	w.versions["acct-3"] = 50
	w.one("acct-3")
	w.raw("acct-5", []byte("nothing readable"))
	w.raw("nobody", []byte("nothing readable"))
	w.write(10)
	view := newPicky("main", 1, nothing)
	r := start(t, log, func(c *projections.Config) { c.Views = append(c.Views, view) })
	r.reach(log)
	r.caughtUp()
	want := slices.Clone(view.damaged)
	if err := r.Rebuild(t.Context(), "main", 0); err != nil {
		t.Fatal(err)
	}
	if len(want) != 2 || !slices.Equal(view.damaged, want) {
		t.Errorf("damage at %v, want %v", view.damaged, want)
	}
}

func TestWhatCannotBeRebuilt(t *testing.T) {
	log := memlog.New(1)
	newWriter(t, log).write(50)
	view := newPicky("main", 1, nothing)
	slow := blocking{log, make(chan struct{})}
	r := start(t, log, func(c *projections.Config) { c.History, c.Views = slow, append(c.Views, view) })
	if err := r.Rebuild(t.Context(), "main", 0); !errors.Is(err, projections.ErrNotReady) {
		t.Errorf("while it catches up: %v", err)
	}
	close(slow.begin)
	r.caughtUp()
	for _, name := range []string{"recorder", "nobody"} { // the one cannot be renewed
		if err := r.Rebuild(t.Context(), name, 0); !errors.Is(err, projections.ErrNoView) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Rebuild(ctx, "main", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// blocking is a log that gives nothing until it may.
type blocking struct {
	*memlog.Log
	begin chan struct{}
}

func (l blocking) Read(ctx context.Context, p int, after uint64) iter.Seq2[eventlog.Record, error] {
	<-l.begin
	return l.Log.Read(ctx, p, after)
}

// TestRebuildAtARate: it takes as long as the rate says, tells how long it will
// take, and there is one at a time.
func TestRebuildAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(1)
		newWriter(t, log).write(10_256)
		view := newPicky("main", 1, nothing)
		r := start(t, log, func(c *projections.Config) { c.Views = append(c.Views, view) })
		r.caughtUp()
		began := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- r.Rebuild(t.Context(), "main", 1000) }()
		<-time.NewTimer(5 * time.Second).C // of the bubble's clock
		s := statusOf(t, r, "main").Rebuild
		left, ok := s.Left()
		if !s.Running || s.Total != 10_256 || s.Done < 5000 || s.Done > 5600 || !ok || left < 4*time.Second || left > 6*time.Second {
			t.Errorf("after 5 s: %+v, %v left", s, left)
		}
		if err := r.Rebuild(t.Context(), "main", 0); !errors.Is(err, projections.ErrRebuilding) {
			t.Errorf("a second rebuild beside it: %v", err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("10 256 records at 1000 a second took %v", took)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}
