package command_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/memlog"
)

// TestEveryAppendFails lets the n-th append fail in each way, for every n, and
// lets the work go on: what is answered is in the log, once, and what the log
// holds is what the writer holds.
func TestEveryAppendFails(t *testing.T) {
	faults := []eventlogtest.Fault{
		{Op: eventlogtest.OpAppend, Do: eventlogtest.Fail},                            // unknown, and nothing is stored
		{Op: eventlogtest.OpAppend, Do: eventlogtest.LoseAnswer},                      // unknown, and all is stored
		{Op: eventlogtest.OpAppend, Do: eventlogtest.Tear, After: 1},                  // unknown, and some is stored
		{Op: eventlogtest.OpAppend, Do: eventlogtest.Tear, After: 2},                  //
		{Op: eventlogtest.OpAppend, Do: eventlogtest.Fail, Err: eventlog.ErrConflict}, // a conflict that is none
		{Op: eventlogtest.OpAppend, Do: eventlogtest.Fail, Err: eventlog.ErrRefused},  // refused
		{Op: eventlogtest.OpAccount, Do: eventlogtest.Tear, After: 1},                 // the read back breaks off
		{Op: eventlogtest.OpSync, Do: eventlogtest.Fail},                              // the barrier after a read back
	}
	for _, f := range faults {
		for n := 1; n <= 12; n++ {
			f.Nth = n
			script := []eventlogtest.Fault{f}
			if f.Op != eventlogtest.OpAppend { // it needs an unknown append to be called at all
				script = append(script, eventlogtest.Fault{Op: eventlogtest.OpAppend, Do: eventlogtest.LoseAnswer})
				script[1].Nth = 2 * n
			}
			t.Run(fmt.Sprint(f), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { failOnce(t, script) })
			})
		}
	}
}

func failOnce(t *testing.T, script []eventlogtest.Fault) {
	log := memlog.New(1)
	faults := eventlogtest.Script(script...)
	s := open(t, command.Config{Log: eventlogtest.Faulty(log, faults)})
	var answers []told
	var mu sync.Mutex
	for round := range 15 { // each round is a group with several events of one account
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				id := fmt.Sprintf("%d-%d", round, i)
				a := s.Do(t.Context(), trigger(fmt.Sprintf("acct-%d", i%2), words[(round+i)%len(words)], id))
				mu.Lock()
				answers = append(answers, told{id, a})
				mu.Unlock()
			})
		}
		wg.Wait()
	}
	good := agree(t, log, answers)
	for _, a := range answers {
		if a.Err != nil && !errors.Is(a.Err, eventlog.ErrRefused) {
			t.Errorf("%s: %v", a.id, a.Err)
		}
	}
	if good < 50 {
		t.Errorf("only %d of 60 triggers were taken", good)
	}
	if got, want := digest(t, s), plain(t, log); got != want {
		t.Errorf("the writer's digest is %s, the log's fold %s; faults: %v", got, want, faults.Fired())
	}
	shut(t, s)
}

// TestARefusedTriggerMovesNothing: after a refusal the account is as before.
func TestARefusedTriggerMovesNothing(t *testing.T) {
	log := memlog.New(1)
	full := fmt.Errorf("%w: no space left", eventlog.ErrRefused)
	faults := eventlogtest.Script(eventlogtest.Fault{Op: eventlogtest.OpAppend, Nth: 2, Do: eventlogtest.Fail, Err: full})
	s := open(t, command.Config{Log: eventlogtest.Faulty(log, faults)})
	defer shut(t, s)
	s.Do(t.Context(), trigger("a", "start", "1"))
	if a := s.Do(t.Context(), trigger("a", "connection_ready", "2")); !errors.Is(a.Err, eventlog.ErrRefused) {
		t.Fatalf("%+v", a)
	}
	if a := s.Do(t.Context(), trigger("a", "connection_ready", "2")); a.Err != nil || a.Verdict.From != "CONNECTING" || a.Verdict.Version != 2 {
		t.Fatalf("%+v", a)
	}
	if a := s.Do(t.Context(), trigger("never-seen", "qr_scanned", "3")); a.Err != nil || a.Verdict.Version != 1 {
		t.Fatalf("%+v", a)
	}
}

