package transitions_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/transitions"
)

func TestRules(t *testing.T) {
	projectiontest.Subject{
		New: func(h *projectiontest.History, _ *projections.Roster) projections.View {
			return transitions.New(h.Partitions)
		},
		Answers: answers,
		Want:    want,
	}.Check(t)
}

func TestNumbersAreACountOverTheEvents(t *testing.T) {
	var minutes uint64
	for seed := range uint64(8) {
		h := projectiontest.Generate(seed, projectiontest.Config{})
		v := transitions.New(h.Partitions)
		edges, rejected := map[transitions.Edge]uint64{}, map[transitions.Edge]uint64{}
		reasons, outcomes := map[string]uint64{}, map[string]uint64{}
		var total, minute, out uint64
		for _, i := range h.Items {
			v.Apply(i.At, i.Event)
			e := i.Event
			outcomes[e.Outcome.String()]++
			if e.Outcome == domain.Rejected {
				rejected[transitions.Edge{From: e.From, Trigger: e.Trigger}]++
			}
			ofTheAccount := e.Kind != domain.KindAccount && e.Kind != domain.KindMessage && e.Kind != domain.KindConversation
			if e.Outcome != domain.Applied || !ofTheAccount {
				continue
			}
			total++
			edges[transitions.Edge{From: e.From, Trigger: e.Trigger, To: e.To}]++
			if age := h.End/1e9 - e.At/1e9; age >= 0 && age < 60 {
				minute++
			}
			if e.To == "LOGGED_OUT" {
				out++
				reasons[e.Reason.Code]++
			}
		}
		got := v.Numbers(h.End)
		if got.Total != total || got.LastMinute != minute || got.LoggedOut != out {
			t.Errorf("seed %d: total %d, last minute %d, logged out %d; want %d, %d, %d", seed, got.Total, got.LastMinute, got.LoggedOut, total, minute, out)
		}
		if !reflect.DeepEqual(got.Outcomes, outcomes) || !reflect.DeepEqual(got.ByReason, reasons) {
			t.Errorf("seed %d: outcomes %v, reasons %v; want %v, %v", seed, got.Outcomes, got.ByReason, outcomes, reasons)
		}
		checkEdges(t, got.Edges, edges)
		checkEdges(t, got.Rejected, rejected)
		if out == 0 || len(edges) < 20 {
			t.Fatalf("seed %d: the history is too poor to prove anything", seed)
		}
		minutes += minute
	}
	if minutes == 0 {
		t.Fatal("no history has a transition in its last minute")
	}
}

func checkEdges(t *testing.T, got []transitions.EdgeCount, want map[transitions.Edge]uint64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d edges, want %d", len(got), len(want))
	}
	for i, e := range got {
		if want[e.Edge] != e.Count {
			t.Errorf("%v: %d, want %d", e.Edge, e.Count, want[e.Edge])
		}
		if i > 0 && got[i-1].Count < e.Count {
			t.Errorf("edge %d is more frequent than the one before it", i)
		}
	}
}

// event applies one applied session event to partition 0.
func event(v *transitions.View, seq uint64, from, trigger, to string, at time.Time, code string) {
	v.Apply(projections.Place{Seq: seq}, &domain.Event{
		Kind: domain.KindSession, Outcome: domain.Applied, From: from, Trigger: trigger, To: to,
		At: at.UnixNano(), Reason: domain.Reason{Code: code},
	})
}

func TestPerMinute(t *testing.T) {
	v := transitions.New(1)
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	event(v, 1, "A", "go", "B", start.Add(10*time.Second), "")
	event(v, 2, "A", "go", "B", start.Add(59*time.Second), "")
	event(v, 3, "B", "back", "A", start.Add(2*time.Minute), "")
	event(v, 4, "A", "go", "B", start.Add(time.Minute), "") // late, still in its minute
	got := v.PerMinute(start.Add(2*time.Minute+30*time.Second).UnixNano(), 3)
	want := transitions.PerMinute{
		Start: start.UnixNano(),
		Edges: []transitions.EdgeSeries{
			{Edge: transitions.Edge{From: "A", Trigger: "go", To: "B"}, Counts: []uint64{2, 1, 0}},
			{Edge: transitions.Edge{From: "B", Trigger: "back", To: "A"}, Counts: []uint64{0, 0, 1}},
		},
		Rejected: []transitions.EdgeSeries{},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestLastMinuteOfAClockThatIsBehindTheNewestEvent(t *testing.T) {
	v := transitions.New(1)
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	event(v, 1, "A", "go", "B", now.Add(5*time.Minute), "") // as far ahead as the judge lets it be
	event(v, 2, "A", "go", "B", now.Add(-10*time.Second), "")
	event(v, 3, "A", "go", "B", now.Add(-59*time.Second), "")
	event(v, 4, "A", "go", "B", now.Add(-60*time.Second), "")
	if got := v.Numbers(now.UnixNano()).LastMinute; got != 2 {
		t.Errorf("last minute: %d, want 2", got)
	}
}

func TestInventedNamesAreBounded(t *testing.T) {
	v := transitions.New(1)
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	const n = 3000
	for i := range n {
		event(v, uint64(i+1), fmt.Sprint("S", i), "logout", "LOGGED_OUT", at, fmt.Sprint("code-", i))
	}
	got := v.Numbers(at.UnixNano())
	if got.Total != n || got.LoggedOut != n {
		t.Errorf("total %d, logged out %d, want %d", got.Total, got.LoggedOut, n)
	}
	if len(got.Edges) > transitions.MaxEdges || len(got.ByReason) > transitions.MaxReasons+1 {
		t.Errorf("%d edges and %d reasons are kept", len(got.Edges), len(got.ByReason))
	}
	if other := got.ByReason[transitions.Other]; other < n-transitions.MaxReasons {
		t.Errorf("other reasons: %d", other)
	}
}

// TestLossesAreBounded: more accounts than there are places for are lost at once, and
// one of those that are kept again and again.
func TestLossesAreBounded(t *testing.T) {
	v := transitions.New(1)
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	seq := uint64(0)
	lose := func(account uint32, at time.Time) {
		seq++
		v.Apply(projections.Place{Seq: seq, Account: account}, &domain.Event{
			Kind: domain.KindSession, Outcome: domain.Applied, From: "RUNNING", Trigger: "connection_lost", To: "DISCONNECTED", At: at.UnixNano(),
		})
	}
	for account := range uint32(transitions.MaxLosses + 10) {
		lose(account, at)
	}
	for i := range transitions.MaxTimes + 10 {
		lose(7, at.Add(time.Duration(i)*time.Second))
	}
	later := at.Add(2 * time.Minute).UnixNano()
	list, whole := v.Losses(later, 10*time.Minute, 2, 10)
	if len(list) != 1 || list[0].Account != 7 || list[0].Times != transitions.MaxTimes || whole {
		t.Errorf("lost twice: %+v, whole: %v; want account 7, %d times, not whole", list, whole, transitions.MaxTimes)
	}
	if all, _ := v.Losses(later, 10*time.Minute, 1, 1<<20); len(all) != transitions.MaxLosses {
		t.Errorf("%d accounts are kept, want %d", len(all), transitions.MaxLosses)
	}
	// Two hours later the places are free again.
	lose(transitions.MaxLosses+5, at.Add(2*time.Hour))
	list, whole = v.Losses(at.Add(2*time.Hour).UnixNano(), 10*time.Minute, 1, 10)
	if len(list) != 1 || list[0].Account != transitions.MaxLosses+5 || !whole {
		t.Errorf("two hours later: %+v, whole: %v", list, whole)
	}
}
