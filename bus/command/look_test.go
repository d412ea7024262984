package command_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/memlog"
)

// TestALookIsNeverBehindAnAnswer: who has a verdict finds the account at least
// as far, with the state that the verdict says if it is that far; also while
// another writer keeps winning the accounts.
func TestALookIsNeverBehindAnAnswer(t *testing.T) {
	log := memlog.New(2)
	ours, others := open(t, command.Config{Log: log}), open(t, command.Config{Log: log})
	var wg sync.WaitGroup
	wg.Go(func() { drive(t, others, 4, 100, 20, "others") })
	for c := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(c), 3))
			for i := range 100 {
				id := fmt.Sprintf("acct-%d", rnd.IntN(20))
				a := ours.Do(t.Context(), trigger(id, words[rnd.IntN(len(words))], fmt.Sprintf("ours-%d-%d", c, i)))
				if a.Err != nil {
					continue
				}
				l, ok, err := ours.Look(domain.AccountID(id))
				if err != nil || !ok || l.Account.Version < a.Verdict.Version || l.Seq < a.Seq || l.Partition != a.Partition {
					t.Errorf("%s was answered with version %d, a look finds %+v (%v, %v)", id, a.Verdict.Version, l, ok, err)
					return
				}
				if l.Account.Version == a.Verdict.Version && l.Account.State != a.Verdict.To {
					t.Errorf("%s was answered with %s, a look finds %s", id, a.Verdict.To, l.Account.State)
				}
			}
		})
	}
	wg.Wait()
	if _, ok, err := ours.Look("nobody"); ok || err != nil {
		t.Errorf("an account that does not exist is found: %v %v", ok, err)
	}
	shut(t, ours)
	shut(t, others)
	if _, ok, err := ours.Look("acct-1"); !ok || err != nil {
		t.Errorf("after the end: %v %v, want what was there", ok, err)
	}
}

func TestALookIntoWhatIsNotOwned(t *testing.T) {
	s, err := command.NewSet(command.Config{Log: memlog.New(1), Judge: judge()})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Look("a"); !errors.Is(err, command.ErrNotOwner) {
		t.Errorf("got %v, want %v", err, command.ErrNotOwner)
	}
}

// TestOneClaimWins: 64 handlers claim each of 1 000 messages at once, bots and
// humans. Each message is granted to exactly one, and who asks again is told
// the same.
func TestOneClaimWins(t *testing.T) {
	const claimers, messages = 64, 1000
	log := memlog.New(4)
	s := open(t, command.Config{Log: log})
	contact := func(m int) (account domain.AccountID, contact string) {
		return domain.AccountID(fmt.Sprintf("acct-%d", m%10)), fmt.Sprintf("c-%d", m%50)
	}
	claim := func(m int, handler string) command.Answer {
		account, key := contact(m)
		return s.Do(t.Context(), domain.Trigger{
			Account: account, Name: "claim", Key: key, Expect: domain.NoExpect,
			Data: domain.Data{"message": fmt.Sprintf("m-%d", m), "side": "bot", "handler": handler},
		})
	}
	granted := make([]atomic.Int64, messages)
	var wg sync.WaitGroup
	for c := range claimers {
		wg.Go(func() {
			handler := fmt.Sprintf("bot-%d", c)
			for i := range messages {
				m := (i + c*messages/claimers) % messages
				switch a := claim(m, handler); {
				case a.Err != nil:
					t.Errorf("m-%d, %s: %v", m, handler, a.Err)
				case a.Verdict.Outcome == domain.Applied:
					granted[m].Add(1)
					if again := claim(m, handler); again.Verdict.Outcome != domain.Noop {
						t.Errorf("m-%d, %s: asked again, got %v (%s)", m, handler, again.Verdict.Outcome, again.Verdict.Reason)
					}
				case a.Verdict.Outcome != domain.Rejected || a.Verdict.Reason != "already_claimed":
					t.Errorf("m-%d, %s: %v (%s)", m, handler, a.Verdict.Outcome, a.Verdict.Reason)
				}
			}
		})
	}
	wg.Wait()
	shut(t, s)
	for m := range granted {
		if n := granted[m].Load(); n != 1 {
			t.Errorf("m-%d was granted %d times", m, n)
		}
	}
}

// BenchmarkJudge is the writer with nobody looking, and with lookers that never
// rest.
func BenchmarkJudge(b *testing.B) {
	for _, lookers := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("lookers=%d", lookers), func(b *testing.B) {
			s := open(b, command.Config{Log: memlog.New(1)})
			const accounts = 1000
			var stop atomic.Bool
			var looks atomic.Int64
			var wg sync.WaitGroup
			for l := range lookers {
				wg.Go(func() {
					for i := l; !stop.Load(); i++ {
						if _, _, err := s.Look(domain.AccountID(fmt.Sprintf("acct-%d", i%accounts))); err != nil {
							b.Error(err)
						}
						looks.Add(1)
					}
				})
			}
			b.ResetTimer()
			var done sync.WaitGroup
			for i := range b.N {
				done.Add(1)
				for s.Submit(trigger(fmt.Sprintf("acct-%d", i%accounts), words[i%len(words)], ""), func(command.Answer) { done.Done() }) != nil {
				}
			}
			done.Wait()
			b.StopTimer()
			stop.Store(true)
			wg.Wait()
			b.ReportMetric(float64(looks.Load())/b.Elapsed().Seconds(), "looks/s")
			shut(b, s)
		})
	}
}
