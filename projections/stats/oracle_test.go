package stats_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/readytime"
	"github.com/musterhq/muster/projections/stats"
	"github.com/musterhq/muster/projections/transitions"
)

// joined is the three views of which the object is made, fed as one.
type joined struct {
	d  *distribution.View
	tr *transitions.View
	r  *readytime.View
}

func (j *joined) views() []projections.View { return []projections.View{j.d, j.tr, j.r} }

func (j *joined) Name() string { return "joined" }
func (j *joined) Version() int { return 1 }

func (j *joined) Apply(at projections.Place, e *domain.Event) {
	for _, v := range j.views() {
		v.Apply(at, e)
	}
}

func (j *joined) Reset() {
	for _, v := range j.views() {
		v.Reset()
	}
}

// Save writes each view's state behind its length.
func (j *joined) Save(partition int, w io.Writer) error {
	for _, v := range j.views() {
		var b bytes.Buffer
		if err := v.Save(partition, &b); err != nil {
			return err
		}
		if err := binary.Write(w, binary.LittleEndian, uint32(b.Len())); err != nil {
			return err
		}
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func (j *joined) Load(partition int, r io.Reader) error {
	for _, v := range j.views() {
		var n uint32
		if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
			return err
		}
		part := io.LimitReader(r, int64(n))
		if err := v.Load(partition, part); err != nil {
			return err
		}
		if left, err := io.Copy(io.Discard, part); err != nil || left > 0 {
			return fmt.Errorf("%d bytes of the view %s were not read: %w", left, v.Name(), err)
		}
	}
	return nil
}

// TestTheObjectIsThePlainReading holds the whole object to one that is counted from
// the events and folds.
func TestTheObjectIsThePlainReading(t *testing.T) {
	projectiontest.Subject{
		New: func(h *projectiontest.History, _ *projections.Roster) projections.View {
			reg := h.Judge.Machines()
			return &joined{distribution.New(h.Partitions, reg), transitions.New(h.Partitions), readytime.New(h.Partitions, reg)}
		},
		Answers: func(h *projectiontest.History, v projections.View) any {
			j := v.(*joined)
			return rounded(stats.Of(nil, j.d, j.tr, j.r, h.End))
		},
		Want: func(h *projectiontest.History) any { return rounded(plain(h)) },
	}.Check(t)
}

// rounded rounds the means to what a plain sum of floating point numbers is good for.
func rounded(s stats.Stats) any {
	means := []string{}
	for _, e := range []*stats.Episodes{&s.TimeToRunning.Onboarding, &s.TimeToRunning.Recovery} {
		if e.Mean != nil {
			means = append(means, fmt.Sprintf("%.5f", *e.Mean))
		}
		e.Mean = nil
	}
	return []any{s, means}
}

// plain counts.
func plain(h *projectiontest.History) stats.Stats {
	s := stats.Stats{
		States: map[string]int{}, Classes: map[string]int{}, ByMachine: map[string]map[string]int{},
		Transitions: stats.Transitions{Edges: []stats.Edge{}}, LoggedOut: stats.LoggedOut{ByReason: map[string]uint64{}},
		Outcomes: map[string]uint64{"applied": 0, "noop": 0, "stale": 0, "rejected": 0},
	}
	for _, a := range h.Folds {
		if a.Forgotten {
			continue
		}
		s.Accounts++
		s.States[a.State]++
		s.Classes[h.Judge.Class(a)]++
		if s.ByMachine[a.Machine] == nil {
			s.ByMachine[a.Machine] = map[string]int{}
		}
		s.ByMachine[a.Machine][a.State]++
	}
	edges := map[stats.Edge]uint64{}
	for _, i := range h.Items {
		e := i.Event
		s.Outcomes[e.Outcome.String()]++
		if e.Outcome != domain.Applied || e.Kind != domain.KindSession && e.Kind != domain.KindMark {
			continue
		}
		s.Transitions.Total++
		if age := h.End/1e9 - e.At/1e9; age >= 0 && age < 60 {
			s.Transitions.LastMinute++
		}
		edges[stats.Edge{From: e.From, Trigger: e.Trigger, To: e.To}]++
		if e.To == "LOGGED_OUT" && e.From != "LOGGED_OUT" {
			s.LoggedOut.Total++
			s.LoggedOut.ByReason[e.Reason.Code]++
		}
	}
	for e, n := range edges {
		e.Count = n
		s.Transitions.Edges = append(s.Transitions.Edges, e)
	}
	slices.SortFunc(s.Transitions.Edges, func(a, b stats.Edge) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.From, b.From), cmp.Compare(a.Trigger, b.Trigger), cmp.Compare(a.To, b.To))
	})
	s.TimeToRunning = stats.TimeToRunning{Onboarding: episodesOf(h, "onboarding"), Recovery: episodesOf(h, "recovery")}
	return s
}

func episodesOf(h *projectiontest.History, kind string) stats.Episodes {
	f := projectiontest.FiguresOf(slices.DeleteFunc(h.Episodes(), func(e projectiontest.Episode) bool { return e.Kind != kind }))
	return stats.Episodes{
		Reached: f.Reached, Abandoned: f.Abandoned, Open: f.Open, Mean: f.Mean,
		Median: f.Median[0], P90: f.P90[0], P99: f.P99[0], MedianCI: [2]*float64{f.Median[1], f.Median[2]},
	}
}
