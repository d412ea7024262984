package command_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/memlog"
)

// last is the account's newest event.
func last(t *testing.T, log *memlog.Log, account string) domain.Event {
	t.Helper()
	h := history(t, log, account)
	if len(h) == 0 {
		t.Fatalf("account %s has no events", account)
	}
	return h[len(h)-1]
}

func TestADeadlineFiresWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(1)
		s := open(t, command.Config{Log: log})
		defer shut(t, s)
		begin := time.Now()
		s.Do(t.Context(), trigger("a", "start", ""))
		advance(5*time.Minute - time.Nanosecond)
		synctest.Wait()
		if e := last(t, log, "a"); e.Trigger != "start" {
			t.Fatalf("%s fired early", e.Trigger)
		}
		advance(time.Nanosecond)
		synctest.Wait()
		e := last(t, log, "a")
		if e.Trigger != "mark_stuck" || e.Source != domain.SourceMuster || e.At != begin.Add(5*time.Minute).UnixNano() {
			t.Fatalf("%+v", e)
		}
		advance(24 * time.Hour)
		if n := len(history(t, log, "a")); n != 2 {
			t.Fatalf("%d events, want 2: a deadline fires once", n)
		}
	})
}

func TestOverdueDeadlinesFireOnceAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const accounts = 500
		log, blobs := memlog.New(2), new(memlog.Blobs)
		cfg := command.Config{Log: log, Blobs: blobs, GroupMax: 64}
		s := open(t, cfg)
		for i := range accounts {
			s.Do(t.Context(), trigger(fmt.Sprint(i), "start", ""))
		}
		shut(t, s)
		advance(time.Hour)
		up := time.Now()
		s = open(t, cfg)
		advance(time.Second)
		synctest.Wait()
		for i := range accounts {
			h := history(t, log, fmt.Sprint(i))
			if len(h) != 2 || h[1].Trigger != "mark_stuck" || h[1].At != up.UnixNano() {
				t.Fatalf("account %d: %+v", i, h)
			}
		}
		shut(t, s)
	})
}

// What was overdue, and what comes due meanwhile, waits for the facts that waited
// elsewhere; a fact that came in time is then judged before its deadline.
func TestDeadlinesWaitForWhatCameBeforeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(1)
		s := open(t, command.Config{Log: log})
		for _, id := range []string{"told", "silent", "later"} {
			s.Do(t.Context(), trigger(id, "start", ""))
			advance(time.Minute)
		}
		shut(t, s)
		advance(4 * time.Minute) // "told" and "silent" are overdue, "later" is due in a minute
		judged := make(chan struct{})
		s = open(t, command.Config{Log: log, Hold: func(int) <-chan struct{} { return judged }})
		defer shut(t, s)
		advance(2 * time.Minute)
		s.Do(t.Context(), trigger("told", "connection_ready", ""))
		synctest.Wait()
		for _, id := range []string{"told", "silent", "later"} {
			if e := last(t, log, id); e.Source == domain.SourceMuster {
				t.Fatalf("%s of %s fired while deadlines had to wait", e.Trigger, id)
			}
		}
		released := time.Now()
		close(judged)
		synctest.Wait()
		if h := history(t, log, "told"); len(h) != 2 || h[1].To != "RUNNING" {
			t.Errorf("the account whose fact waited: %+v", h)
		}
		for _, id := range []string{"silent", "later"} {
			if e := last(t, log, id); e.Trigger != "mark_stuck" || e.At != released.UnixNano() {
				t.Errorf("%s: %+v, want mark_stuck at the moment when it could first fire", id, e)
			}
		}
	})
}

func TestAFactInTheSameGroupComesBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(1)
		s := open(t, command.Config{Log: log})
		defer shut(t, s)
		s.Do(t.Context(), trigger("a", "start", ""))
		advance(5 * time.Minute) // the deadline is due now, and so is the fact
		s.Do(t.Context(), trigger("a", "connection_ready", ""))
		synctest.Wait()
		if h := history(t, log, "a"); h[len(h)-1].To != "RUNNING" {
			t.Fatalf("%+v", h)
		}
	})
}

// slowLog holds appends back until it is told otherwise.
type slowLog struct {
	*memlog.Log
	gate chan struct{}
}

func (l *slowLog) Append(ctx context.Context, p int, group []eventlog.Entry) []eventlog.Result {
	<-l.gate
	return l.Log.Append(ctx, p, group)
}

// TestAnOverdueDeadlineThatItsGroupMoves: a fact and a deadline wait behind a slow
// group. When the fact is taken first, it is judged first and takes the deadline's
// reason away, and the writer goes on.
func TestAnOverdueDeadlineThatItsGroupMoves(t *testing.T) {
	moved := 0
	for range 20 { // which is taken first is the scheduler's choice
		synctest.Test(t, func(t *testing.T) {
			log := &slowLog{memlog.New(1), make(chan struct{}, 1)}
			s := open(t, command.Config{Log: log})
			defer shut(t, s)
			log.gate <- struct{}{}
			s.Do(t.Context(), trigger("a", "start", ""))
			var wg sync.WaitGroup
			wg.Go(func() { s.Do(t.Context(), trigger("b", "start", "")) })
			synctest.Wait()
			advance(6 * time.Minute) // a is stuck by now, and its writer is busy
			wg.Go(func() { s.Do(t.Context(), trigger("a", "qr_received", "")) })
			synctest.Wait()
			close(log.gate)
			wg.Wait()
			h := history(t, log, "a")
			if e := h[len(h)-1]; e.Trigger != "qr_received" || e.To != "QR_REQUIRED" {
				t.Fatalf("%+v", e)
			}
			if len(h) == 2 {
				moved++
			}
			advance(11 * time.Minute) // the deadline of its new state is kept
			synctest.Wait()
			if e := last(t, log.Log, "a"); e.Trigger != "mark_stuck" || e.To != "QR_REQUIRED" {
				t.Fatalf("%+v", e)
			}
		})
	}
	if moved == 0 {
		t.Fatal("the deadline was first each time: the test did not do what it is for")
	}
}

func TestSupervisedRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(1)
		s := open(t, command.Config{Log: log})
		defer shut(t, s)
		start := trigger("a", "start", "")
		start.By, start.Mode = domain.ByUser, domain.ModeSupervise
		s.Do(t.Context(), start)
		s.Do(t.Context(), trigger("a", "connection_ready", ""))
		s.Do(t.Context(), trigger("a", "connection_lost", ""))
		advance(time.Hour)
		synctest.Wait()
		var own []string
		for _, e := range history(t, log, "a") {
			if e.Source == domain.SourceMuster {
				own = append(own, e.Trigger)
			}
		}
		want := []string{"start", "reconnect_failed", "start", "reconnect_failed", "start", "reconnect_failed",
			"start", "reconnect_failed", "start", "reconnect_failed", "mark_gave_up"}
		if fmt.Sprint(own) != fmt.Sprint(want) {
			t.Fatalf("Muster did %v, want %v", own, want)
		}
	})
}

// advance lets the bubble's clock run on.
func advance(d time.Duration) { <-time.After(d) }
