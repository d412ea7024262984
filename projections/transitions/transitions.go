// Package transitions is the view that counts what happens in a fleet: how
// many changes of state, along which edges, how often per minute; what was
// rejected; why accounts were logged out; and which of them were lost how often in
// the last hour.
//
// It owns these counts. Authoritative is the history. A transition is an
// applied event that the account's machine judged, a session trigger or one of
// Muster's own; facts about messages, conversations and the account's settings
// are counted as outcomes only. Nothing in it can fail.
//
// Time is the events' own time (At). The number of edges and of reason codes
// that are told apart is bounded (see MaxEdges and MaxReasons); what goes
// beyond is counted as "other". So is the number of accounts whose losses are kept
// (see MaxLosses): some 150 bytes for each.
package transitions

import (
	"cmp"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/shards"
)

// The bounds of the view, for each partition.
const (
	MinutesKept = 24 * 60
	MaxEdges    = 1024
	MaxReasons  = 256
	// Other stands for what goes beyond the bounds.
	Other = "other"
)

// LoggedOut is the state whose causes are counted.
const LoggedOut = "LOGGED_OUT"

// set is the parts of the view, with what every view does with them.
type set = shards.Set[shard, *shard]

// View counts transitions. Make one with New.
type View struct {
	set
}

var _ projections.Renewer = (*View)(nil)

// New returns an empty view of a history of that many partitions.
func New(partitions int) *View {
	return &View{set: shards.New[shard](partitions, func(int) *shard { return newShard() })}
}

// Name is "transitions".
func (v *View) Name() string { return "transitions" }

// Version is the version of what the view's state means.
func (v *View) Version() int { return 2 }

// Renew returns an empty view of the same kind.
func (v *View) Renew() projections.View { return New(v.Partitions()) }

// Edge is a change of state by a trigger. To is "" for a rejected one.
type Edge struct {
	From, Trigger, To string
}

// compare orders edges by their names.
func compare(a, b Edge) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Trigger, b.Trigger), cmp.Compare(a.To, b.To))
}

// EdgeCount is how often an edge was taken.
type EdgeCount struct {
	Edge
	Count uint64
}

// Numbers are the view's counts at one time.
type Numbers struct {
	Total      uint64 // transitions
	LastMinute uint64 // of them, in the 60 seconds up to now
	Edges      []EdgeCount
	Rejected   []EdgeCount // by state and trigger

	LoggedOut uint64            // transitions into LOGGED_OUT
	ByReason  map[string]uint64 // of them, by reason code; "" = none was given

	Outcomes map[string]uint64 // all events by outcome: applied, noop, stale, rejected
}

// Numbers counts up to now (unix ns). Edges come most frequent first, then by
// name.
func (v *View) Numbers(now int64) Numbers {
	n := Numbers{ByReason: map[string]uint64{}, Outcomes: map[string]uint64{}}
	for _, o := range appended {
		n.Outcomes[o.String()] = 0
	}
	edges, rejected := map[Edge]uint64{}, map[Edge]uint64{}
	v.read(func(s *shard) {
		for _, o := range appended {
			n.Outcomes[o.String()] += s.outcomes[o]
		}
		s.edges.addTo(edges)
		s.rejected.addTo(rejected)
		n.LastMinute += s.lastMinute(now)
		for i, count := range s.reasonCounts {
			if count > 0 {
				n.ByReason[s.reasons.Name(uint32(i))] += count
				n.LoggedOut += count
			}
		}
	})
	n.Edges, n.Rejected = sorted(edges), sorted(rejected)
	for _, e := range n.Edges {
		n.Total += e.Count
	}
	return n
}

// appended are the outcomes that stand in a history.
var appended = [...]domain.Outcome{domain.Applied, domain.Noop, domain.Stale, domain.Rejected}

func sorted(counts map[Edge]uint64) []EdgeCount {
	list := make([]EdgeCount, 0, len(counts))
	for e, n := range counts {
		list = append(list, EdgeCount{e, n})
	}
	slices.SortFunc(list, func(a, b EdgeCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), compare(a.Edge, b.Edge))
	})
	return list
}

// PerMinute is how often each edge was taken, minute by minute.
type PerMinute struct {
	Start    int64 // unix ns: where the first minute begins
	Edges    []EdgeSeries
	Rejected []EdgeSeries
}

// EdgeSeries is the number of times an edge was taken in each minute.
type EdgeSeries struct {
	Edge
	Counts []uint64
}

// PerMinute tells the last minutes up to that of now (unix ns), at most
// MinutesKept of them. Edges not taken in that time are left out; the rest come
// by name.
func (v *View) PerMinute(now int64, minutes int) PerMinute {
	minutes = max(1, min(minutes, MinutesKept))
	to := now / int64(time.Minute)
	from := to - int64(minutes) + 1
	edges, rejected := map[Edge][]uint64{}, map[Edge][]uint64{}
	v.read(func(s *shard) {
		s.edges.addMinutes(edges, from, to)
		s.rejected.addMinutes(rejected, from, to)
	})
	return PerMinute{Start: from * int64(time.Minute), Edges: series(edges), Rejected: series(rejected)}
}

func series(counts map[Edge][]uint64) []EdgeSeries {
	list := make([]EdgeSeries, 0, len(counts))
	for e, n := range counts {
		list = append(list, EdgeSeries{e, n})
	}
	slices.SortFunc(list, func(a, b EdgeSeries) int { return compare(a.Edge, b.Edge) })
	return list
}

// Bytes is the memory that the counts by time hold, for capacity planning.
func (v *View) Bytes() (bytes int) {
	v.read(func(s *shard) { bytes += s.edges.minutes.Bytes() + s.rejected.minutes.Bytes() + s.seconds.Bytes() })
	return bytes
}

// read calls look with each shard, which Apply does not change meanwhile.
func (v *View) read(look func(*shard)) {
	for _, s := range v.Parts() {
		s.mu.RLock()
		look(s)
		s.mu.RUnlock()
	}
}
