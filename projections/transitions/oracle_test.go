package transitions_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/transitions"
)

// spans are how many minutes are asked for; the last are more than are kept.
var spans = []int{1, 5, 60, 200, transitions.MinutesKept, 2 * transitions.MinutesKept}

// clocks are the times of which is asked: the end, and a clock that is behind it.
var clocks = []time.Duration{0, 30 * time.Second, 4 * time.Minute}

func answers(h *projectiontest.History, v projections.View) any {
	tr := v.(*transitions.View)
	told := map[string]any{}
	for _, ago := range clocks {
		told[fmt.Sprint("numbers ", ago)] = tr.Numbers(h.End - int64(ago))
	}
	for _, minutes := range spans {
		told[fmt.Sprint("minutes ", minutes)] = short(tr.PerMinute(h.End, minutes))
	}
	for _, window := range lossWindows {
		for _, least := range []int{1, 2, 5} {
			list, whole := tr.Losses(h.End, window, least, 4)
			told[fmt.Sprint("lost ", least, " times in ", window)] = []any{list, whole}
		}
	}
	return told
}

// short tells counts by minute in fewer lines: those that are not 0.
func short(p transitions.PerMinute) any {
	tell := func(list []transitions.EdgeSeries) (lines []string) {
		for _, e := range list {
			line := fmt.Sprint(e.Edge, len(e.Counts))
			for i, n := range e.Counts {
				if n > 0 {
					line += fmt.Sprint(" ", i, ":", n)
				}
			}
			lines = append(lines, line)
		}
		return lines
	}
	return []any{p.Start, tell(p.Edges), tell(p.Rejected)}
}

// want counts the events, one by one.
func want(h *projectiontest.History) any {
	told := map[string]any{}
	for _, ago := range clocks {
		told[fmt.Sprint("numbers ", ago)] = numbersOf(h, h.End-int64(ago))
	}
	for _, minutes := range spans {
		told[fmt.Sprint("minutes ", minutes)] = short(perMinuteOf(h, min(minutes, transitions.MinutesKept)))
	}
	for _, window := range lossWindows {
		for _, least := range []int{1, 2, 5} {
			told[fmt.Sprint("lost ", least, " times in ", window)] = []any{lossesOf(h, min(window, time.Hour), least, 4), true}
		}
	}
	return told
}

// lossWindows are the windows that are asked for; the last is longer than what is kept.
var lossWindows = []time.Duration{time.Second, 10 * time.Minute, time.Hour, 3 * time.Hour}

// lossesOf counts the moves into DISCONNECTED of each account, event by event.
func lossesOf(h *projectiontest.History, window time.Duration, least, most int) []transitions.Loss {
	counts := map[[2]uint32]*transitions.Loss{}
	for _, i := range h.Items {
		e := i.Event
		if _, taken, _ := edgeOf(e); !taken || e.To != "DISCONNECTED" || e.From == "DISCONNECTED" || e.At <= h.End-int64(window) {
			continue
		}
		key := [2]uint32{uint32(i.At.Partition), i.At.Account}
		if counts[key] == nil {
			counts[key] = &transitions.Loss{Partition: i.At.Partition, Account: i.At.Account}
		}
		counts[key].Times++
		counts[key].Last = max(counts[key].Last, e.At)
	}
	var list []transitions.Loss
	for _, l := range counts {
		if l.Times >= least {
			list = append(list, *l)
		}
	}
	slices.SortFunc(list, func(a, b transitions.Loss) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Account, b.Account))
	})
	return list[:min(most, len(list))]
}

// edgeOf is the edge that an event took, or at which it was rejected.
func edgeOf(e *domain.Event) (edge transitions.Edge, taken, rejected bool) {
	edge = transitions.Edge{From: e.From, Trigger: e.Trigger, To: e.To}
	about := e.Kind == domain.KindMessage || e.Kind == domain.KindConversation || e.Kind == domain.KindAccount
	taken, rejected = e.Outcome == domain.Applied && !about, e.Outcome == domain.Rejected
	if rejected {
		edge.To = ""
	}
	return edge, taken, rejected
}

func numbersOf(h *projectiontest.History, now int64) transitions.Numbers {
	n := transitions.Numbers{ByReason: map[string]uint64{}, Outcomes: map[string]uint64{"applied": 0, "noop": 0, "stale": 0, "rejected": 0}}
	edges, refused := map[transitions.Edge]uint64{}, map[transitions.Edge]uint64{}
	for _, i := range h.Items {
		e := i.Event
		n.Outcomes[e.Outcome.String()]++
		edge, taken, rejected := edgeOf(e)
		if rejected {
			refused[edge]++
		}
		if !taken {
			continue
		}
		n.Total++
		edges[edge]++
		if age := now/1e9 - e.At/1e9; age >= 0 && age < 60 {
			n.LastMinute++
		}
		if e.To == "LOGGED_OUT" && e.From != "LOGGED_OUT" {
			n.LoggedOut++
			n.ByReason[e.Reason.Code]++
		}
	}
	n.Edges, n.Rejected = mostFirst(edges), mostFirst(refused)
	return n
}

func byName(a, b transitions.Edge) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Trigger, b.Trigger), cmp.Compare(a.To, b.To))
}

func mostFirst(counts map[transitions.Edge]uint64) []transitions.EdgeCount {
	list := []transitions.EdgeCount{}
	for e, n := range counts {
		list = append(list, transitions.EdgeCount{Edge: e, Count: n})
	}
	slices.SortFunc(list, func(a, b transitions.EdgeCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), byName(a.Edge, b.Edge))
	})
	return list
}

// perMinuteOf counts by minute. A partition keeps a day up to the newest time that
// it has seen on an edge, or at one that was refused.
func perMinuteOf(h *projectiontest.History, minutes int) transitions.PerMinute {
	to := h.End / int64(time.Minute)
	from := to - int64(minutes) + 1
	edges, refused := map[transitions.Edge][]uint64{}, map[transitions.Edge][]uint64{}
	for _, i := range h.Items {
		edge, taken, rejected := edgeOf(i.Event)
		minute := i.Event.At / int64(time.Minute)
		if minute < from || minute > to {
			continue
		}
		for _, c := range []struct {
			is     bool
			counts map[transitions.Edge][]uint64
		}{{taken, edges}, {rejected, refused}} {
			if !c.is {
				continue
			}
			if c.counts[edge] == nil {
				c.counts[edge] = make([]uint64, minutes)
			}
			c.counts[edge][minute-from]++
		}
	}
	return transitions.PerMinute{Start: from * int64(time.Minute), Edges: seriesOf(edges), Rejected: seriesOf(refused)}
}

func seriesOf(counts map[transitions.Edge][]uint64) (list []transitions.EdgeSeries) {
	for e, n := range counts {
		list = append(list, transitions.EdgeSeries{Edge: e, Counts: n})
	}
	slices.SortFunc(list, func(a, b transitions.EdgeSeries) int { return byName(a.Edge, b.Edge) })
	return list
}
