package presence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a log with its writers and a presence over them, on a bubble's clock.
type world struct {
	t     *testing.T
	begin time.Time
	log   *memlog.Log
	blobs *memlog.Blobs
	judge *domain.Judge
	set   *command.Set
	fleet Fleet // what the presence is given; nil: set
	p     *Presence
	queue int
	hook  func(partition int, records []eventlog.Record)
}

// inWorld runs a test in a bubble, in a world that has started.
func inWorld(t *testing.T, do func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, begin: time.Now(), log: memlog.New(2), blobs: new(memlog.Blobs), judge: domain.NewJudge(lifecycle.Registry())}
		defer w.stop()
		do(t, w)
	})
}

// start starts Muster: the writers, then the presence.
func (w *world) start(partitions ...int) {
	w.t.Helper()
	var err error
	w.set, err = command.NewSet(command.Config{Log: w.log, Judge: w.judge, QueueMax: w.queue, OnCommit: w.hook})
	if err != nil {
		w.t.Fatal(err)
	}
	if partitions == nil {
		partitions = []int{0, 1}
	}
	w.open(partitions...)
	fleet := w.fleet
	if fleet == nil {
		fleet = w.set
	}
	w.p, err = New(Config{Fleet: fleet, Machines: w.judge.Machines(), Partitions: 2, Blobs: w.blobs})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.p.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) open(partitions ...int) {
	w.t.Helper()
	for _, p := range partitions {
		if _, err := w.set.Open(context.Background(), p, nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) stop() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(w.p.Stop(ctx), w.set.Close(ctx)); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets the clock run and all that follows be done.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// passBeating is pass, with the workers beating every 5 s.
func (w *world) passBeating(d time.Duration, workers ...string) {
	for d > 0 {
		step := min(d, 5*time.Second)
		w.pass(step)
		d -= step
		for _, name := range workers {
			w.beat(name)
		}
	}
	synctest.Wait()
}

func (w *world) hello(name, boot string) {
	w.t.Helper()
	got, err := w.p.Hello(w.t.Context(), bus.WorkerMessage{Worker: name, Boot: boot})
	if err != nil || got.Beat() != 10*time.Second {
		w.t.Fatalf("hello: %+v, %v", got, err)
	}
}

// beat is a beat of the run that is known.
func (w *world) beat(name string) bus.WorkerWelcome {
	for _, known := range w.p.Workers() {
		if known.Name == name {
			got, _ := w.p.Beat(bus.WorkerMessage{Worker: name, Boot: known.Boot})
			return got
		}
	}
	w.t.Fatalf("no worker %s is known", name)
	return bus.WorkerWelcome{}
}

// say has a trigger judged and expects it to be applied or noop.
func (w *world) say(source, account, name string, data ...any) {
	w.t.Helper()
	t := domain.Trigger{Account: domain.AccountID(account), Name: name, Source: source, Expect: domain.NoExpect}
	for i := 0; i+1 < len(data); i += 2 {
		if t.Data == nil {
			t.Data = domain.Data{}
		}
		t.Data[data[i].(string)] = data[i+1]
	}
	a := w.set.Do(w.t.Context(), t)
	if a.Err != nil || a.Verdict.Outcome != domain.Applied && a.Verdict.Outcome != domain.Noop {
		w.t.Fatalf("%s %s: %+v", account, name, a)
	}
}

// running makes an account that is up, by its source.
func (w *world) running(source, account string) {
	w.t.Helper()
	w.say(source, account, "adopt", "state", "RUNNING")
}

// many makes n accounts that are up and returns their ids.
func (w *world) many(source, prefix string, n int) []string {
	w.t.Helper()
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%05d", prefix, i)
		wg.Go(func() { w.running(source, ids[i]) })
		if i%1000 == 999 {
			wg.Wait()
		}
	}
	wg.Wait()
	return ids
}

func (w *world) account(id string) *domain.Account {
	w.t.Helper()
	a, err := w.set.Account(w.t.Context(), domain.AccountID(id))
	if err != nil || a == nil {
		w.t.Fatalf("account %s: %v, %v", id, a, err)
	}
	return a
}

// is checks an account: its state, and its conditions, all in one text such as
// "RUNNING unvouched".
func (w *world) is(want string, ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		a := w.account(id)
		got := a.State
		for _, c := range a.Conditions {
			got += " " + c.Name
		}
		if got != want {
			w.t.Fatalf("after %v account %s is %q, want %q", time.Since(w.begin), id, got, want)
		}
	}
}

