package attention

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/musterhq/muster/projections/internal/wire"
)

// errShape is a saved state whose parts do not fit together.
var errShape = errors.New("the saved items do not fit together")

func (s *shard) Save(w io.Writer) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := wire.NewWriter(w)
	out.Uint(s.seq)
	out.Int(s.now)
	s.states.Save(out)
	s.labels.Save(out)
	s.sources.Save(out)
	s.kinds.Save(out)
	s.reasons.Save(out)
	out.Uint(uint64(s.rows.Len()))
	for i := range uint32(s.rows.Len()) {
		r := s.rows.At(i)
		out.Uint(uint64(r.labels))
		out.Uint(uint64(r.source))
		out.Uint(uint64(r.state))
		out.Uint(uint64(r.flags &^ flagMore))
	}
	out.Uint(uint64(len(s.more)))
	for _, number := range slices.Sorted(maps.Keys(s.more)) {
		out.Uint(uint64(number))
		s.more[number].save(out)
	}
	return out.Flush()
}

func (m *more) save(out *wire.Writer) {
	out.Uint(uint64(len(m.conditions)))
	for _, c := range m.conditions {
		out.String(c.name)
		out.String(c.scope)
		out.String(c.reason)
		out.Int(c.since)
	}
	m.talks.Save(out)
	out.Uint(uint64(len(m.items)))
	for _, i := range m.items {
		out.Int(i.since)
		out.Uint(uint64(i.kind))
		out.Uint(uint64(i.reason))
		out.Uint(uint64(i.source))
	}
}

// load fills an empty shard; its items are grouped when somebody asks.
func (s *shard) Load(src io.Reader) error {
	in := wire.NewReader(src)
	s.seq, s.now = in.Uint(), in.Int()
	s.states.Load(in)
	s.labels.Load(in)
	s.sources.Load(in)
	s.kinds.Load(in)
	s.reasons.Load(in)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		s.rows.Append(row{
			labels: in.Index(s.labels.Len()), source: in.Index(s.sources.Len()), state: uint16(in.Index(s.states.Len())),
			flags: uint8(in.Index(1<<8)) &^ flagMore,
		})
	}
	if s.rows.Len() > s.ids.Len() {
		in.Fail(errShape)
	}
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		number := in.Index(s.rows.Len())
		if in.Err() == nil && s.rows.At(number).flags&flagMore != 0 {
			in.Fail(errShape) // one account twice
		}
		if in.Err() != nil {
			break
		}
		s.loadMore(in, s.extra(number, s.rows.At(number)))
	}
	return in.Err()
}

func (s *shard) loadMore(in *wire.Reader, m *more) {
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		m.conditions = append(m.conditions, condition{s.text(in.String()), s.text(in.String()), s.reason(in.String()), in.Int()})
	}
	m.talks.Load(in)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		i := item{since: in.Int(), kind: in.Index(s.kinds.Len()), reason: in.Index(s.reasons.Len()), source: in.Index(s.sources.Len())}
		if slices.ContainsFunc(m.items, func(o item) bool { return o.kind == i.kind }) {
			in.Fail(errShape)
		}
		m.items = append(m.items, i)
	}
}
