package stays

import (
	"cmp"
	"io"
	"sync"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/intern"
	"github.com/musterhq/muster/projections/internal/pages"
	"github.com/musterhq/muster/projections/internal/states"
	"github.com/musterhq/muster/projections/internal/wire"
)

// row is where one account is.
type row struct {
	since  int64
	state  uint16 // states.None: no event yet
	reason uint16
	gone   bool // forgotten
}

// shard is one partition's part of the view.
type shard struct {
	mu      sync.RWMutex
	seq     uint64
	states  *states.Table
	reasons *intern.Table
	rows    pages.List[row]
	lengths [][]uint32 // by state; nil: no stay has ended
}

func newShard(machines *machine.Registry) *shard {
	return &shard{states: states.New(machines), reasons: intern.New()}
}

func (s *shard) apply(at projections.Place, e *domain.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Seq <= s.seq {
		return
	}
	s.seq = at.Seq
	s.rows.Grow(int(at.Account)+1, row{})
	r := s.rows.At(at.Account)
	before := *r
	moved := e.Outcome == domain.Applied && (e.Kind == domain.KindSession || e.Kind == domain.KindMark)
	if r.state = s.states.Next(before.state, e); moved || before.state == states.None {
		r.since = e.At
	}
	if moved {
		r.reason = uint16(s.reasons.IDWithin(cmp.Or(e.Reason.Code, e.Trigger), MaxReasons, Other))
	}
	r.gone = e.Effects&domain.EffectForget != 0 || before.gone && e.Effects&domain.EffectRevive == 0
	if before.here() && !r.gone && r.state != before.state {
		s.end(before.state, time.Duration(e.At-before.since))
	}
}

// here says whether the account is counted.
func (r *row) here() bool { return r.state != states.None && !r.gone }

// end enters the length of a stay.
func (s *shard) end(state uint16, length time.Duration) {
	for len(s.lengths) <= int(state) {
		s.lengths = append(s.lengths, nil)
	}
	if s.lengths[state] == nil {
		s.lengths[state] = make([]uint32, buckets)
	}
	s.lengths[state][bucket(length)]++
}

func (s *shard) of(number uint32) (Stay, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if int(number) >= s.rows.Len() || !s.rows.At(number).here() {
		return Stay{}, false
	}
	r := s.rows.At(number)
	st := s.states.At(r.state)
	return Stay{Machine: st.Machine, State: st.Name, Since: r.since, Reason: s.reasons.Name(uint32(r.reason))}, true
}

// count looks at every account: nobody asks often, and each event would have to
// keep the counts.
func (s *shard) count(machine, state, reason string) (inState, forReason int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	number, ok := s.states.Find(machine, state)
	if !ok {
		return 0, 0
	}
	cause, known := s.reasons.Find(reason)
	for i := range uint32(s.rows.Len()) {
		r := s.rows.At(i)
		if r.state != number || r.gone {
			continue
		}
		inState++
		if known && uint32(r.reason) == cause {
			forReason++
		}
	}
	return inState, forReason
}

func (s *shard) addLengths(machine, state string, l *Lengths) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	number, ok := s.states.Find(machine, state)
	if !ok || int(number) >= len(s.lengths) || s.lengths[number] == nil {
		return
	}
	if l.buckets == nil {
		l.buckets = make([]uint32, buckets)
	}
	for i, n := range s.lengths[number] {
		l.buckets[i] += n
		l.N += int(n)
	}
}

func (s *shard) save(w io.Writer) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := wire.NewWriter(w)
	out.Uint(s.seq)
	s.states.Save(out)
	s.reasons.Save(out)
	out.Uint(uint64(s.rows.Len()))
	for i := range uint32(s.rows.Len()) {
		r := s.rows.At(i)
		out.Int(r.since)
		out.Uint(uint64(r.state))
		out.Uint(uint64(r.reason))
		out.Bool(r.gone)
	}
	out.Uint(uint64(len(s.lengths)))
	for _, list := range s.lengths {
		out.Bool(list != nil)
		for _, n := range list {
			out.Uint(uint64(n))
		}
	}
	return out.Flush()
}

// load fills an empty shard.
func (s *shard) load(src io.Reader) error {
	in := wire.NewReader(src)
	s.seq = in.Uint()
	s.states.Load(in)
	s.reasons.Load(in)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		r := row{since: in.Int(), state: uint16(in.Index(s.states.Len())), reason: uint16(in.Index(s.reasons.Len())), gone: in.Bool()}
		if in.Err() == nil {
			s.rows.Append(r)
		}
	}
	for n := in.Index(s.states.Len() + 1); n > 0 && in.Err() == nil; n-- {
		var list []uint32
		if in.Bool() {
			list = make([]uint32, buckets)
			for i := range list {
				list[i] = uint32(in.Uint())
			}
		}
		s.lengths = append(s.lengths, list)
	}
	return in.Err()
}
