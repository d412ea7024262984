package offline

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/readytime"
	"github.com/musterhq/muster/projections/stats"
	"github.com/musterhq/muster/projections/transitions"
)

// simulated opens an archive of a simulated fleet.
func simulated(t *testing.T, partitions, accounts, events int) *archive.Archive {
	t.Helper()
	dir := t.TempDir()
	generate(t, dir, partitions, accounts, events)
	return opened(t, dir)
}

func opened(t *testing.T, dir string) *archive.Archive {
	t.Helper()
	a, err := archive.OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// record is one record with what it says.
type record struct {
	partition int
	seq       uint64
	event     domain.Event
}

// records reads an archive the plain way.
func records(t *testing.T, a *archive.Archive) (list []record) {
	t.Helper()
	for p := range a.Partitions() {
		for r, err := range a.Read(t.Context(), p, 0) {
			if err != nil {
				t.Fatal(err)
			}
			e, err := codec.Decode(r.Data)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, record{p, r.Seq, e})
		}
	}
	return list
}

// plain folds those records that keep says.
func plain(list []record, keep func(*record) bool) (accounts map[domain.AccountID]*domain.Account, events int64) {
	accounts = map[domain.AccountID]*domain.Account{}
	for i := range list {
		if r := &list[i]; keep(r) {
			accounts[r.event.Account] = domain.Evolve(accounts[r.event.Account], &r.event)
			events++
		}
	}
	return accounts, events
}

func digest(accounts map[domain.AccountID]*domain.Account) string {
	var list []*domain.Account
	for _, a := range accounts {
		list = append(list, a)
	}
	return domain.Digest(list)
}

// states counts accounts by state.
func states(accounts map[domain.AccountID]*domain.Account) map[string]int {
	n := map[string]int{}
	for _, a := range accounts {
		if !a.Forgotten {
			n[a.State]++
		}
	}
	return n
}

