package projectiontest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natstest"
	"github.com/musterhq/muster/projections"
)

// asOracle holds what a view tells at the end of a history to what a plain
// reading of that history finds.
func (s Subject) asOracle(t *testing.T, what string, h *History, v projections.View) {
	t.Helper()
	if s.Want != nil {
		same(t, what, s.answers(t, h, v), text(t, s.Want(h)))
	}
}

// checkOracle compares at random places of random histories: fed once, each event
// twice, what came before again, and saved and loaded.
func (s Subject) checkOracle(t *testing.T) {
	if s.Want == nil {
		t.Fatal("the view has no oracle")
	}
	for seed, cfg := range []Config{{Talk: 30, Lost: 5}, {Events: 4000, Accounts: 25, Talk: 20}, {Partitions: 1, Events: 800, Accounts: 300, Lost: 10}, {Partitions: 5, Talk: 60}} {
		h := Generate(uint64(40+seed), cfg)
		rng := rand.New(rand.NewPCG(uint64(seed), 5))
		v := s.New(h, h.Roster)
		done := 0
		for range 6 {
			cut := done + rng.IntN(1+len(h.Items)-done)
			for _, i := range h.Items[done:cut] {
				give(v, i)
				if seed%2 == 1 {
					give(v, i)
				}
			}
			done = cut
			feed(v, h.Items[max(0, cut-50):cut])
			s.asOracle(t, fmt.Sprintf("history %d, after %d events", seed, cut), h.Until(cut), v)
			loaded := s.New(h, h.Roster)
			load(t, loaded, save(t, h, v))
			v = loaded
		}
		feed(v, h.Items[done:])
		s.asOracle(t, fmt.Sprintf("history %d, at its end", seed), h.Until(len(h.Items)), v)
	}
}

// checkRebuilt folds the view anew beside itself while events come in, and takes
// up what was saved in a second run.
func (s Subject) checkRebuilt(t *testing.T) {
	h := Generate(77, Config{Events: 3000, Talk: 25, Lost: 5})
	s.checkRuns(t, h, memlog.New(h.Partitions), true)
}

// checkLive follows a history in the streams of a real server.
func (s Subject) checkLive(t *testing.T) {
	h := Generate(78, Config{Partitions: 2, Events: 1200, Talk: 25, Lost: 5})
	log, err := natslog.Open(t.Context(), natstest.Run(t).Conn(t), natslog.Config{Partitions: h.Partitions})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.checkRuns(t, h, log, false)
}

// checkRuns lets a Runner keep the view up to date in two runs, the second of which
// begins with what the first has saved.
func (s Subject) checkRuns(t *testing.T, h *History, log eventlog.Log, rebuild bool) {
	t.Helper()
	n := len(h.Items)
	w := writer{t: t, log: log, last: map[string]uint64{}}
	blobs := &memlog.Blobs{}
	w.write(h.Items[:n/3])
	one := s.run(t, h, log, blobs)
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.write(h.Items[n/3 : 2*n/3])
	}()
	if _, ok := one.view.(projections.Renewer); ok && rebuild {
		for range 3 {
			if err := one.Rebuild(t.Context(), one.view.Name(), 0); err != nil {
				t.Errorf("rebuild: %v", err)
			}
		}
	}
	<-written
	one.reach(log)
	s.asOracle(t, "kept up to date", h.Until(2*n/3), one.view)
	one.end()

	two := s.run(t, h, log, blobs)
	s.asOracle(t, "taken up from what was saved", h.Until(2*n/3), two.view)
	w.write(h.Items[2*n/3:])
	two.reach(log)
	s.asOracle(t, "kept up to date in a second run", h.Until(n), two.view)
	two.end()
}

// writer appends a history to a log.
type writer struct {
	t    *testing.T
	log  eventlog.Log
	last map[string]uint64 // sequence of an account's last record
}

func (w *writer) write(items []Item) {
	for _, i := range items {
		id := string(i.Event.Account)
		data, err := codec.Encode(i.Event)
		if err != nil {
			w.t.Error(err)
			return
		}
		r := w.log.Append(w.t.Context(), i.At.Partition, []eventlog.Entry{{Account: id, Expect: w.last[id], Data: data}})[0]
		if r.Err != nil || r.Seq != i.At.Seq {
			w.t.Errorf("event %d of %s: stored at %d, want %d: %v", i.Event.Version, id, r.Seq, i.At.Seq, r.Err)
			return
		}
		w.last[id] = r.Seq
	}
}

// run is one run of a Runner with the view.
type run struct {
	*projections.Runner
	t     *testing.T
	view  projections.View
	end   func()
	ended chan error
}

// run starts a Runner and waits until it has caught up.
func (s Subject) run(t *testing.T, h *History, log eventlog.Log, blobs eventlog.Blobs) *run {
	t.Helper()
	roster := projections.NewRoster(h.Partitions)
	v := s.New(h, roster)
	runner, err := projections.New(projections.Config{
		History: log, Roster: roster, Views: []projections.View{v}, Blobs: blobs, SaveAfter: 250,
		OnNotice: func(err error) { t.Errorf("the runner says: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{Runner: runner, t: t, view: v, ended: make(chan error, 1)}
	go func() { r.ended <- runner.Run(ctx) }()
	done := false
	r.end = func() {
		if cancel(); done {
			return
		}
		done = true
		if err := <-r.ended; err != nil {
			t.Errorf("the runner ended with: %v", err)
		}
	}
	t.Cleanup(r.end)
	select {
	case <-runner.CaughtUp():
	case <-time.After(time.Minute):
		t.Fatal("the runner did not catch up")
	}
	return r
}

// reach waits until the view holds everything that the log holds.
func (r *run) reach(log eventlog.Log) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for p := range log.Partitions() {
		info, err := log.Info(ctx, p)
		if err == nil {
			err = r.WaitFor(ctx, p, info.Last)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// Damage says since when the accounts of a history are damaged: since the last
// event of the partition that was judged before it showed, 0 when there was none.
func (h *History) Damage() map[domain.AccountID]int64 {
	since := map[domain.AccountID]int64{}
	last := make([]int64, h.Partitions)
	for _, i := range h.Items {
		if _, already := since[i.Event.Account]; i.Damaged && !already {
			since[i.Event.Account] = last[i.At.Partition]
		}
		last[i.At.Partition] = i.Event.Recorded
	}
	return since
}