func (w *world) canSend(id string) bool {
	return w.judge.Can(w.account(id), machine.CanSend, "")
}

// own is what Muster itself said, by account: triggers, and the second of their
// times after the begin.
func (w *world) own() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for p := range w.log.Partitions() {
		for rec, err := range w.log.Read(w.t.Context(), p, 0) {
			if err != nil {
				w.t.Fatal(err)
			}
			e, err := codec.Decode(rec.Data)
			if err != nil {
				w.t.Fatal(err)
			}
			if e.Source != domain.SourceMuster {
				continue
			}
			if out[rec.Account] != "" {
				out[rec.Account] += ", "
			}
			out[rec.Account] += fmt.Sprintf("%s %v", e.Trigger, time.Unix(0, e.At).Sub(w.begin).Seconds())
		}
	}
	return out
}

func (w *world) said(want string, ids ...string) {
	w.t.Helper()
	own := w.own()
	for _, id := range ids {
		if own[id] != want {
			w.t.Fatalf("Muster said of %s: %q, want %q", id, own[id], want)
		}
	}
}

func TestALapse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.hello("w1", "a")
		w.hello("w2", "a")
		w.running("w1", "up-1")
		w.running("w1", "up-2")
		w.say("w1", "pairing", "start")
		w.say("w1", "out", "adopt", "state", "LOGGED_OUT")
		w.running("w2", "other")
		w.running("hook", "webhook")
		w.running("w1", "gone")
		w.say("", "gone", "forget")

		w.passBeating(30*time.Second-time.Millisecond, "w2")
		w.is("RUNNING", "up-1", "up-2")
		if !w.canSend("up-1") {
			t.Fatal("it may not send though its worker has not lapsed")
		}
		w.pass(time.Millisecond)
		w.is("RUNNING unvouched", "up-1", "up-2")
		w.is("CONNECTING unvouched", "pairing")
		w.is("LOGGED_OUT unvouched", "out")
		if w.canSend("up-1") {
			t.Fatal("it may send though nobody stands behind it")
		}
		w.passBeating(30*time.Second-time.Millisecond, "w2")
		w.is("RUNNING unvouched", "up-1", "up-2")
		w.pass(time.Millisecond)
		w.is("RECONNECTING unvouched", "up-1", "up-2")
		w.is("DISCONNECTED unvouched", "pairing")
		w.is("LOGGED_OUT unvouched", "out")
		w.said("vouch_lost 30, recover 60", "up-1", "up-2", "pairing")
		w.said("vouch_lost 30", "out") // a recover would move nothing and is not written
		w.is("RUNNING", "other")
		w.said("", "other", "gone")
		w.passBeating(200*time.Second, "w2")
		w.said("vouch_lost 30, recover 60", "up-1", "up-2")
		w.said("", "other")
	})
}

// A webhook-fed account is marked 30 s after the start at which it was there,
// and by nothing else.
func TestALapseIsNothingToAWebhook(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.running("hook", "webhook")
		w.hello("w1", "a")
		w.pass(10 * time.Minute)
		w.is("RUNNING", "webhook")
		w.said("", "webhook")
	})
}

func TestWhatCancelsARecover(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.hello("w1", "a")
		w.hello("w2", "a")
		for _, id := range []string{"waits", "taken-over", "speaks", "by-user"} {
			w.running("w1", id)
		}
		w.passBeating(40*time.Second, "w2")
		w.say("w2", "taken-over", "connection_ready") // another source stands behind it now
		w.say("w1", "speaks", "connection_ready")     // its own has spoken, though it does not beat
		start := domain.Trigger{Account: "by-user", Name: "start", Source: "cli", By: domain.ByUser, Expect: domain.NoExpect}
		if a := w.set.Do(t.Context(), start); a.Err != nil { // a wish is no word of who hosts it
			t.Fatal(a.Err)
		}
		w.passBeating(30*time.Second, "w2")
		w.is("RECONNECTING unvouched", "waits", "by-user")
		w.is("RUNNING", "taken-over", "speaks")
		w.said("vouch_lost 30", "taken-over", "speaks")
	})
}

