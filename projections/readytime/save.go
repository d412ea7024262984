package readytime

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/musterhq/muster/projections/internal/wire"
)

// errShape is a saved state whose parts do not fit together.
var errShape = errors.New("the saved episodes do not fit together")

func (s *shard) Save(w io.Writer) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := wire.NewWriter(w)
	out.Uint(s.seq)
	s.states.Save(out)
	s.labels.Save(out)
	s.sources.Save(out)
	s.reasons.Save(out)
	out.Uint(uint64(s.rows.Len()))
	for i := range uint32(s.rows.Len()) {
		r := s.rows.At(i)
		out.Uint(uint64(r.state))
		out.Uint(uint64(r.source))
		out.Bool(r.onboarded)
		out.Uint(uint64(r.labels))
	}
	out.Uint(uint64(len(s.open)))
	for _, ep := range s.open {
		out.Int(ep.since)
		out.Uint(uint64(ep.account))
		out.Uint(uint64(ep.reason))
		out.Uint(uint64(ep.kind))
	}
	s.saveGroups(out)
	s.saveBegan(out)
	return out.Flush()
}

func (s *shard) saveGroups(out *wire.Writer) {
	keys := slices.SortedFunc(maps.Keys(s.groups), func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.by, b.by), cmp.Compare(a.name, b.name))
	})
	out.Uint(uint64(len(keys)))
	for _, key := range keys {
		out.Uint(uint64(key.kind))
		out.Uint(uint64(key.by))
		out.String(key.name)
		s.groups[key].reached.save(out)
		s.groups[key].abandoned.save(out)
	}
}

// load fills an empty shard.
func (s *shard) Load(src io.Reader) error {
	in := wire.NewReader(src)
	s.seq = in.Uint()
	s.states.Load(in)
	s.labels.Load(in)
	s.sources.Load(in)
	s.reasons.Load(in)
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		s.rows.Append(row{
			state:     uint16(in.Index(s.states.Len())),
			source:    uint16(in.Index(s.sources.Len())),
			onboarded: in.Bool(),
			labels:    in.Index(s.labels.Len()),
		})
	}
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		ep := open{
			since:   in.Int(),
			account: in.Index(s.rows.Len()),
			reason:  uint16(in.Index(s.reasons.Len())),
			kind:    Kind(in.Index(int(Recovery) + 1)),
		}
		if in.Err() != nil {
			break
		}
		s.open = append(s.open, ep)
		if r := s.rows.At(ep.account); r.open == 0 {
			r.open = uint32(len(s.open))
		} else {
			in.Fail(errShape)
		}
	}
	s.loadGroups(in)
	s.loadBegan(in)
	return in.Err()
}

func (s *shard) loadGroups(in *wire.Reader) {
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		key := groupKey{kind: Kind(in.Uint()), by: Dimension(in.Uint()), name: in.String()}
		g := &group{}
		g.reached.load(in)
		g.abandoned.load(in)
		s.groups[key] = g
		s.members[key.by]++
	}
}
