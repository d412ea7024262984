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
	"github.com/musterhq/muster/projections/internal/lengths"
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
	lengths []lengths.Lengths  // by state: of the stays that have ended
	inState []int32            // accounts by state
	causes  map[causeKey]int32 // accounts by state and reason
}

func newShard(machines *machine.Registry) *shard {
	return &shard{states: states.New(machines), reasons: intern.New(), causes: map[causeKey]int32{}}
}

func (s *shard) Apply(at projections.Place, e *domain.Event) {
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
	if before != *r {
		s.enter(&before, -1)
		s.enter(r, +1)
	}
}

// here says whether the account is counted.
func (r *row) here() bool { return r.state != states.None && !r.gone }

// end enters the length of a stay.
func (s *shard) end(state uint16, length time.Duration) {
	for len(s.lengths) <= int(state) {
		s.lengths = append(s.lengths, lengths.Lengths{})
	}
	s.lengths[state].Add(length)
}

// causeKey is where accounts are and for which reason they came.
type causeKey struct{ state, reason uint16 }

// enter counts an account where it is.
func (s *shard) enter(r *row, d int32) {
	if !r.here() {
		return
	}
	bump(&s.inState, r.state, d)
	key := causeKey{r.state, r.reason}
	if s.causes[key] += d; s.causes[key] == 0 {
		delete(s.causes, key)
	}
}

func bump(counts *[]int32, number uint16, d int32) {
	for len(*counts) <= int(number) {
		*counts = append(*counts, 0)
	}
	(*counts)[number] += d
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

// count counts the accounts that are in a state, and those that came for a reason.
func (s *shard) count(machine, state, reason string) (inState, forReason int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	number, ok := s.states.Find(machine, state)
	if !ok || int(number) >= len(s.inState) {
		return 0, 0
	}
	if cause, known := s.reasons.Find(reason); known {
		forReason = int(s.causes[causeKey{number, uint16(cause)}])
	}
	return int(s.inState[number]), forReason
}

func (s *shard) addLengths(machine, state string, l *Lengths) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if number, ok := s.states.Find(machine, state); ok && int(number) < len(s.lengths) {
		l.Merge(&s.lengths[number])
	}
}

// each tells of every state in which an account is or was.
func (s *shard) each(tell func(machine, state string, now int, ended *Lengths)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for number := states.None + 1; number < s.states.Len(); number++ {
		var ended Lengths
		if number < len(s.lengths) {
			ended = s.lengths[number]
		}
		now := 0
		if number < len(s.inState) {
			now = int(s.inState[number])
		}
		if st := s.states.At(uint16(number)); now > 0 || ended.N > 0 {
			tell(st.Machine, st.Name, now, &ended)
		}
	}
}

func (s *shard) Save(w io.Writer) error {
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
	for i := range s.lengths {
		s.lengths[i].Save(out)
	}
	return out.Flush()
}

// load fills an empty shard.
func (s *shard) Load(src io.Reader) error {
	in := wire.NewReader(src)
	s.seq = in.Uint()
	s.states.Load(in)
	s.reasons.Load(in)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		r := row{since: in.Int(), state: uint16(in.Index(s.states.Len())), reason: uint16(in.Index(s.reasons.Len())), gone: in.Bool()}
		if in.Err() == nil {
			s.enter(s.rows.Append(r), +1)
		}
	}
	for n := in.Index(s.states.Len() + 1); n > 0 && in.Err() == nil; n-- {
		var l lengths.Lengths
		l.Load(in)
		s.lengths = append(s.lengths, l)
	}
	return in.Err()
}
