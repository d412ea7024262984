package attention_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/attention"
	"github.com/musterhq/muster/projections/projectiontest"
)

// TestLargeIncidents: what an incident of many shows is that of a plain look at
// its items, while they come and go: at random, the first by id and the oldest
// first, and all of them.
func TestLargeIncidents(t *testing.T) {
	const n = 500
	roster := projections.NewRoster(2)
	v := attention.New(roster, projectiontest.Registry())
	rnd := rand.New(rand.NewPCG(7, 7))
	begin := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC).UnixNano()
	stands, seqs := map[int]int64{}, make([]uint64, 2)
	apply := func(i int, e *domain.Event) {
		p := i % 2
		seqs[p]++
		v.Apply(projections.Place{Partition: p, Seq: seqs[p], Account: roster.Ids(p).Add(fmt.Sprintf("acct-%04d", i))}, e)
	}
	set := func(i int, since int64) {
		stands[i] = since
		c := domain.Condition{Name: "unvouched", Since: since}
		apply(i, &domain.Event{Kind: domain.KindMark, Trigger: "vouch_lost", Outcome: domain.Noop, At: since, Set: []domain.Condition{c}})
	}
	end := func(i int) {
		delete(stands, i)
		apply(i, &domain.Event{Kind: domain.KindMark, Trigger: "vouch_restored", Outcome: domain.Noop, Ended: []domain.ConditionRef{{Name: "unvouched"}}})
	}
	check := func(what string) {
		t.Helper()
		var want []plainIncident
		if len(stands) > 0 {
			ids := slices.Sorted(maps.Keys(stands))
			sinces := slices.Sorted(maps.Values(stands))
			var sample []string
			for _, i := range ids[:min(3, len(ids))] {
				sample = append(sample, fmt.Sprintf("acct-%04d", i))
			}
			want = append(want, plainIncident{"unvouched", "w", "vouch_lost", sinces[0], sinces[len(sinces)-1], len(ids), fmt.Sprint(sample)})
		}
		if got := incidents(v, attention.Filter{}, 10); !slices.Equal(got, want) {
			t.Fatalf("%s, %d items: got\n%v\nwant\n%v", what, len(stands), got, want)
		}
	}
	for _, i := range rnd.Perm(n) {
		apply(i, &domain.Event{Version: 1, Kind: domain.KindSession, Machine: "whatsapp@2", Initial: "IDLE", Trigger: "connection_ready", Outcome: domain.Applied, To: "RUNNING", Source: "w", At: 1})
	}
	for round := range 3 {
		for _, i := range rnd.Perm(n) {
			set(i, begin+rnd.Int64N(int64(90*time.Second)))
			if i%20 == 0 {
				check("coming")
			}
		}
		for range 400 {
			if i := rnd.IntN(n); stands[i] != 0 {
				end(i)
			} else {
				set(i, begin+rnd.Int64N(int64(90*time.Second)))
			}
			check("at random")
		}
		order := slices.Sorted(maps.Keys(stands))
		if round == 1 {
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(stands[a], stands[b]) })
		}
		for k, i := range order {
			if end(i); k%7 == 0 {
				check("going")
			}
		}
		check("gone")
	}
}
