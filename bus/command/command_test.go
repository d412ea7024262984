package command_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// judge is over the built-in machines.
func judge() *domain.Judge { return domain.NewJudge(lifecycle.Registry()) }

// open returns a Set that owns all partitions of the log.
func open(t testing.TB, cfg command.Config) *command.Set {
	t.Helper()
	if cfg.Judge == nil {
		cfg.Judge = judge()
	}
	s, err := command.NewSet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for p := range cfg.Log.Partitions() {
		if _, err := s.Open(context.Background(), p, nil); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// shut closes a Set and expects that to work.
func shut(t testing.TB, s *command.Set) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func trigger(account, name, id string) domain.Trigger {
	return domain.Trigger{ID: id, Account: domain.AccountID(account), Name: name, Source: "test", Expect: domain.NoExpect}
}

// words are triggers that move an account about; most orders of them make sense to nobody.
var words = []string{
	"start", "qr_received", "qr_scanned", "sync_completed", "connection_ready", "connection_lost", "rate_limited", "stop", "logout",
}

// told is one answer with the trigger's id.
type told struct {
	id string
	command.Answer
}

// drive sends n triggers from each of callers goroutines and returns all answers.
func drive(t testing.TB, s *command.Set, callers, n, accounts int, tag string) []told {
	t.Helper()
	var mu sync.Mutex
	var all []told
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(c), 7))
			for i := range n {
				id := fmt.Sprintf("%s-%d-%d", tag, c, i)
				a := s.Do(t.Context(), trigger(fmt.Sprintf("acct-%d", rnd.IntN(accounts)), words[rnd.IntN(len(words))], id))
				mu.Lock()
				all = append(all, told{id, a})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}

// history reads an account's events off the log and checks its chain.
func history(t testing.TB, log eventlog.Log, account string) []domain.Event {
	t.Helper()
	var link codec.Link
	var out []domain.Event
	for rec, err := range log.Account(context.Background(), account, 0) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := codec.Decode(rec.Data)
		if err != nil {
			t.Fatal(err)
		}
		if err := link.Check(rec.Seq, &e); err != nil {
			t.Fatal(err)
		}
		link = codec.LinkOf(&e, rec.Data)
		out = append(out, e)
	}
	return out
}

// agree checks that every good answer is in the log as it was given, and that
// no id is there twice. It returns how many answers were good.
func agree(t testing.TB, log eventlog.Log, answers []told) (good int) {
	t.Helper()
	histories := map[string][]domain.Event{}
	for _, a := range answers {
		account := string(a.Verdict.Account)
		if a.Err != nil {
			continue
		}
		if histories[account] == nil {
			histories[account] = history(t, log, account)
		}
		good++
		if !a.Verdict.Outcome.Appended() {
			t.Fatalf("%s of %s: outcome %v: %s", a.id, account, a.Verdict.Outcome, a.Verdict.Reason)
		}
		h := histories[account]
		if a.Verdict.Version == 0 || a.Verdict.Version > uint64(len(h)) {
			t.Fatalf("%s of %s was answered with version %d of %d", a.id, account, a.Verdict.Version, len(h))
		}
		e := h[a.Verdict.Version-1]
		if e.ID != a.id || e.Outcome != a.Verdict.Outcome || e.From != a.Verdict.From || e.To != a.Verdict.To {
			t.Fatalf("%s of %s: answered %+v, stored %+v", a.id, account, a.Verdict, e)
		}
	}
	for account, h := range histories {
		ids := map[string]int{}
		for _, e := range h {
			if ids[e.ID]++; e.ID != "" && ids[e.ID] > 1 {
				t.Fatalf("%s stands twice in the history of %s", e.ID, account)
			}
		}
	}
	return good
}

// plain is the digest of a plain fold of the log.
func plain(t testing.TB, log eventlog.Log) string {
	t.Helper()
	all := map[domain.AccountID]*domain.Account{}
	for p := range log.Partitions() {
		for rec, err := range log.Read(context.Background(), p, 0) {
			if err != nil {
				t.Fatal(err)
			}
			e, err := codec.Decode(rec.Data)
			if err != nil {
				t.Fatal(err)
			}
			all[e.Account] = domain.Evolve(all[e.Account], &e)
		}
	}
	list := make([]*domain.Account, 0, len(all))
	for a := range maps.Values(all) {
		list = append(list, a)
	}
	return domain.Digest(list)
}