func TestABeatAfterALapse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.hello("w1", "a")
		w.running("w1", "acct")
		w.pass(45 * time.Second)
		w.is("RUNNING unvouched", "acct")
		if told := w.beat("w1"); !told.Lapsed {
			t.Fatal("the worker is not told that it was taken for dead")
		}
		synctest.Wait()
		w.is("RUNNING", "acct")
		w.passBeating(60*time.Second, "w1")
		w.said("vouch_lost 30, vouch_restored 45", "acct")

		w.pass(60 * time.Second) // recovered this time
		w.is("RECONNECTING unvouched", "acct")
		w.beat("w1")
		synctest.Wait()
		w.is("RECONNECTING", "acct")
		w.said("vouch_lost 30, vouch_restored 45, vouch_lost 135, recover 165, vouch_restored 165", "acct")
	})
}

func TestGoodbye(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.hello("w1", "a")
		w.running("w1", "acct")
		w.pass(3 * time.Second)
		w.p.Goodbye(bus.WorkerMessage{Worker: "w1", Boot: "a"})
		synctest.Wait()
		w.is("RUNNING unvouched", "acct")
		w.pass(30 * time.Second)
		w.is("RECONNECTING unvouched", "acct")
		w.said("vouch_lost 3, recover 33", "acct")
	})
}

func TestAnotherRunOfAWorker(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.hello("w1", "a")
		w.running("w1", "acct")
		w.running("w2", "other")
		w.pass(5 * time.Second)
		w.hello("w1", "b")
		synctest.Wait()
		w.is("RECONNECTING", "acct")
		w.is("RUNNING", "other")
		w.said("recover 5", "acct")

		w.pass(35 * time.Second) // it lapses, and a third run follows
		w.is("RECONNECTING unvouched", "acct")
		w.hello("w1", "c")
		synctest.Wait()
		w.is("DISCONNECTED", "acct")
		w.said("recover 5, vouch_lost 35, recover 40, vouch_restored 40", "acct")
	})
}

// What a worker reports after its hello is newer than the hello, however many
// accounts it has.
func TestWhatFollowsAHelloIsNotOvertaken(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.hello("w1", "a")
		ids := w.many("w1", "acct", 2000)
		w.pass(time.Second)
		w.hello("w1", "b")
		var wg sync.WaitGroup
		for _, id := range ids {
			wg.Go(func() { w.say("w1", id, "connection_ready") })
		}
		wg.Wait()
		synctest.Wait()
		w.is("RUNNING", ids...)
	})
}

func TestARestartOfMuster(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.hello("lives", "a")
		w.hello("dies", "a")
		w.hello("late", "a")
		w.hello("reboots", "a")
		w.running("lives", "of-lives")
		w.running("dies", "of-dies")
		w.running("dies", "moved")
		w.running("late", "of-late")
		w.running("reboots", "of-reboots")
		w.say("dies", "out", "adopt", "state", "LOGGED_OUT")
		w.running("hook", "quiet")
		w.running("hook", "speaks")
		w.say("hook", "pairing", "start")
		w.say("hook", "stopped", "adopt", "state", "STOPPED")
		w.pass(time.Second)
		w.stop()
		w.pass(time.Minute)

		w.begin = time.Now()
		w.start()
		w.passBeating(15 * time.Second)
		w.beat("lives")
		w.say("hook", "speaks", "probe_ok")
		w.say("lives", "moved", "connection_ready")
		w.hello("reboots", "b")
		synctest.Wait()
		w.is("RECONNECTING", "of-reboots")
		w.pass(15*time.Second - time.Millisecond)
		w.is("RUNNING", "of-lives", "of-dies", "quiet")
		w.pass(time.Millisecond)
		w.is("RECONNECTING unvouched", "of-dies", "of-late")
		w.is("LOGGED_OUT unvouched", "out")
		w.is("RUNNING", "of-lives", "speaks", "moved")
		w.is("RUNNING unverified", "quiet")
		w.is("CONNECTING unverified", "pairing")
		w.is("STOPPED", "stopped")
		w.said("", "of-lives", "speaks", "moved", "stopped")
		w.said("recover 30", "quiet", "pairing")
		w.said("recover 15", "of-reboots")

		w.pass(2 * time.Second)
		w.beat("late")
		synctest.Wait()
		w.is("RECONNECTING", "of-late")
		w.say("hook", "quiet", "probe_ok")
		w.is("RUNNING", "quiet")
		w.passBeating(5*time.Minute, "lives", "late", "reboots")
		w.is("RECONNECTING stuck unvouched", "of-dies") // and not recovered a second time
	})
}

