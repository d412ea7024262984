package accounts

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/internal/states"
	"github.com/musterhq/muster/projections/internal/turns"
	"github.com/musterhq/muster/projections/internal/wire"
)

func (s *shard) Save(w io.Writer) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := wire.NewWriter(w)
	out.Uint(s.seq)
	s.states.Save(out)
	s.labels.Save(out)
	s.sources.Save(out)
	s.words.Save(out)
	s.names.Save(out)
	out.Uint(uint64(s.rows.Len()))
	for i := range uint32(s.rows.Len()) {
		saveRow(out, s.rows.At(i))
	}
	s.saveMore(out)
	out.Uint(uint64(len(s.turns)))
	for _, number := range slices.Sorted(maps.Keys(s.turns)) {
		out.Uint(uint64(number))
		s.turns[number].Save(out)
	}
	return out.Flush()
}

func saveRow(out *wire.Writer, r *row) {
	out.Uint(uint64(r.state))
	out.Uint(uint64(r.flags &^ (flagMore | flagTurns)))
	out.Int(r.since)
	out.Uint(uint64(r.version))
	out.Uint(uint64(r.source))
	out.Uint(uint64(r.labels))
	out.Uint(uint64(r.mode))
	out.Uint(uint64(r.desired))
}

func (s *shard) saveMore(out *wire.Writer) {
	out.Uint(uint64(len(s.more)))
	for _, number := range slices.Sorted(maps.Keys(s.more)) {
		out.Uint(uint64(number))
		out.Uint(uint64(len(s.more[number])))
		for _, c := range s.more[number] {
			out.Uint(uint64(s.names.ID(c.Name)))
			out.Uint(uint64(s.names.ID(c.Scope)))
			out.Int(c.Since)
			out.Int(c.Until)
			out.Uint(uint64(s.names.ID(c.Reason)))
		}
	}
}

// errShape is a saved state whose parts do not fit together.
var errShape = errors.New("the saved accounts do not fit together")

// load fills an empty shard and builds the indexes again.
func (s *shard) Load(src io.Reader) error {
	in := wire.NewReader(src)
	s.seq = in.Uint()
	s.states.Load(in)
	s.labels.Load(in)
	s.sources.Load(in)
	s.words.Load(in)
	s.names.Load(in)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		s.rows.Append(s.loadRow(in))
	}
	if s.rows.Len() > s.ids.Len() {
		in.Fail(errShape)
	}
	s.loadMore(in)
	s.loadTurns(in)
	if in.Err() == nil {
		s.index()
	}
	return in.Err()
}

func (s *shard) loadRow(in *wire.Reader) row {
	return row{
		state:   uint16(in.Index(s.states.Len())),
		flags:   uint8(in.Index(1<<8)) &^ (flagMore | flagTurns),
		since:   in.Int(),
		version: uint32(in.Uint()),
		source:  in.Index(s.sources.Len()),
		labels:  in.Index(s.labels.Len()),
		mode:    uint8(in.Index(s.words.Len())),
		desired: uint8(in.Index(s.words.Len())),
	}
}

func (s *shard) loadMore(in *wire.Reader) {
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		number := in.Index(s.rows.Len())
		var conditions []domain.Condition
		for c := in.Len(); c > 0 && in.Err() == nil; c-- {
			conditions = append(conditions, domain.Condition{
				Name:   s.names.Name(in.Index(s.names.Len())),
				Scope:  s.names.Name(in.Index(s.names.Len())),
				Since:  in.Int(),
				Until:  in.Int(),
				Reason: s.names.Name(in.Index(s.names.Len())),
			})
		}
		if in.Err() == nil {
			s.more[number] = conditions
			r := s.rows.At(number)
			r.flags |= flagMore
			r.conds = s.condsOf(conditions)
		}
	}
}

func (s *shard) loadTurns(in *wire.Reader) {
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		number := in.Index(s.rows.Len())
		t := &turns.Turns{}
		t.Load(in)
		if in.Err() == nil && !t.Empty() {
			s.turns[number] = t
			s.rows.At(number).flags |= flagTurns
		}
	}
}

// index enters all accounts into the indexes.
func (s *shard) index() {
	for i := range uint32(s.rows.Len()) {
		r := s.rows.At(i)
		if r.state != states.None {
			r.needs = s.needsOf(i, r)
		}
		s.reindex(i, &row{}, r)
	}
}
