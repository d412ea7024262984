package transitions

import (
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/intern"
	"github.com/musterhq/muster/projections/internal/ring"
	"github.com/musterhq/muster/projections/internal/wire"
)

// secondsKept holds the last minute of a clock that is up to five minutes
// behind the newest event: the judge lets an event's time be that far ahead.
const secondsKept = 512

// shard is one partition's part of the view.
type shard struct {
	mu           sync.RWMutex
	seq          uint64
	outcomes     [domain.Rejected + 1]uint64
	edges        *edges
	rejected     *edges
	seconds      *ring.Ring // transitions, one column
	reasons      *intern.Table
	reasonCounts []uint64
	losses       losses
}

func newShard() *shard {
	return &shard{
		edges:    newEdges(),
		rejected: newEdges(),
		seconds:  ring.New(int64(time.Second), secondsKept),
		reasons:  intern.New(),
		losses:   losses{times: map[uint32][]int64{}},
	}
}

func (s *shard) Apply(at projections.Place, e *domain.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Seq <= s.seq {
		return
	}
	s.seq = at.Seq
	if e.Outcome.Appended() {
		s.outcomes[e.Outcome]++
	}
	switch {
	case e.Outcome == domain.Rejected:
		s.rejected.count(Edge{From: e.From, Trigger: e.Trigger}, e.At)
	case e.Outcome == domain.Applied && (e.Kind == domain.KindSession || e.Kind == domain.KindMark):
		s.edges.count(Edge{From: e.From, Trigger: e.Trigger, To: e.To}, e.At)
		s.seconds.Add(e.At, 0, 1)
		if e.To == LoggedOut && e.From != LoggedOut {
			s.countReason(e.Reason.Code)
		}
		if e.To == Disconnected && e.From != Disconnected {
			s.losses.add(at.Account, e.At)
		}
	}
}

func (s *shard) countReason(code string) {
	id := int(s.reasons.IDWithin(code, MaxReasons, Other))
	for len(s.reasonCounts) <= id {
		s.reasonCounts = append(s.reasonCounts, 0)
	}
	s.reasonCounts[id]++
}

// lastMinute is the number of transitions in the minute that ends with the
// second of now.
func (s *shard) lastMinute(now int64) (n uint64) {
	to := s.seconds.Bucket(now)
	for b := to - 59; b <= to; b++ {
		n += uint64(s.seconds.Get(b, 0))
	}
	return n
}

func (s *shard) Save(w io.Writer) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := wire.NewWriter(w)
	out.Uint(s.seq)
	for _, n := range s.outcomes {
		out.Uint(n)
	}
	s.edges.save(out)
	s.rejected.save(out)
	s.seconds.Save(out)
	s.reasons.Save(out)
	out.Uint(uint64(len(s.reasonCounts)))
	for _, n := range s.reasonCounts {
		out.Uint(n)
	}
	s.losses.save(out)
	return out.Flush()
}

// load fills an empty shard.
func (s *shard) Load(src io.Reader) error {
	in := wire.NewReader(src)
	s.seq = in.Uint()
	for i := range s.outcomes {
		s.outcomes[i] = in.Uint()
	}
	s.edges.load(in)
	s.rejected.load(in)
	s.seconds.Load(in)
	s.reasons.Load(in)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		s.reasonCounts = append(s.reasonCounts, in.Uint())
	}
	if len(s.reasonCounts) > s.reasons.Len() {
		in.Fail(errShape)
	}
	s.losses.load(in)
	return in.Err()
}

// edges counts by edge, in all and by minute. An edge's number is its column
// in the ring; number 0 is Other.
type edges struct {
	numbers map[Edge]int
	list    []Edge
	totals  []uint64
	minutes *ring.Ring
}

var otherEdge = Edge{From: Other, Trigger: Other, To: Other}

func newEdges() *edges {
	return &edges{
		numbers: map[Edge]int{otherEdge: 0},
		list:    []Edge{otherEdge},
		totals:  []uint64{0},
		minutes: ring.New(int64(time.Minute), MinutesKept),
	}
}

func (c *edges) count(e Edge, at int64) {
	n := c.number(e)
	c.totals[n]++
	c.minutes.Add(at, n, 1)
}

// number returns an edge's number and gives it one while there is room.
func (c *edges) number(e Edge) int {
	n, ok := c.numbers[e]
	if ok || len(c.list) == MaxEdges {
		return n
	}
	e = Edge{From: strings.Clone(e.From), Trigger: strings.Clone(e.Trigger), To: strings.Clone(e.To)}
	n = len(c.list)
	c.numbers[e] = n
	c.list = append(c.list, e)
	c.totals = append(c.totals, 0)
	return n
}

func (c *edges) addTo(counts map[Edge]uint64) {
	for i, n := range c.totals {
		if n > 0 {
			counts[c.list[i]] += n
		}
	}
}

func (c *edges) addMinutes(counts map[Edge][]uint64, from, to int64) {
	for i, e := range c.list {
		sum := counts[e]
		for b := from; b <= to; b++ {
			n := c.minutes.Get(b, i)
			if n == 0 {
				continue
			}
			if sum == nil {
				sum = make([]uint64, to-from+1)
				counts[e] = sum
			}
			sum[b-from] += uint64(n)
		}
	}
}

func (c *edges) save(out *wire.Writer) {
	out.Uint(uint64(len(c.list) - 1))
	for _, e := range c.list[1:] {
		out.String(e.From)
		out.String(e.Trigger)
		out.String(e.To)
	}
	for _, n := range c.totals {
		out.Uint(n)
	}
	c.minutes.Save(out)
}

func (c *edges) load(in *wire.Reader) {
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		c.number(Edge{From: in.String(), Trigger: in.String(), To: in.String()})
	}
	for i := range c.totals {
		c.totals[i] = in.Uint()
	}
	c.minutes.Load(in)
	if c.minutes.Columns() > len(c.list) {
		in.Fail(errShape)
	}
}

// errShape is a saved state whose parts do not fit together.
var errShape = errors.New("the saved counts do not fit together")
