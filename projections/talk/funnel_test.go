package talk_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/talk"
)

// reading is what a plain walk over the events and the folds counts.
type reading struct {
	funnel talk.Funnel
	sides  talk.Sides
	delays []time.Duration
}

// read counts the plain way: after every event the fold is looked at before and
// after, and at the end all that the folds hold.
func read(h *projectiontest.History) reading {
	r := reading{
		funnel: talk.Funnel{Entered: map[string]uint64{}, Open: map[string]int{}},
		sides:  talk.Sides{Conversations: map[string]int{}, Waiting: map[string]int{}, Claims: map[string]uint64{}},
	}
	folds := map[domain.AccountID]*domain.Account{}
	for _, i := range h.Items {
		e := i.Event
		before, known := folds[e.Account].Message(e.Key)
		folds[e.Account] = domain.Evolve(folds[e.Account], e)
		if e.Outcome != domain.Applied {
			continue
		}
		if e.Trigger == "claim" {
			r.sides.Claims[e.Data["side"].(string)]++
		}
		m, _ := folds[e.Account].Message(e.Key)
		if e.Kind != domain.KindMessage || known && before.State == m.State {
			continue
		}
		if !known {
			r.funnel.Made++
		}
		r.funnel.Entered[m.State]++
		if m.State == "REPLIED" {
			first := m.First
			if p, s := m.TimeOf("pending"), m.TimeOf("sent"); p != 0 || s != 0 {
				first = slices.Min(slices.DeleteFunc([]int64{p, s}, func(at int64) bool { return at == 0 }))
			}
			r.delays = append(r.delays, time.Duration(max(0, e.At-first)))
			if m.Late {
				r.funnel.Late++
			}
		}
	}
	slices.Sort(r.delays)
	ms, cs := plain(h, "", func(*domain.Message) bool { return true }, func(*domain.Conversation) bool { return true })
	for _, m := range ms {
		if slices.Contains([]string{"REPLIED", "TIMED_OUT", "FAILED"}, m.State) {
			r.funnel.Closed++
		} else {
			r.funnel.Open[m.State]++
		}
	}
	for _, c := range cs {
		r.sides.Conversations[c.State]++
		if len(c.Turns) > 0 {
			r.sides.Waiting[c.State]++
		}
		if c.Unanswered {
			r.sides.Unanswered++
		}
	}
	return r
}

// TestFunnel: what became of messages, and who is in charge of conversations, is
// what a plain walk over the history counts.
func TestFunnel(t *testing.T) {
	for seed := range uint64(4) {
		h := projectiontest.Generate(seed, projectiontest.Config{Talk: 70, Events: 4000, Accounts: 30})
		v, want := apply(h), read(h)
		got := v.Funnel()
		if got.Delay.N != len(want.delays) {
			t.Fatalf("seed %d: %d delays, want %d", seed, got.Delay.N, len(want.delays))
		}
		for _, q := range []float64{0.5, 0.9, 0.99} {
			d, _ := got.Delay.Quantile(q)
			exact := want.delays[max(1, int(math.Ceil(q*float64(len(want.delays)))))-1]
			if diff := math.Abs(float64(d - exact)); diff > 0.026*float64(exact) && diff > float64(time.Millisecond) {
				t.Errorf("seed %d: the %v quantile of the delay is %v, want %v within 2.6 %%", seed, q, d, exact)
			}
		}
		got.Delay = want.funnel.Delay
		if !reflect.DeepEqual(got, want.funnel) {
			t.Errorf("seed %d: got\n%+v, want\n%+v", seed, got, want.funnel)
		}
		if sides := v.Sides(); !reflect.DeepEqual(sides, want.sides) {
			t.Errorf("seed %d: got\n%+v, want\n%+v", seed, sides, want.sides)
		}
		if want.funnel.Late == 0 || want.sides.Unanswered == 0 || len(want.sides.Claims) < 2 || len(want.funnel.Entered) < 7 {
			t.Errorf("seed %d: too little to prove anything: %+v, %+v", seed, want.funnel, want.sides)
		}
	}
}
