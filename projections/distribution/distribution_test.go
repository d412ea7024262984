package distribution_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/projectiontest"
)

func newView(h *projectiontest.History) *distribution.View {
	return distribution.New(h.Partitions, h.Judge.Machines())
}

func TestRules(t *testing.T) {
	projectiontest.Subject{
		New:     func(h *projectiontest.History, _ *projections.Roster) projections.View { return newView(h) },
		Answers: answers,
		Want:    want,
	}.Check(t)
}

// count counts accounts the plain way.
func count(h *projectiontest.History, accounts map[domain.AccountID]*domain.Account, label, value string) distribution.Counts {
	c := distribution.Counts{States: map[string]int{}, Classes: map[string]int{}, ByMachine: map[string]map[string]int{}}
	for _, a := range accounts {
		if a.Forgotten || (label != "" && a.Labels[label] != value) {
			continue
		}
		c.Accounts++
		c.States[a.State]++
		c.Classes[h.Judge.Class(a)]++
		if c.ByMachine[a.Machine] == nil {
			c.ByMachine[a.Machine] = map[string]int{}
		}
		c.ByMachine[a.Machine][a.State]++
	}
	return c
}

func TestNowIsACountOverTheFold(t *testing.T) {
	for seed := range uint64(6) {
		h := projectiontest.Generate(seed, projectiontest.Config{})
		v := newView(h)
		folds := map[domain.AccountID]*domain.Account{}
		for i, item := range h.Items {
			v.Apply(item.At, item.Event)
			folds[item.Event.Account] = domain.Evolve(folds[item.Event.Account], item.Event)
			if i%50 != 0 && i != len(h.Items)-1 {
				continue
			}
			if got, want := v.Now(), count(h, folds, "", ""); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, after event %d: got %+v, want %+v", seed, i, got, want)
			}
			byLabel := v.ByLabel("pool")
			for _, value := range []string{"eu", "us", "ap=x"} {
				want := count(h, folds, "pool", value)
				if got := byLabel[value]; got.Accounts != want.Accounts || (want.Accounts > 0 && !reflect.DeepEqual(got, want)) {
					t.Fatalf("seed %d, after event %d, pool=%s: got %+v, want %+v", seed, i, value, got, want)
				}
			}
		}
		if len(v.Now().States) < 5 {
			t.Fatalf("seed %d: the history is too poor to prove anything: %+v", seed, v.Now())
		}
	}
}

// change is one change of what an account counts as, at the time from which
// it counts.
type change struct {
	minute  int64
	machine string
	state   string
	shown   bool
}

// changes folds a history into each account's changes, the plain way.
func changes(items []projectiontest.Item) map[domain.AccountID][]change {
	folds, all := map[domain.AccountID]*domain.Account{}, map[domain.AccountID][]change{}
	labels := map[domain.AccountID]string{}
	for _, item := range items {
		id := item.Event.Account
		a := domain.Evolve(folds[id], item.Event)
		folds[id] = a
		list := all[id]
		last := change{}
		if len(list) > 0 {
			last = list[len(list)-1]
		}
		now := change{item.Event.At / int64(time.Minute), a.Machine, a.State, !a.Forgotten}
		same := len(list) > 0 && now.machine == last.machine && now.state == last.state && now.shown == last.shown
		if same && labels[id] == fmt.Sprint(a.Labels) {
			continue
		}
		labels[id] = fmt.Sprint(a.Labels)
		now.minute = max(now.minute, last.minute)
		all[id] = append(list, now)
	}
	return all
}

// at counts by machine and state at the end of a bucket, the plain way.
func at(all map[domain.AccountID][]change, bucket, minutesPerBucket int64) map[string]int64 {
	counts := map[string]int64{}
	for _, list := range all {
		var last change
		for _, c := range list {
			if c.minute/minutesPerBucket <= bucket {
				last = c
			}
		}
		if last.shown {
			counts[last.machine+" "+last.state]++
		}
	}
	return counts
}