func replay(t *testing.T, a *archive.Archive, o Options) *Fleet {
	t.Helper()
	o.Machines = machines(t)
	f, err := Replay(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestReplayIsThePlainFold compares a replay with the general decoder and Evolve
// over the same records.
func TestReplayIsThePlainFold(t *testing.T) {
	a := simulated(t, 3, 60, 20_000)
	want, events := plain(records(t, a), func(*record) bool { return true })
	for _, workers := range []int{1, 2, 8} {
		f := replay(t, a, Options{Workers: workers})
		if f.Events != events || f.Digest() != digest(want) {
			t.Errorf("%d workers: %d events, digest %s; want %d, %s", workers, f.Events, f.Digest(), events, digest(want))
		}
		if got := f.Distribution.Now().States; !reflect.DeepEqual(got, states(want)) {
			t.Errorf("%d workers: states %v, want %v", workers, got, states(want))
		}
	}
	if f := replay(t, a, Options{ViewsOnly: true}); len(f.Accounts()) != 0 || f.Events != events {
		t.Errorf("views only: %d accounts and %d events, want none and %d", len(f.Accounts()), f.Events, events)
	}
}

// TestReplayHasTheNumbersOfTheLiveViews runs the live views over the same archive.
func TestReplayHasTheNumbersOfTheLiveViews(t *testing.T) {
	a := simulated(t, 2, 60, 15_000)
	f := replay(t, a, Options{})
	n := a.Partitions()
	d, tr, rt := distribution.New(n, machines(t)), transitions.New(n), readytime.New(n, machines(t))
	runner, err := projections.New(projections.Config{History: growing{a}, Roster: projections.NewRoster(n), Views: []projections.View{d, tr, rt}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	want := map[int]uint64{}
	for p := range n {
		info, _ := a.Info(ctx, p)
		want[p] = info.Last
	}
	if err := runner.WaitAll(ctx, want); err != nil {
		t.Fatal(err)
	}
	for _, now := range []int64{f.Last, f.Last + int64(time.Hour)} {
		got, live := asJSON(t, f.Stats(now)), asJSON(t, stats.Of(runner.AsOf(), d, tr, rt, now))
		if got != live {
			t.Errorf("replayed:\n%s\nlive:\n%s", got, live)
		}
		if !strings.Contains(got, `"reached":`) || strings.Contains(got, `"median_s":null,"p90_s":null,"p99_s":null,"median_ci_s":[null,null]}}`) {
			t.Errorf("the history is too poor to prove anything: %s", got)
		}
	}
	cancel()
	<-ended
}

// growing is an archive as a log: what follows it waits at its end.
type growing struct{ *archive.Archive }

func (g growing) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range g.Read(ctx, partition, after) {
			if !yield(r, err) {
				return
			}
		}
		<-ctx.Done()
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReplayUntil goes back to random points of the history.
func TestReplayUntil(t *testing.T) {
	a := simulated(t, 3, 40, 12_000)
	list := records(t, a)
	r := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		at := list[r.IntN(len(list))]
		want, events := plain(list, func(o *record) bool { return o.event.Recorded <= at.event.Recorded })
		f := replay(t, a, Options{UntilTime: at.event.Recorded})
		if f.Digest() != digest(want) || f.Events != events || !reflect.DeepEqual(f.Distribution.Now().States, states(want)) {
			t.Errorf("until %d: %d events, %v; want %d, %v", at.event.Recorded, f.Events, f.Distribution.Now().States, events, states(want))
		}
		seqs := map[int]uint64{0: r.Uint64N(4000), 2: r.Uint64N(4000)}
		want, events = plain(list, func(o *record) bool {
			until, bounded := seqs[o.partition]
			return !bounded || o.seq <= until
		})
		if f = replay(t, a, Options{UntilSeq: seqs}); f.Digest() != digest(want) || f.Events != events {
			t.Errorf("until %v: %d events, want %d, or another state", seqs, f.Events, events)
		}
	}
}

func TestReplayOneAccount(t *testing.T) {
	a := simulated(t, 2, 20, 4000)
	list := records(t, a)
	id := list[len(list)/2].event.Account
	want, events := plain(list, func(r *record) bool { return r.event.Account == id })
	f := replay(t, a, Options{Account: id})
	if len(f.Accounts()) != 1 || f.Digest() != digest(want) || f.Events != events || f.Distribution.Now().Accounts != len(states(want)) {
		t.Errorf("%d accounts, %d events, want 1, %d, or another state", len(f.Accounts()), f.Events, events)
	}
	if f = replay(t, a, Options{Account: "nobody"}); len(f.Accounts()) != 0 || f.Events != 0 {
		t.Errorf("an account that is not there: %d accounts", len(f.Accounts()))
	}
}

// TestReplayOfDamage changes one byte of a segment.
func TestReplayOfDamage(t *testing.T) {
	dir := t.TempDir()
	generate(t, dir, 2, 20, 4000)
	list := records(t, opened(t, dir))
	files, err := filepath.Glob(filepath.Join(dir, "01", "*.seg"))
	if err != nil || len(files) != 1 {
		t.Fatalf("segments: %v, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	broken := append([]byte{}, whole...)
	broken[len(broken)/2] ^= 1
	if err := os.WriteFile(files[0], broken, 0o600); err != nil {
		t.Fatal(err)
	}
	a := opened(t, dir)
	for _, trust := range []bool{false, true} { // by the sum of the file, by that of the frame
		_, err = Replay(t.Context(), a, Options{Machines: machines(t), Trust: trust})
		var fault *archive.Fault
		if !errors.As(err, &fault) || fault.Partition != 1 {
			t.Fatalf("trust %v: %v, want a fault in partition 1", trust, err)
		}
	}
	var told []error
	f := replay(t, a, Options{Workers: 1, Damaged: func(err error) { told = append(told, err) }})
	want, events := plain(list, func(r *record) bool { return r.partition == 0 })
	if len(told) != 1 || f.Digest() != digest(want) || f.Events != events {
		t.Errorf("passed over: %v, %d events, want one part, %d events", told, f.Events, events)
	}
}

// TestReplayOfAGap leaves an event of an account out.
func TestReplayOfAGap(t *testing.T) {
	a := simulated(t, 1, 5, 300)
	list := records(t, a)
	dir := t.TempDir()
	skip := list[200].seq
	w, err := archive.Open(dir, []string{"bench"}, archive.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range a.Read(t.Context(), 0, 0) {
		if err == nil && r.Seq != skip {
			err = w.Append(0, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Seal(0), w.Close()); err != nil {
		t.Fatal(err)
	}
	gap := opened(t, dir)
	if _, err = Replay(t.Context(), gap, Options{Machines: machines(t)}); !errors.Is(err, ErrHistory) || !strings.Contains(err.Error(), string(list[200].event.Account)) {
		t.Errorf("%v, want an ErrHistory that names %s", err, list[200].event.Account)
	}
	var told []error
	if f := replay(t, gap, Options{Damaged: func(err error) { told = append(told, err) }}); f.Events != 299 || len(told) != 1 {
		t.Errorf("%d events, told %v; want 299 and one gap", f.Events, told)
	}
}

// kinds says which kinds of events a history has, so that a test on a poor one fails.
func kinds(list []record) map[domain.Kind]bool {
	k := map[domain.Kind]bool{}
	for i := range list {
		k[list[i].event.Kind] = true
	}
	return k
}

func TestTheSimulatedHistoryHasAllKinds(t *testing.T) {
	got := kinds(records(t, simulated(t, 1, 60, 15_000)))
	for _, k := range []domain.Kind{domain.KindSession, domain.KindMark, domain.KindMessage, domain.KindConversation} {
		if !got[k] {
			t.Errorf("kind %v is missing; there are %v", k, maps.Keys(got))
		}
	}
}
