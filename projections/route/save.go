package route

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/musterhq/muster/projections/internal/states"
	"github.com/musterhq/muster/projections/internal/wire"
)

// errShape is a saved state whose parts do not fit together.
var errShape = errors.New("the saved candidates do not fit together")

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
		out.Int(r.since)
		out.Int(r.used)
		out.Uint(uint64(r.labels))
		out.Uint(uint64(r.state))
		out.Bool(r.gone)
	}
	out.Uint(uint64(len(s.blocks)))
	for _, number := range slices.Sorted(maps.Keys(s.blocks)) {
		out.Uint(uint64(number))
		out.Uint(uint64(len(s.blocks[number])))
		for _, b := range s.blocks[number] {
			out.String(b.name)
			out.String(b.scope)
		}
	}
	return out.Flush()
}

// load fills an empty shard; the groups are found anew, the index when it is
// asked for.
func (s *shard) Load(src io.Reader) error {
	in := wire.NewReader(src)
	s.seq = in.Uint()
	s.states.Load(in)
	s.labels.Load(in)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		s.rows.Append(row{
			since: in.Int(), used: in.Int(), labels: in.Index(s.labels.Len()), state: uint16(in.Index(s.states.Len())), gone: in.Bool(),
		})
	}
	if s.rows.Len() > s.ids.Len() {
		in.Fail(errShape)
	}
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		number := in.Index(s.rows.Len())
		for k := in.Len(); k > 0 && in.Err() == nil; k-- {
			s.blocks[number] = append(s.blocks[number], block{s.name(in.String()), s.name(in.String())})
		}
	}
	if in.Err() != nil {
		return in.Err()
	}
	for i := range uint32(s.rows.Len()) {
		if r := s.rows.At(i); r.state != states.None {
			r.group = s.groupOf(i, r)
			s.enter(i, r, +1)
		}
	}
	return nil
}