func TestHistoryIsACountOverThePast(t *testing.T) {
	for seed := range uint64(2) {
		// Some 8 hours, and some 3 days: the second leaves the minutes' window.
		for _, events := range []int{1500, 12_000} {
			h := projectiontest.Generate(seed, projectiontest.Config{Events: events})
			v := newView(h)
			for _, item := range h.Items {
				v.Apply(item.At, item.Event)
			}
			all := changes(h.Items)
			checkHistory(t, all, v.History(distribution.ByMinute, h.End), 1, distribution.MinutesKept)
			checkHistory(t, all, v.History(distribution.ByHour, h.End), 60, distribution.HoursKept)
			later := h.End + int64(10*time.Minute) // nothing has happened since
			checkHistory(t, all, v.History(distribution.ByMinute, later), 1, distribution.MinutesKept)
		}
	}
}

func checkHistory(t *testing.T, all map[domain.AccountID][]change, got distribution.History, minutesPerBucket int64, buckets int) {
	t.Helper()
	first := got.Start / int64(time.Minute) / minutesPerBucket
	if n := len(got.Series[0].Counts); n < buckets-6 || n > buckets {
		t.Fatalf("%d buckets, want about %d", n, buckets)
	}
	for i := range got.Series[0].Counts {
		if i%97 != 0 && i < len(got.Series[0].Counts)-30 {
			continue
		}
		want := at(all, first+int64(i), minutesPerBucket)
		for _, s := range got.Series {
			if s.Counts[i] != want[s.Machine+" "+s.State] {
				t.Fatalf("bucket %d of %d: %s %s: got %d, want %d", i, len(s.Counts), s.Machine, s.State, s.Counts[i], want[s.Machine+" "+s.State])
			}
			delete(want, s.Machine+" "+s.State)
		}
		if len(want) > 0 {
			t.Fatalf("bucket %d: missing %v", i, want)
		}
	}
}

func TestAtAPastTime(t *testing.T) {
	v := distribution.New(1, projectiontest.Registry())
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	apply := func(seq uint64, minutes int, from, to string) {
		e := &domain.Event{
			Version: seq, Account: "a", Kind: domain.KindSession, Trigger: "x", Outcome: domain.Applied,
			From: from, To: to, At: start.Add(time.Duration(minutes) * time.Minute).UnixNano(),
		}
		if seq == 1 {
			e.Machine, e.Initial = "whatsapp@2", "IDLE"
		}
		v.Apply(projections.Place{Seq: seq}, e)
	}
	apply(1, 0, "IDLE", "CONNECTING")
	apply(2, 10, "CONNECTING", "RUNNING")
	apply(3, 5, "RUNNING", "DISCONNECTED") // late: it counts from minute 10 on
	apply(4, 3*24*60, "DISCONNECTED", "STOPPED")
	now := start.Add(3*24*time.Hour + 30*time.Second).UnixNano()
	for _, c := range []struct {
		at   time.Duration
		want string // "" = nobody
		ok   bool
	}{
		{-3 * time.Hour, "", true},
		{-100 * 24 * time.Hour, "", false},
		{9 * time.Minute, "DISCONNECTED", true}, // by the hour, for its minute is no longer kept
		{2 * 24 * time.Hour, "DISCONNECTED", true},
		{3*24*time.Hour - 2*time.Minute, "DISCONNECTED", true},
		{3 * 24 * time.Hour, "STOPPED", true},
		{4 * 24 * time.Hour, "", false},
	} {
		got, ok := v.At(start.Add(c.at).UnixNano(), now)
		if ok != c.ok {
			t.Errorf("at %v: ok %v, want %v", c.at, ok, c.ok)
		}
		want := map[string]int{}
		if c.want != "" {
			want[c.want] = 1
		}
		if ok && !reflect.DeepEqual(got.States, want) {
			t.Errorf("at %v: %v, want %v", c.at, got.States, want)
		}
	}
}