// TestATriggerThatIsTooLarge is refused by itself, also in the middle of a group.
func TestATriggerThatIsTooLarge(t *testing.T) {
	log := memlog.New(1)
	s := open(t, command.Config{Log: log, MaxRecord: 600})
	defer shut(t, s)
	answers := make(chan command.Answer, 3)
	for _, pad := range []int{0, 600, 10} {
		tr := trigger("a", "start", "")
		tr.Data = domain.Data{"pad": strings.Repeat("x", pad)}
		if err := s.Submit(tr, func(a command.Answer) { answers <- a }); err != nil {
			t.Fatal(err)
		}
	}
	var versions []uint64
	for range 3 {
		a := <-answers
		var large *command.TooLargeError
		switch {
		case errors.As(a.Err, &large) && large.Most == 600 && large.Size > 600:
		case a.Err == nil:
			versions = append(versions, a.Verdict.Version)
		default:
			t.Errorf("%+v", a)
		}
	}
	if !slices.Equal(versions, []uint64{1, 2}) || len(history(t, log, "a")) != 2 {
		t.Errorf("the versions %v were given, want those of the small ones, 1 and 2", versions)
	}
	if a := s.Do(t.Context(), trigger("never-seen", "start", strings.Repeat("i", 600))); a.Err == nil {
		t.Errorf("%+v", a)
	}
	if got, want := digest(t, s), plain(t, log); got != want {
		t.Errorf("the writer's digest is %s, the log's fold %s", got, want)
	}
}

// TestARefusalBehindAnUnknownOutcome: that the same bytes are refused later says
// nothing about the first ones, which may still arrive.
func TestARefusalBehindAnUnknownOutcome(t *testing.T) {
	log := memlog.New(1)
	faults := eventlogtest.Script(
		eventlogtest.Fault{Op: eventlogtest.OpAppend, Nth: 1, Do: eventlogtest.Fail},
		eventlogtest.Fault{Op: eventlogtest.OpAppend, Nth: 2, Do: eventlogtest.Fail, Err: eventlog.ErrRefused},
	)
	s := open(t, command.Config{Log: eventlogtest.Faulty(log, faults)})
	defer shut(t, s)
	if a := s.Do(t.Context(), trigger("a", "start", "1")); !errors.Is(a.Err, command.ErrUndecided) || errors.Is(a.Err, eventlog.ErrRefused) {
		t.Fatalf("%+v", a)
	}
	if a := s.Do(t.Context(), trigger("a", "start", "1")); a.Err != nil || a.Verdict.Outcome != domain.Applied {
		t.Fatalf("%+v", a)
	}
}

// TestALogThatStoresNothingMore: it can be read, but nothing that is sent is
// stored or refused. After a while that is a failure, not a wait for ever.
func TestALogThatStoresNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(1)
		faults := eventlogtest.Script()
		s := open(t, command.Config{Log: eventlogtest.Faulty(log, faults)})
		s.Do(t.Context(), trigger("a", "start", "1"))
		faults.Add(eventlogtest.Fault{Op: eventlogtest.OpAppend, Do: eventlogtest.Fail})
		begin := time.Now()
		var wg sync.WaitGroup
		for _, account := range []string{"a", "b", "c"} {
			wg.Go(func() {
				if a := s.Do(t.Context(), trigger(account, "stop", "2")); !errors.Is(a.Err, eventlog.ErrFailed) {
					t.Errorf("%+v", a)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begin); took < 15*time.Second || took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
		select {
		case <-s.Failed():
		default:
			t.Error("the owner is not told")
		}
		shut(t, s)
	})
}

// TestALogThatHasFailed: nothing is answered as done any more, and the owner is told.
func TestALogThatHasFailed(t *testing.T) {
	log := memlog.New(1)
	faults := eventlogtest.Script(eventlogtest.Fault{Op: eventlogtest.OpAppend, Nth: 2, Do: eventlogtest.LoseAnswer, Err: eventlog.ErrFailed})
	s := open(t, command.Config{Log: eventlogtest.Faulty(log, faults)})
	s.Do(t.Context(), trigger("a", "start", "1"))
	for _, account := range []string{"a", "b"} {
		if a := s.Do(t.Context(), trigger(account, "stop", "2")); !errors.Is(a.Err, eventlog.ErrFailed) {
			t.Fatalf("%+v", a)
		}
	}
	<-s.Failed()
	if !errors.Is(s.Err(), eventlog.ErrFailed) {
		t.Fatal(s.Err())
	}
	shut(t, s)
}

