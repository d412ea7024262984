package command_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/eventlog/memlog"
)

// TestTwoWritersAndTheirSnapshots lets two processes write one partition, as may
// happen while a lease changes hands. Neither's snapshot leaves out what the
// other has written: a start from it finds every account whole.
func TestTwoWritersAndTheirSnapshots(t *testing.T) {
	for _, every := range []int{100_000, 3} { // snapshots at the end only, and all the time
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			log, blobs := memlog.New(1), new(memlog.Blobs)
			cfg := command.Config{Log: log, Blobs: blobs, SnapshotEvery: every}
			a, b := open(t, cfg), open(t, cfg)
			var answers []told
			var mu sync.Mutex
			var wg sync.WaitGroup
			for i, s := range []*command.Set{a, b} {
				wg.Go(func() {
					some := drive(t, s, 4, 60, 20, fmt.Sprintf("writer-%d", i))
					mu.Lock()
					answers = append(answers, some...)
					mu.Unlock()
				})
			}
			wg.Wait()
			good := agree(t, log, answers)
			// An account that only one has written to is known to the other, too.
			a.Do(t.Context(), trigger("by-a", "start", ""))
			b.Do(t.Context(), trigger("by-b", "start", ""))
			a.Do(t.Context(), trigger("by-a", "stop", ""))
			if _, err := a.Account(t.Context(), "by-b"); err != nil { // waits until the group is done with
				t.Fatal(err)
			}
			if l, ok, err := a.Look("by-b"); !ok || err != nil || l.Account.State != "CONNECTING" {
				t.Errorf("%+v, %v, %v", l, ok, err)
			}
			if got, want := digest(t, a), plain(t, log); got != want {
				t.Errorf("the digest is %s, the log's fold %s", got, want)
			}
			shut(t, a)
			b.Do(t.Context(), trigger("by-b", "stop", ""))
			shut(t, b)
			again, err := command.NewSet(command.Config{Log: log, Blobs: blobs, Judge: judge()})
			if err != nil {
				t.Fatal(err)
			}
			rep, err := again.Open(t.Context(), 0, nil)
			if err != nil || len(rep.Damaged) > 0 || rep.FromSnapshot == 0 {
				t.Fatalf("%+v, %v", rep, err)
			}
			if got, want := digest(t, again), plain(t, log); got != want {
				t.Errorf("from a snapshot the digest is %s, the log's fold %s", got, want)
			}
			shut(t, again)
			t.Logf("%d of %d triggers were taken", good, len(answers))
		})
	}
}

// TestForeignAccountsHaveDeadlines: what was read of another's records fires, too.
func TestForeignAccountsHaveDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(1)
		a, b := open(t, command.Config{Log: log}), open(t, command.Config{Log: log})
		b.Do(t.Context(), trigger("by-b", "start", ""))
		a.Do(t.Context(), trigger("by-a", "start", ""))
		shut(t, b)
		advance(5 * time.Minute)
		synctest.Wait()
		for _, account := range []string{"by-a", "by-b"} {
			if e := last(t, log, account); e.Trigger != "mark_stuck" {
				t.Errorf("%s: the last event is %s", account, e.Trigger)
			}
		}
		shut(t, a)
	})
}
