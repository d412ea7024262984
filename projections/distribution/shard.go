package distribution

import (
	"io"
	"sync"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/intern"
	"github.com/musterhq/muster/projections/internal/pages"
	"github.com/musterhq/muster/projections/internal/ring"
	"github.com/musterhq/muster/projections/internal/states"
	"github.com/musterhq/muster/projections/internal/wire"
)

// row is what the view knows of one account.
type row struct {
	state  uint16 // states.None: no event yet
	gone   bool   // forgotten: not counted
	labels uint32
	minute uint32 // since 1970: when it was last counted anew
}

func (r row) counted() bool { return r.state != states.None && !r.gone }

// shard is one partition's part of the view.
type shard struct {
	mu     sync.RWMutex
	seq    uint64
	states *states.Table
	labels *intern.Labels
	rows   pages.List[row]

	now     []int64   // accounts by state
	byLabel [][]int32 // accounts by set of labels and state; the set without labels is left out
	minutes *ring.Ring
	hours   *ring.Ring
}

func newShard(machines *machine.Registry) *shard {
	return &shard{
		states:  states.New(machines),
		labels:  intern.NewLabels(),
		minutes: ring.New(int64(time.Minute), MinutesKept),
		hours:   ring.New(int64(time.Hour), HoursKept),
	}
}

func (s *shard) Apply(at projections.Place, e *domain.Event) {
	if s.indifferent(at, e) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Seq <= s.seq {
		return
	}
	s.seq = at.Seq
	s.rows.Grow(int(at.Account)+1, row{})
	r := s.rows.At(at.Account)
	before := *r
	r.state = s.states.Next(r.state, e)
	if labels, given := states.Labels(e, before.state == states.None); given {
		r.labels = s.labels.ID(labels)
	}
	if e.Effects&domain.EffectForget != 0 {
		r.gone = true
	}
	if e.Effects&domain.EffectRevive != 0 {
		r.gone = false
	}
	if r.state == before.state && r.gone == before.gone && r.labels == before.labels {
		return
	}
	r.minute = max(r.minute, minuteOf(e.At))
	when := int64(r.minute) * int64(time.Minute)
	if before.counted() {
		s.count(before, when, -1)
	}
	if r.counted() {
		s.count(*r, when, +1)
	}
}

// indifferent says whether an event of an account that is known cannot change
// the view: most events are such, about messages and conversations. It looks
// without a lock, since nobody but apply changes a row.
func (s *shard) indifferent(at projections.Place, e *domain.Event) bool {
	about := e.Kind == domain.KindMessage || e.Kind == domain.KindConversation
	return about && e.Effects&(domain.EffectForget|domain.EffectRevive) == 0 &&
		int(at.Account) < s.rows.Len() && s.rows.At(at.Account).state != states.None
}

// minuteOf is the minute since 1970; what is older belongs to the first.
func minuteOf(at int64) uint32 { return uint32(max(0, at/int64(time.Minute))) }

// count enters an account at a time into the counts, or takes it out.
func (s *shard) count(r row, when int64, d int32) {
	s.minutes.Add(when, int(r.state), d)
	s.hours.Add(when, int(r.state), d)
	s.tally(r, d)
}

// tally is count without the history.
func (s *shard) tally(r row, d int32) {
	if n := s.states.Len(); len(s.now) < n {
		s.now = append(s.now, make([]int64, n-len(s.now))...)
	}
	s.now[r.state] += int64(d)
	if r.labels == 0 {
		return
	}
	for len(s.byLabel) < s.labels.Len() {
		s.byLabel = append(s.byLabel, nil)
	}
	cells := s.byLabel[r.labels]
	if n := s.states.Len(); len(cells) < n {
		cells = append(cells, make([]int32, n-len(cells))...)
		s.byLabel[r.labels] = cells
	}
	cells[r.state] += d
}

func (s *shard) Save(w io.Writer) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := wire.NewWriter(w)
	out.Uint(s.seq)
	s.states.Save(out)
	s.labels.Save(out)
	out.Uint(uint64(s.rows.Len()))
	for i := range uint32(s.rows.Len()) {
		r := s.rows.At(i)
		out.Uint(uint64(r.state))
		out.Bool(r.gone)
		out.Uint(uint64(r.labels))
		out.Uint(uint64(r.minute))
	}
	s.minutes.Save(out)
	s.hours.Save(out)
	return out.Flush()
}

// load fills an empty shard; what is counted is counted again from the rows.
func (s *shard) Load(src io.Reader) error {
	in := wire.NewReader(src)
	s.seq = in.Uint()
	s.states.Load(in)
	s.labels.Load(in)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		r := row{
			state:  uint16(in.Index(s.states.Len())),
			gone:   in.Bool(),
			labels: in.Index(s.labels.Len()),
			minute: uint32(in.Uint()),
		}
		if in.Err() == nil {
			s.rows.Append(r)
			if r.counted() {
				s.tally(r, +1)
			}
		}
	}
	s.minutes.Load(in)
	s.hours.Load(in)
	return in.Err()
}