// TestTwoWriters: two Sets write the same log at once. Every version exists
// once, and every answer is what the log says.
func TestTwoWriters(t *testing.T) {
	log := memlog.New(2)
	sets := []*command.Set{open(t, command.Config{Log: log}), open(t, command.Config{Log: log})}
	var mu sync.Mutex
	var answers []told
	var wg sync.WaitGroup
	for i, s := range sets {
		wg.Go(func() {
			got := drive(t, s, 8, 100, 6, fmt.Sprint("set", i))
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, got...)
		})
	}
	wg.Wait()
	for _, a := range answers {
		if a.Err != nil && !errors.Is(a.Err, command.ErrContended) {
			t.Errorf("%s: %v", a.id, a.Err)
		}
	}
	if good := agree(t, log, answers); good < 800 {
		t.Errorf("only %d of 1600 triggers were taken", good)
	}
	for _, s := range sets {
		shut(t, s)
	}
}

// TestDamage: a record that is gone, or is not the one that was written,
// damages its account and no other.
func TestDamage(t *testing.T) {
	for name, hurt := range map[string]func(*memlog.Log, uint64){
		"a missing record": func(l *memlog.Log, seq uint64) { l.Drop(0, seq) },
		"an altered record": func(l *memlog.Log, seq uint64) {
			for rec, err := range l.Read(t.Context(), 0, seq-1) {
				if err != nil {
					t.Fatal(err)
				}
				e, _ := codec.Decode(rec.Data)
				e.Source = "somebody else"
				data, _ := codec.Encode(&e)
				l.Overwrite(0, seq, data)
				return
			}
		},
		"an unreadable record": func(l *memlog.Log, seq uint64) { l.Overwrite(0, seq, []byte{0xc1}) },
	} {
		t.Run(name, func(t *testing.T) {
			log := memlog.New(1)
			s := open(t, command.Config{Log: log})
			var seq uint64
			for i, word := range []string{"start", "connection_ready", "connection_lost", "connection_ready"} {
				for _, account := range []string{"sick", "sound"} {
					a := s.Do(t.Context(), trigger(account, word, ""))
					if account == "sick" && i == 1 {
						seq = a.Seq
					}
				}
			}
			shut(t, s)
			hurt(log, seq)

			s, err := command.NewSet(command.Config{Log: log, Judge: judge()})
			if err != nil {
				t.Fatal(err)
			}
			rep, err := s.Open(t.Context(), 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(rep.Damaged) != 1 || rep.Damaged["sick"] == "" {
				t.Fatalf("damaged: %v", rep.Damaged)
			}
			var damaged *command.DamagedError
			if a := s.Do(t.Context(), trigger("sick", "stop", "")); !errors.As(a.Err, &damaged) || damaged.Account != "sick" {
				t.Fatalf("%+v", a)
			}
			if a := s.Do(t.Context(), trigger("sound", "stop", "")); a.Err != nil || a.Verdict.Outcome != domain.Applied {
				t.Fatalf("%+v", a)
			}
			shut(t, s)
		})
	}
}

// TestALostTailIsSeenBySnapshots: records at the end of the log are gone, which
// only a snapshot knows.
func TestALostTailIsSeenBySnapshots(t *testing.T) {
	log, blobs := memlog.New(1), new(memlog.Blobs)
	cfg := command.Config{Log: log, Blobs: blobs, Judge: judge()}
	s := open(t, cfg)
	s.Do(t.Context(), trigger("sound", "start", ""))
	last := s.Do(t.Context(), trigger("sick", "start", ""))
	shut(t, s)
	log.Drop(0, last.Seq)

	s, err := command.NewSet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := s.Open(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Damaged) != 1 || rep.Damaged["sick"] == "" || rep.Discarded == "" {
		t.Fatalf("%+v", rep)
	}
	shut(t, s)
}

// TestALostBeginIsSeenBySnapshots: what a stream has lost at its beginning, to a purge
// for example, moves its first sequence and leaves no gap; it is a loss nevertheless.
func TestALostBeginIsSeenBySnapshots(t *testing.T) {
	log, blobs := memlog.New(1), new(memlog.Blobs)
	cfg := command.Config{Log: log, Blobs: blobs, Judge: judge()}
	s := open(t, cfg)
	first := s.Do(t.Context(), trigger("sick", "start", ""))
	s.Do(t.Context(), trigger("sound", "start", ""))
	shut(t, s)
	log.Drop(0, first.Seq)
	if info, err := log.Info(t.Context(), 0); err != nil || info.First != 2 || info.Messages != 1 {
		t.Fatalf("the log is not one that begins later: %+v, %v", info, err)
	}

	s, err := command.NewSet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := s.Open(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Missing != 1 || len(rep.Damaged) != 1 || rep.Damaged["sick"] == "" || rep.Discarded == "" {
		t.Errorf("%+v", rep)
	}
	shut(t, s)
}