// A second restart says nothing that stands already.
func TestTwoRestarts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.running("hook", "acct")
		w.hello("w1", "a")
		w.say("w1", "out", "adopt", "state", "LOGGED_OUT")
		for range 3 {
			w.stop()
			w.start()
			w.pass(time.Minute)
		}
		w.said("recover 30", "acct")
		w.said("vouch_lost 30", "out")
	})
}

// A worker that a restart finds silent lapses. What it reports in time, and
// then no more, is not left to be RUNNING for ever.
func TestAWorkerThatSpeaksAfterARestartAndDies(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.hello("w1", "a")
		w.running("w1", "acct")
		w.running("w1", "silent")
		w.stop()
		w.begin = time.Now()
		w.start()
		w.pass(5 * time.Second)
		w.say("w1", "acct", "connection_ready")
		w.pass(25 * time.Second)
		w.is("RUNNING unvouched", "acct")
		w.is("RECONNECTING unvouched", "silent")
		w.pass(30 * time.Second)
		w.is("RECONNECTING unvouched", "acct")
		w.is("RECONNECTING unvouched", "silent")
		w.said("vouch_lost 30, recover 60", "acct")
	})
}

// Without the known workers a restart does what it can: what an account says of
// its worker's silence is believed, the others are only marked.
func TestTheKnownWorkersAreLost(t *testing.T) {
	for name, spoil := range map[string]func(*memlog.Blobs) error{
		"gone":              func(b *memlog.Blobs) error { return b.Delete(context.Background(), knownBlob) },
		"no JSON":           func(b *memlog.Blobs) error { return put(b, "{") },
		"of another format": func(b *memlog.Blobs) error { return put(b, `{"format":2,"workers":[{"name":"dies"}]}`) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start()
				w.hello("lives", "a")
				w.hello("dies", "a")
				w.hello("lapsed", "a")
				w.running("lapsed", "of-lapsed")
				w.passBeating(31*time.Second, "lives", "dies")
				w.running("lives", "of-lives")
				w.running("dies", "of-dies")
				w.is("RUNNING unvouched", "of-lapsed")
				w.stop()
				if err := spoil(w.blobs); err != nil {
					t.Fatal(err)
				}
				w.start()
				if _, tell := w.p.Beat(bus.WorkerMessage{Worker: "lives", Boot: "a"}); tell {
					t.Fatal("a worker that was never taken for dead is told so")
				}
				w.passBeating(30*time.Second, "lives")
				w.is("RUNNING", "of-lives")
				w.is("RECONNECTING unvouched", "of-lapsed")
				w.is("RUNNING unverified", "of-dies")

				w.stop() // what was learned is known from now on
				w.start()
				names := []string{}
				for _, known := range w.p.Workers() {
					names = append(names, known.Name)
				}
				if want := []string{"lapsed", "lives"}; !slices.Equal(names, want) {
					t.Fatalf("known are %v, want %v", names, want)
				}
			})
		})
	}
}

func put(b *memlog.Blobs, text string) error {
	return b.Put(context.Background(), knownBlob, bytes.NewReader([]byte(text)))
}

func TestAPartitionThatIsTakenOverLater(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		ids := append(w.many("w1", "w1", 20), w.many("w2", "w2", 20)...)
		hooks := w.many("hook", "hook", 20)
		w.stop()
		w.start(0)
		w.hello("w1", "a")
		w.hello("w2", "a")
		w.passBeating(2*time.Minute, "w2")
		w.begin = time.Now()
		w.open(1)
		w.pass(time.Second) // until it is noticed
		w.passBeating(30*time.Second, "w2")
		for _, id := range slices.Concat(ids, hooks) {
			if w.set.Partition(domain.AccountID(id)) != 1 {
				continue
			}
			want := map[string]string{"w1": "RECONNECTING unvouched", "w2": "RUNNING", "ho": "RUNNING unverified"}[id[:2]]
			w.is(want, id)
		}
	})
}

// Ten thousand accounts at once go through a queue of sixteen, each once.
func TestManyAccountsAndASmallQueue(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue = 16384
		w.start()
		w.hello("w1", "a")
		ids := w.many("w1", "acct", 10_000)
		w.stop()
		w.queue = 16
		w.start()
		w.begin = time.Now()
		w.beat("w1")
		w.pass(time.Minute)
		w.pass(2 * time.Minute)
		w.is("RECONNECTING unvouched", ids...)
		w.said("vouch_lost 30, recover 60", ids...)
		w.hello("w1", "b")
		w.pass(20 * time.Second)
		w.is("DISCONNECTED", ids...)
	})
}