func digest(t testing.TB, s *command.Set) string {
	t.Helper()
	d, _, _, err := s.Digest(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestManyCallersAndARestart(t *testing.T) {
	log, blobs := memlog.New(4), new(memlog.Blobs)
	cfg := command.Config{Log: log, Blobs: blobs, SnapshotEvery: 500}
	s := open(t, cfg)
	answers := drive(t, s, 64, 100, 50, "a")
	if good := agree(t, log, answers); good != 6400 {
		t.Fatalf("%d of 6400 answers are good", good)
	}
	want := plain(t, log)
	if got := digest(t, s); got != want {
		t.Fatalf("the writers' digest is %s, the log's fold %s", got, want)
	}
	shut(t, s)

	for _, c := range []command.Config{cfg, {Log: log}} { // from snapshots, and from the log alone
		s = open(t, c)
		if got := digest(t, s); got != want {
			t.Fatalf("after a restart the digest is %s, want %s (snapshots: %v)", got, want, c.Blobs != nil)
		}
		shut(t, s)
	}
	s = open(t, cfg)
	agree(t, log, append(answers, drive(t, s, 16, 50, 50, "b")...))
	if got, want := digest(t, s), plain(t, log); got != want {
		t.Fatalf("written on after a restart: digest %s, fold %s", got, want)
	}
	shut(t, s)
}

func TestSnapshotsAreUsedAndCounted(t *testing.T) {
	log, blobs := memlog.New(1), new(memlog.Blobs)
	cfg := command.Config{Log: log, Blobs: blobs, Judge: judge()}
	s := open(t, cfg)
	drive(t, s, 4, 50, 10, "a")
	shut(t, s) // writes one

	again, err := command.NewSet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := again.Open(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	shut(t, again)
	if rep.FromSnapshot != 200 || rep.Replayed != 0 || rep.Discarded != "" {
		t.Fatalf("a whole snapshot: %+v", rep)
	}
}

// TestAHoleIsLookedFor: when records of unknown accounts are gone, a snapshot would
// hide whose they are, so all that is left is read.
func TestAHoleIsLookedFor(t *testing.T) {
	log, blobs := memlog.New(1), new(memlog.Blobs)
	cfg := command.Config{Log: log, Blobs: blobs, Judge: judge()}
	s := open(t, cfg)
	drive(t, s, 4, 50, 10, "a")
	shut(t, s) // writes a snapshot
	again, err := command.NewSet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := again.Open(t.Context(), 0, map[string]string{"": "sequence 7", "acct-3": "sequence 8"})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, again)
	if rep.FromSnapshot != 0 || rep.Replayed != 200 || rep.Hole != "sequence 7" || len(rep.Damaged) != 1 || rep.Damaged["acct-3"] != "sequence 8" {
		t.Fatalf("%+v", rep)
	}
}

func TestDuplicateConflictAndInvalidStoreNothing(t *testing.T) {
	log := memlog.New(1)
	s := open(t, command.Config{Log: log})
	defer shut(t, s)
	first := s.Do(t.Context(), trigger("a", "start", "id-1"))
	if first.Err != nil || first.Verdict.Outcome != domain.Applied {
		t.Fatalf("%+v", first)
	}
	same := s.Do(t.Context(), trigger("a", "start", "id-1"))
	if same.Verdict.Outcome != domain.Duplicate || same.Verdict.Version != 1 || same.Verdict.To != first.Verdict.To {
		t.Fatalf("%+v", same)
	}
	wrong := trigger("a", "stop", "id-2")
	wrong.Expect = 7
	if a := s.Do(t.Context(), wrong); a.Verdict.Outcome != domain.Conflict || a.Verdict.Version != 1 {
		t.Fatalf("%+v", a)
	}
	if a := s.Do(t.Context(), trigger("a", "no_such_word", "")); a.Verdict.Outcome != domain.Invalid {
		t.Fatalf("%+v", a)
	}
	if a := s.Do(t.Context(), trigger("", "start", "")); a.Verdict.Outcome != domain.Invalid {
		t.Fatalf("%+v", a)
	}
	if n := len(history(t, log, "a")); n != 1 {
		t.Fatalf("%d events are stored, want 1", n)
	}
}

func TestEveryCallerIsAnsweredAtTheEnd(t *testing.T) {
	log := memlog.New(2)
	s := open(t, command.Config{Log: log})
	var mu sync.Mutex
	var answers []told
	refused := 0
	var wg sync.WaitGroup
	started := make(chan struct{})
	var once sync.Once
	for c := range 32 {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", c, i)
				a := s.Do(context.Background(), trigger(fmt.Sprintf("acct-%d", c), words[i%len(words)], id))
				mu.Lock()
				answers = append(answers, told{id, a})
				mu.Unlock()
				once.Do(func() { close(started) })
				if errors.Is(a.Err, command.ErrShuttingDown) {
					mu.Lock()
					refused++
					mu.Unlock()
					return
				}
				if a.Err != nil {
					t.Errorf("%s: %v", id, a.Err)
					return
				}
			}
		})
	}
	<-started
	shut(t, s)
	wg.Wait()
	if refused != 32 {
		t.Fatalf("%d of 32 callers were told that it shuts down", refused)
	}
	agree(t, log, answers)
}

func TestAPartitionThatIsNotOwned(t *testing.T) {
	log := memlog.New(2)
	s, err := command.NewSet(command.Config{Log: log, Judge: judge()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	owned, foreign := "", ""
	for i := 0; owned == "" || foreign == ""; i++ {
		id := fmt.Sprintf("acct-%d", i)
		if eventlog.Partition(id, 2) == 0 {
			owned = id
		} else {
			foreign = id
		}
	}
	if a := s.Do(t.Context(), trigger(owned, "start", "")); a.Err != nil {
		t.Fatal(a.Err)
	}
	if a := s.Do(t.Context(), trigger(foreign, "start", "")); !errors.Is(a.Err, command.ErrNotOwner) {
		t.Fatalf("%+v", a)
	}
	if err := s.Release(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if a := s.Do(t.Context(), trigger(owned, "stop", "")); !errors.Is(a.Err, command.ErrNotOwner) {
		t.Fatalf("%+v", a)
	}
}
