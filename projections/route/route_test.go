package route_test

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/route"
)

var wants = []route.Want{
	{Do: "send"}, {Do: "read"}, {Do: "bulk"}, {Do: "fly"},
	{Do: "send", Scope: "new_chats"}, {Do: "bulk", Scope: "new_chats"}, {Do: "bulk", Scope: "groups"},
	{Do: "send", Labels: map[string]string{"pool": "eu"}},
	{Do: "send", Labels: map[string]string{"pool": "ap=x", "tier": "gold"}},
	{Do: "send", Scope: "new_chats", Labels: map[string]string{"tier": "gold"}},
	{Do: "send", Labels: map[string]string{"pool": "mars"}},
}

func TestRules(t *testing.T) {
	projectiontest.Subject{
		New: func(h *projectiontest.History, roster *projections.Roster) projections.View {
			return route.New(roster, h.Judge.Machines())
		},
		Answers: answers,
		Want:    want,
	}.Check(t)
}

// plain picks from the folds, the plain way.
func plain(h *projectiontest.History, folds map[domain.AccountID]*domain.Account, used map[domain.AccountID]int64, w route.Want) []route.Candidate {
	var list []route.Candidate
	for id, a := range folds {
		has := true
		for k, v := range w.Labels {
			got, ok := a.Labels[k]
			has = has && ok && got == v
		}
		if !a.Forgotten && has && h.Judge.Can(a, w.Do, w.Scope) {
			list = append(list, route.Candidate{Account: id, Machine: a.Machine, State: a.State, Used: used[id], Since: a.Since, Labels: a.Labels})
		}
	}
	slices.SortFunc(list, func(a, b route.Candidate) int {
		return cmp.Or(cmp.Compare(cmp.Or(a.Used, a.Since), cmp.Or(b.Used, b.Since)), cmp.Compare(a.Account, b.Account))
	})
	return list
}

// TestThePickIsThatOfTheJudge: at any time, with the index built early or late,
// the view picks what the judge allows, in the order of use.
func TestThePickIsThatOfTheJudge(t *testing.T) {
	most := map[string]int{} // candidates that there were at once
	for seed := range uint64(4) {
		h := projectiontest.Generate(seed, projectiontest.Config{Talk: 20, Events: 3000, Accounts: 60})
		v := route.New(h.Roster, h.Judge.Machines())
		folds, used := map[domain.AccountID]*domain.Account{}, map[domain.AccountID]int64{}
		for i, item := range h.Items {
			e := item.Event
			v.Apply(item.At, e)
			folds[e.Account] = domain.Evolve(folds[e.Account], e)
			if (e.Trigger == "message_pending" || e.Trigger == "message_sent") && e.Outcome != domain.Rejected && e.Outcome != domain.Stale {
				used[e.Account] = max(used[e.Account], e.At)
			}
			if i < 500*int(seed) || i%97 != 0 && i != len(h.Items)-1 {
				continue
			}
			for _, w := range wants {
				want := plain(h, folds, used, w)
				got, whole := v.Pick(w, 1000)
				most[fmt.Sprint(w)] = max(most[fmt.Sprint(w)], len(want))
				if !whole || !same(got, want) {
					t.Fatalf("seed %d, event %d, %+v: got %v (whole: %v), want %v", seed, i, w, got, whole, want)
				}
				if got, _ := v.Pick(w, 3); !same(got, want[:min(3, len(want))]) {
					t.Fatalf("seed %d, event %d, %+v, 3 of them: got %v, want %v", seed, i, w, got, want[:min(3, len(want))])
				}
				if len(w.Labels) == 0 && v.Eligible(w.Do, w.Scope) != len(want) {
					t.Fatalf("seed %d, event %d, %+v: %d are eligible, want %d", seed, i, w, v.Eligible(w.Do, w.Scope), len(want))
				}
			}
		}
	}
	for w, n := range most {
		if n < 2 && w != fmt.Sprint(wants[3]) && w != fmt.Sprint(wants[10]) {
			t.Errorf("never more than %d candidates for %s: too few to prove anything", n, w)
		}
	}
}

// same compares what the view says of candidates.
func same(got, want []route.Candidate) bool {
	return slices.EqualFunc(got, want, func(a, b route.Candidate) bool {
		labels := maps.Equal(a.Labels, b.Labels)
		a.Labels, b.Labels = nil, nil
		return labels && reflect.DeepEqual(a, b)
	})
}

// up is a new account in RUNNING, since a time.
func up(v *route.View, ids *projections.Ids, seq uint64, id string, at int64, labels map[string]string) {
	v.Apply(projections.Place{Seq: seq, Account: ids.Add(id)}, &domain.Event{
		Version: 1, Account: domain.AccountID(id), Kind: domain.KindSession, Machine: "whatsapp@2", Initial: "IDLE", Trigger: "adopt",
		Outcome: domain.Applied, From: "IDLE", To: "RUNNING", At: at, Labels: labels,
	})
}

