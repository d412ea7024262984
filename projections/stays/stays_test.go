package stays_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/stays"
)

// each calls with every state of every machine of the history.
func each(h *projectiontest.History, with func(machine, state string)) {
	for _, m := range h.Judge.Machines().List() {
		if m.Family() == machine.FamilySession {
			for _, s := range m.Definition().States {
				with(m.Name(), s.Name)
			}
		}
	}
}

func TestRules(t *testing.T) {
	projectiontest.Subject{
		New: func(h *projectiontest.History, roster *projections.Roster) projections.View {
			return stays.New(roster, h.Judge.Machines())
		},
		Answers: answers,
		Want:    want,
	}.Check(t)
}

// TestStaysAreThoseOfThePlainReading: lengths, counts and reasons are those that
// a plain walk over each account's states finds.
func TestStaysAreThoseOfThePlainReading(t *testing.T) {
	for seed := range uint64(4) {
		h := projectiontest.Generate(seed, projectiontest.Config{Events: 4000})
		v := stays.New(h.Roster, h.Judge.Machines())
		lengths := map[string][]time.Duration{}
		reasons := map[domain.AccountID]string{}
		folds := map[domain.AccountID]*domain.Account{}
		for _, i := range h.Items {
			v.Apply(i.At, i.Event)
			e := i.Event
			before := domain.Account{State: e.Initial}
			if folds[e.Account] != nil {
				before = *folds[e.Account]
			}
			a := domain.Evolve(folds[e.Account], e)
			folds[e.Account] = a
			if a.State != before.State {
				reasons[e.Account] = cmp.Or(e.Reason.Code, e.Trigger)
			}
			if before.Version > 0 && a.State != before.State && !before.Forgotten && !a.Forgotten {
				key := a.Machine + " " + before.State
				lengths[key] = append(lengths[key], time.Duration(max(0, e.At-before.Since)))
			}
		}
		checkAccounts(t, h, v, reasons)
		enough := 0
		each(h, func(m, state string) {
			want := lengths[m+" "+state]
			slices.Sort(want)
			l := v.Ended(m, state)
			if l.N != len(want) {
				t.Errorf("seed %d, %s %s: %d stays, want %d", seed, m, state, l.N, len(want))
			}
			if len(want) > 20 {
				enough++
			}
			for _, q := range []float64{0.5, 0.95} {
				got, ok := l.Quantile(q)
				if ok != (len(want) > 0) {
					t.Errorf("seed %d, %s %s: a quantile of %d stays: %v", seed, m, state, len(want), ok)
				}
				if !ok {
					continue
				}
				exact := want[max(1, int(math.Ceil(q*float64(len(want)))))-1]
				if diff := math.Abs(float64(got - exact)); diff > 0.026*float64(exact) && diff > float64(time.Millisecond) {
					t.Errorf("seed %d, %s %s: the %v quantile is %v, want %v within 2.6 %%", seed, m, state, q, got, exact)
				}
			}
		})
		if enough < 5 {
			t.Errorf("seed %d: only %d states have enough stays to prove anything", seed, enough)
		}
	}
}

func checkAccounts(t *testing.T, h *projectiontest.History, v *stays.View, reasons map[domain.AccountID]string) {
	t.Helper()
	inState, forReason := map[string]int{}, map[string]int{}
	for id, a := range h.Folds {
		got, ok := v.Of(id)
		if ok == a.Forgotten {
			t.Errorf("%s: forgotten %v, found %v", id, a.Forgotten, ok)
		}
		if a.Forgotten {
			continue
		}
		if want := (stays.Stay{Machine: a.Machine, State: a.State, Since: a.Since, Reason: reasons[id]}); got != want {
			t.Errorf("%s: got %+v, want %+v", id, got, want)
		}
		inState[a.Machine+" "+a.State]++
		forReason[fmt.Sprint(a.Machine, " ", a.State, " ", reasons[id])]++
	}
	shown := map[string]int{}
	for _, d := range v.Dwell() {
		if l := v.Ended(d.Machine, d.State); d.Ended.N != l.N {
			t.Errorf("%s %s: %d stays in the list, %d asked for alone", d.Machine, d.State, d.Ended.N, l.N)
		}
		if d.Now > 0 {
			shown[d.Machine+" "+d.State] = d.Now
		}
	}
	if !maps.Equal(shown, inState) {
		t.Errorf("the list of all states has %v, want %v", shown, inState)
	}
	for id, a := range h.Folds {
		all, same := v.Now(a.Machine, a.State, reasons[id])
		if want, wantSame := inState[a.Machine+" "+a.State], forReason[fmt.Sprint(a.Machine, " ", a.State, " ", reasons[id])]; all != want || same != wantSame {
			t.Errorf("%s: %d in %s, %d for %s, want %d and %d", id, all, a.State, same, reasons[id], want, wantSame)
		}
	}
	if all, same := v.Now("whatsapp@2", "NOWHERE", "x"); all != 0 || same != 0 {
		t.Errorf("%d accounts, %d of them for a reason, are in a state that does not exist", all, same)
	}
}

func TestShorter(t *testing.T) {
	roster := projections.NewRoster(1)
	v := stays.New(roster, projectiontest.Registry())
	seq := uint64(0)
	for i := range 100 { // stays of 1, 2 … 100 s in CONNECTING
		id := fmt.Sprint("a-", i)
		for k, to := range []string{"CONNECTING", "DISCONNECTED"} {
			seq++
			e := &domain.Event{
				Account: domain.AccountID(id), Kind: domain.KindSession, Trigger: "t", Outcome: domain.Applied, To: to,
				At: int64(k) * int64(i+1) * int64(time.Second),
			}
			if k == 0 {
				e.Machine, e.Initial = "whatsapp@2", "IDLE"
			}
			v.Apply(projections.Place{Seq: seq, Account: roster.Ids(0).Add(id)}, e)
		}
	}
	l := v.Ended("whatsapp@2", "CONNECTING")
	for d, want := range map[time.Duration]float64{0: 0, time.Second / 2: 0, 50 * time.Second: 0.48, 200 * time.Second: 1, 100 * 365 * 24 * time.Hour: 1} {
		if got, ok := l.Shorter(d); !ok || math.Abs(got-want) > 0.03 {
			t.Errorf("%v: longer than %.2f of the stays (%v), want %.2f", d, got, ok, want)
		}
	}
	empty := v.Ended("whatsapp@2", "RUNNING")
	if _, ok := empty.Shorter(time.Second); ok {
		t.Error("a share of no stays")
	}
}
