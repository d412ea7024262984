package stays_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/stays"
)

// reading is what a plain walk over each account's states finds.
type reading struct {
	lengths   map[string][]time.Duration // by machine and state, sorted
	reasons   map[domain.AccountID]string
	inState   map[string]int
	forReason map[string]int
}

func read(h *projectiontest.History) reading {
	r := reading{lengths: map[string][]time.Duration{}, reasons: map[domain.AccountID]string{}, inState: map[string]int{}, forReason: map[string]int{}}
	folds := map[domain.AccountID]*domain.Account{}
	for _, i := range h.Items {
		e := i.Event
		before := domain.Account{State: e.Initial}
		if folds[e.Account] != nil {
			before = *folds[e.Account]
		}
		a := domain.Evolve(folds[e.Account], e)
		folds[e.Account] = a
		// What led there, also when the event that led away from there is lost.
		if a.State != before.State || e.Outcome == domain.Applied && (e.Kind == domain.KindSession || e.Kind == domain.KindMark) {
			r.reasons[e.Account] = cmp.Or(e.Reason.Code, e.Trigger)
		}
		if a.State != before.State && before.Version > 0 && !before.Forgotten && !a.Forgotten {
			key := a.Machine + " " + before.State
			r.lengths[key] = append(r.lengths[key], time.Duration(max(0, e.At-before.Since)))
		}
	}
	for _, list := range r.lengths {
		slices.Sort(list)
	}
	for id, a := range folds {
		if !a.Forgotten {
			r.inState[a.Machine+" "+a.State]++
			r.forReason[fmt.Sprint(a.Machine, " ", a.State, " ", r.reasons[id])]++
		}
	}
	return r
}

var shares = []float64{0.05, 0.5, 0.95, 1}

// quantile is the exact quantile of sorted lengths.
func quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return -1
	}
	return list[max(1, int(math.Ceil(q*float64(len(list)))))-1]
}

// near is the exact length where the view's is within the width of its buckets, and
// the view's where it is not.
func near(got time.Duration, ok bool, exact time.Duration) time.Duration {
	if !ok {
		got = -1
	}
	if diff := math.Abs(float64(got - exact)); diff > 0.026*float64(exact) && diff > float64(time.Millisecond) {
		return got
	}
	return exact
}

// answers asks the view of each account, of each state of each machine, and of
// each reason for being there.
func answers(h *projectiontest.History, v projections.View) any {
	s, r := v.(*stays.View), read(h)
	told := map[string]any{}
	for id := range h.Folds {
		stay, ok := s.Of(id)
		told[string(id)] = []any{stay, ok}
	}
	listed := map[string]int{}
	for _, d := range s.Dwell() {
		listed[fmt.Sprint(d.Machine, " ", d.State, " ", d.Now, " ", d.Ended.N)]++
	}
	told["listed"] = listed
	each(h, func(m, state string) {
		l, key := s.Ended(m, state), m+" "+state
		var lengths []time.Duration
		for _, q := range shares {
			got, ok := l.Quantile(q)
			lengths = append(lengths, near(got, ok, quantile(r.lengths[key], q)))
		}
		all, _ := s.Now(m, state, "")
		told[key] = []any{l.N, lengths, all}
		for _, reason := range []string{"", "connection_lost", "start", "401", "515", "recover", "no such reason"} {
			_, same := s.Now(m, state, reason)
			told[key+" for "+reason] = same
		}
	})
	return told
}

// want works the same out from the folds.
func want(h *projectiontest.History) any {
	r := read(h)
	told := map[string]any{}
	for id, a := range h.Folds {
		told[string(id)] = []any{stays.Stay{Machine: a.Machine, State: a.State, Since: a.Since, Reason: r.reasons[id]}, true}
		if a.Forgotten {
			told[string(id)] = []any{stays.Stay{}, false}
		}
	}
	listed := map[string]int{}
	each(h, func(m, state string) {
		key := m + " " + state
		if n, ended := r.inState[key], len(r.lengths[key]); n+ended > 0 {
			listed[fmt.Sprint(key, " ", n, " ", ended)]++
		}
		var lengths []time.Duration
		for _, q := range shares {
			lengths = append(lengths, quantile(r.lengths[key], q))
		}
		told[key] = []any{len(r.lengths[key]), lengths, r.inState[key]}
		for _, reason := range []string{"", "connection_lost", "start", "401", "515", "recover", "no such reason"} {
			told[key+" for "+reason] = r.forReason[key+" "+reason]
		}
	})
	told["listed"] = listed
	return told
}