// TestAskingForTwoLabelsIsBounded: many accounts have each label and few have
// both; the answer ends, and says when it is not whole.
func TestAskingForTwoLabelsIsBounded(t *testing.T) {
	roster := projections.NewRoster(1)
	v := route.New(roster, projectiontest.Registry())
	const n = route.ScanLimit + 2000
	for i := range n {
		labels := map[string]string{"pool": "eu", "tier": "basic"}
		if i%2 == 0 {
			labels = map[string]string{"pool": "us", "tier": "gold"}
		}
		if i == 5 {
			labels["tier"] = "gold"
		}
		up(v, roster.Ids(0), uint64(i+1), fmt.Sprintf("acct-%d", i), int64(i), labels)
	}
	list, whole := v.Pick(route.Want{Do: "send", Labels: map[string]string{"pool": "eu", "tier": "gold"}}, 10)
	if len(list) != 1 || list[0].Account != "acct-5" || !whole {
		t.Errorf("got %v (whole: %v), want acct-5 out of %d", list, whole, n/2)
	}
	for i := n; i < 3*n; i++ {
		up(v, roster.Ids(0), uint64(i+1), fmt.Sprintf("acct-%d", i), int64(i), map[string]string{"pool": []string{"eu", "us"}[i%2], "tier": []string{"basic", "gold"}[i%2]})
	}
	if list, whole = v.Pick(route.Want{Do: "send", Labels: map[string]string{"pool": "eu", "tier": "gold"}}, 10); len(list) != 1 || whole {
		t.Errorf("got %v (whole: %v), want one, and to be told that it may not be all", list, whole)
	}
}

// TestInventedScopes: a publisher that invents scopes without end costs groups,
// never an answer.
func TestInventedScopes(t *testing.T) {
	roster := projections.NewRoster(1)
	v := route.New(roster, projectiontest.Registry())
	const n = 700
	for i := range n {
		id := fmt.Sprintf("acct-%03d", i)
		up(v, roster.Ids(0), uint64(2*i+1), id, int64(i+1), nil)
		v.Apply(projections.Place{Seq: uint64(2*i + 2), Account: uint32(i)}, &domain.Event{
			Version: 2, Account: domain.AccountID(id), Kind: domain.KindSession, Trigger: "restricted", Outcome: domain.Noop, From: "RUNNING", To: "RUNNING",
			Set: []domain.Condition{{Name: "restricted", Scope: fmt.Sprintf("scope-%d", i), Since: 1}},
		})
	}
	for _, i := range []int{0, 100, 255, 256, 500, 699} {
		list, whole := v.Pick(route.Want{Do: "send", Scope: fmt.Sprintf("scope-%d", i)}, 1000)
		blocked := slices.ContainsFunc(list, func(c route.Candidate) bool { return c.Account == domain.AccountID(fmt.Sprintf("acct-%03d", i)) })
		if len(list) != n-1 || blocked || !whole {
			t.Errorf("scope %d: %d candidates (whole: %v), the blocked one among them: %v; want the %d others", i, len(list), whole, blocked, n-1)
		}
	}
	if n := v.Eligible("bulk", ""); n != 0 {
		t.Errorf("%d accounts may send in bulk though each is restricted somewhere", n)
	}
	if n := v.Eligible("send", "scope-600"); n != 699 {
		t.Errorf("%d accounts may send in scope-600, want 699", n)
	}
}

// BenchmarkPick asks for 10 of 200 000 accounts, with and without a label.
func BenchmarkPick(b *testing.B) {
	roster := projections.NewRoster(4)
	v := route.New(roster, projectiontest.Registry())
	seqs := make([]uint64, 4)
	for i := range 200_000 {
		p := i % 4
		seqs[p]++
		id := fmt.Sprintf("acct-%06d", i)
		v.Apply(projections.Place{Partition: p, Seq: seqs[p], Account: roster.Ids(p).Add(id)}, &domain.Event{
			Version: 1, Account: domain.AccountID(id), Kind: domain.KindSession, Machine: "whatsapp@2", Initial: "IDLE", Trigger: "adopt",
			Outcome: domain.Applied, From: "IDLE", To: "RUNNING", At: int64(i / 1000), Labels: map[string]string{"pool": []string{"eu", "us", "ap"}[i%3], "customer": id}, // a group has one time
		})
	}
	v.Settle()
	for _, w := range []route.Want{{Do: "send"}, {Do: "send", Scope: "new_chats", Labels: map[string]string{"pool": "eu"}}} {
		b.Run(fmt.Sprint(w.Labels), func(b *testing.B) {
			for b.Loop() {
				if list, _ := v.Pick(w, 10); len(list) != 10 {
					b.Fatal(len(list))
				}
			}
		})
	}
	b.Run("used", func(b *testing.B) {
		at := int64(1 << 40)
		for i := 0; b.Loop(); i++ {
			at++
			seqs[0]++
			v.Apply(projections.Place{Seq: seqs[0], Account: uint32(i * 7919 % 50_000)}, &domain.Event{
				Kind: domain.KindMessage, Trigger: "message_pending", Outcome: domain.Applied, To: "PENDING", At: at,
			})
		}
	})
}
