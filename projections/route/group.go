package route

import (
	"slices"
	"strings"

	"github.com/musterhq/muster/domain/machine"
)

// block is a condition that keeps an account from sending, in its scope.
type block struct{ name, scope string }

// group is accounts that may do the same.
type group struct {
	read, send, bulk bool
	scopes           []string // in these they may not send, sorted
	mixed            bool     // or in others: each one's conditions have to be looked at
	accounts         int
}

// maxGroups bounds the groups, since publishers may invent scopes without end.
// The number of a group is part of what the index is ordered by.
const maxGroups = 1 << groupBits

const (
	groupBits = 8
	// nowhere is the group of accounts that may do nothing. It is not indexed.
	nowhere = 0
)

// groupOf is the group of an account in a state with these conditions.
func groupOf(m *machine.Machine, state string, blocks []block) (g group) {
	if m == nil {
		return g
	}
	g.read, g.send, g.bulk = m.Can(state)
	for _, b := range blocks {
		if b.scope == "" {
			g.send, g.bulk = false, false
		}
	}
	if g.send || g.bulk {
		for _, b := range blocks {
			g.scopes = append(g.scopes, b.scope)
		}
		slices.Sort(g.scopes)
		g.scopes = slices.Compact(g.scopes)
	}
	return g
}

// key names the group.
func (g *group) key() string {
	var b strings.Builder
	for _, can := range []bool{g.read, g.send, g.bulk, g.mixed} {
		if can {
			b.WriteByte('1')
		} else {
			b.WriteByte('0')
		}
	}
	for _, s := range g.scopes {
		b.WriteByte(0)
		b.WriteString(s)
	}
	return b.String()
}

// may says whether the group's accounts may do what is wanted. Of a mixed one
// they may, as far as it is known.
func (g *group) may(w *Want) bool {
	switch w.Do {
	case machine.CanRead:
		return g.read
	case machine.CanSend:
		return g.send && (w.Scope == "" || !slices.Contains(g.scopes, w.Scope))
	case machine.CanBulk:
		return g.bulk && (w.Scope == "" && len(g.scopes) == 0 || w.Scope != "" && !slices.Contains(g.scopes, w.Scope))
	}
	return false
}

// number returns the number of a group.
func (s *shard) number(g group) uint8 {
	if !g.read && !g.send && !g.bulk {
		return nowhere
	}
	key := g.key()
	if n, ok := s.numbers[key]; ok {
		return n
	}
	if len(s.groups) >= maxGroups-8 { // the last ones are for what is mixed
		g.scopes, g.mixed = nil, true
		key = g.key()
		if n, ok := s.numbers[key]; ok {
			return n
		}
	}
	n := uint8(len(s.groups))
	g.scopes = slices.Clone(g.scopes)
	s.numbers[key] = n
	s.groups = append(s.groups, g)
	return n
}
