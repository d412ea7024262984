package accounts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/accounts"
	"github.com/musterhq/muster/projections/projectiontest"
)

// TestPagesOfUnevenFilters: wherever in the order of the ids the accounts of a
// state lie, and however many they are, the pages hold all of them once, and no
// page but the last comes short when so few can match.
func TestPagesOfUnevenFilters(t *testing.T) {
	const n = 20_000
	h := &projectiontest.History{Partitions: 2, Roster: projections.NewRoster(2), Judge: domain.NewJudge(projectiontest.Registry())}
	v := newView(h)
	rnd := rand.New(rand.NewPCG(3, 3))
	want := map[string][]domain.AccountID{}
	for i := range n {
		state := "RUNNING"
		switch {
		case i%50 == 0:
			state = "DISCONNECTED" // evenly
		case i >= n-3000 && i%2 == 0:
			state = "LOGGED_OUT" // at the end
		case i < 900:
			state = "STOPPED" // at the beginning
		case rnd.IntN(4) == 0:
			state = "DEGRADED"
		}
		id := domain.AccountID(fmt.Sprintf("acct-%06d", i))
		want[state] = append(want[state], id)
		e := &domain.Event{
			Version: 1, Account: id, Kind: domain.KindSession, Machine: "whatsapp@2", Initial: "IDLE", Trigger: "adopt",
			Outcome: domain.Applied, From: "IDLE", To: state,
		}
		p := int(rnd.IntN(2))
		v.Apply(projections.Place{Partition: p, Seq: uint64(i + 1), Account: h.Roster.Ids(p).Add(string(id))}, e)
	}
	for state, ids := range want {
		for _, limit := range []int{40, 300, 1000} {
			var got []domain.AccountID
			for after := ""; ; {
				page := v.List(accounts.Filter{State: state}, after, limit)
				for _, a := range page.Accounts {
					got = append(got, a.ID)
				}
				if after = page.Next; after == "" {
					break
				}
				if len(page.Accounts) != limit {
					t.Errorf("%s, pages of %d: one that is not the last has %d", state, limit, len(page.Accounts))
				}
			}
			if !slices.Equal(got, ids) {
				t.Errorf("%s, pages of %d: %d accounts, want %d", state, limit, len(got), len(ids))
			}
		}
	}
}

// BenchmarkPage reads pages of 100 of 100 000 accounts, one in fifty of which is
// in another state than the others.
func BenchmarkPage(b *testing.B) {
	const n = 100_000
	h := &projectiontest.History{Partitions: 4, Roster: projections.NewRoster(4), Judge: domain.NewJudge(projectiontest.Registry())}
	v := newView(h)
	for i := range n {
		id := fmt.Sprintf("acct-%06d", i)
		e := &domain.Event{
			Version: 1, Account: domain.AccountID(id), Kind: domain.KindSession, Machine: "whatsapp@2", Initial: "IDLE", Trigger: "start",
			Outcome: domain.Applied, From: "IDLE", To: "CONNECTING", Source: fmt.Sprint("w-", i%50), Labels: map[string]string{"pool": fmt.Sprint(i % 4), "tier": fmt.Sprint(i % 3)},
		}
		if i%50 == 0 {
			e.To = "DISCONNECTED"
		}
		v.Apply(projections.Place{Partition: i % 4, Seq: uint64(i/4 + 1), Account: h.Roster.Ids(i % 4).Add(id)}, e)
	}
	v.Settle()
	for name, f := range map[string]accounts.Filter{
		"all": {}, "state": {State: "DISCONNECTED"}, "labels": {Labels: map[string]string{"pool": "1"}}, "prefix and state": {Prefix: "acct-09", State: "DISCONNECTED"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if page := v.List(f, "acct-050000", 100); len(page.Accounts) != 100 {
					b.Fatal(len(page.Accounts))
				}
			}
		})
	}
	b.Run("facets of a label", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got := v.FacetsOf(accounts.Filter{Labels: map[string]string{"pool": "1"}}); got.Accounts != n/4 {
				b.Fatal(got.Accounts)
			}
		}
	})
}