// A beat comes while the accounts of its worker are being marked: no mark stays.
func TestABeatDuringALapse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var once sync.Once
		var beat sync.WaitGroup
		w.hook = func(_ int, records []eventlog.Record) {
			e, err := codec.Decode(records[0].Data)
			if err == nil && e.Trigger == vouchLost {
				once.Do(func() { beat.Go(func() { w.beat("w1") }) })
			}
		}
		w.start()
		w.hello("w1", "a")
		ids := w.many("w1", "acct", 5000)
		w.pass(30 * time.Second)
		beat.Wait()
		synctest.Wait()
		w.is("RUNNING", ids...)
		if len(w.own()) == 0 {
			t.Fatal("none was marked: the beat came too early for this test")
		}
	})
}

// shaky is a fleet of which every account's first submits fail in one way.
type shaky struct {
	*command.Set
	err   error
	taken bool // the trigger is judged all the same

	mu    sync.Mutex
	tries map[domain.AccountID]int
}

func (s *shaky) Submit(t domain.Trigger, done func(command.Answer)) error {
	s.mu.Lock()
	s.tries[t.Account]++
	fails := s.tries[t.Account]%3 != 0
	s.mu.Unlock()
	switch {
	case !fails:
		return s.Set.Submit(t, done)
	case s.taken:
		return s.Set.Submit(t, func(command.Answer) { done(command.Answer{Err: s.err}) })
	case errors.Is(s.err, command.ErrOverloaded):
		return s.err
	default:
		done(command.Answer{Err: s.err})
		return nil
	}
}

func TestWhatFailsIsTriedAgain(t *testing.T) {
	for name, fleet := range map[string]*shaky{
		"overloaded":                  {err: command.ErrOverloaded},
		"contended":                   {err: command.ErrContended},
		"undecided, and not stored":   {err: command.ErrUndecided},
		"undecided, and yet it was":   {err: command.ErrUndecided, taken: true},
		"contended, and yet it was":   {err: command.ErrContended, taken: true},
		"shutting down, for a moment": {err: command.ErrShuttingDown},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start()
				w.hello("w1", "a")
				ids := w.many("w1", "acct", 50)
				w.stop()
				fleet.tries = map[domain.AccountID]int{}
				w.fleet = fleet
				w.startShaky(fleet)
				w.begin = time.Now()
				w.beat("w1")
				w.pass(59 * time.Second)
				w.is("RUNNING unvouched", ids...)
				w.pass(10 * time.Second)
				w.is("RECONNECTING unvouched", ids...)
				w.said("vouch_lost 30, recover 60", ids...)
			})
		})
	}
}

// startShaky is start with the fleet's Set made anew, as start makes it.
func (w *world) startShaky(fleet *shaky) {
	w.t.Helper()
	var err error
	if w.set, err = command.NewSet(command.Config{Log: w.log, Judge: w.judge}); err != nil {
		w.t.Fatal(err)
	}
	w.open(0, 1)
	fleet.Set = w.set
	if w.p, err = New(Config{Fleet: fleet, Machines: w.judge.Machines(), Partitions: 2, Blobs: w.blobs}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.p.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// A machine that nobody knows any more, and a damaged account, do not keep the
// others from being told.
func TestWhatCannotBeTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.hello("w1", "a")
		w.running("w1", "hurt")
		w.running("w1", "well")
		w.stop()
		w.judge = domain.NewJudge(lifecycle.Registry())
		var err error
		if w.set, err = command.NewSet(command.Config{Log: w.log, Judge: w.judge}); err != nil {
			t.Fatal(err)
		}
		for p := range 2 {
			if _, err := w.set.Open(t.Context(), p, map[string]string{"hurt": "a hole"}); err != nil {
				t.Fatal(err)
			}
		}
		if w.p, err = New(Config{Fleet: w.set, Machines: w.judge.Machines(), Partitions: 2, Blobs: w.blobs}); err != nil {
			t.Fatal(err)
		}
		if err := w.p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.is("RUNNING", "hurt")
		w.is("RECONNECTING unvouched", "well")
	})
}
