package accounts

import (
	"slices"
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections/internal/intern"
	"github.com/musterhq/muster/projections/internal/turns"
)

// maxSets bounds the sets of kinds of attention, and those of conditions, that are
// told apart; what goes beyond is one set of the kind "other". A fleet has some dozens.
const maxSets = 1<<16 - 1

// kindSep stands between the kinds, or names, of a set: none holds it.
const kindSep = "\x00"

// ask is what a state asks a human for.
type ask struct {
	kind     string
	ifWanted bool // only while it is to run
}

// asksOf is what a state asks for.
func (s *shard) asksOf(state uint16) ask {
	for len(s.asks) <= int(state) {
		st := s.states.At(uint16(len(s.asks)))
		var a ask
		if m, ok := s.machines.Get(st.Machine); ok {
			found, _ := m.State(st.Name)
			a = ask{kind: found.Attention, ifWanted: found.IfWanted}
		}
		s.asks = append(s.asks, a)
	}
	return s.asks[state]
}

// needsOf is the number of the set of kinds of attention that an account asks
// for, by the rules of domain.Judge.Attention.
func (s *shard) needsOf(number uint32, r *row) uint16 {
	kinds := s.kinds[:0]
	add := func(kind string) {
		if kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	wanted := s.words.Name(uint32(r.desired)) == domain.DesiredRun
	if a := s.asksOf(r.state); wanted || !a.ifWanted {
		add(a.kind)
	}
	if wanted && r.flags&flagAsksLogin != 0 && s.knows(r.state) {
		add(machine.LoginNeeded)
	}
	if r.flags&flagMore != 0 {
		for _, c := range s.more[number] {
			if meaning, ok := machine.ConditionNamed(c.Name); ok && meaning.Attention {
				add(meaning.Name)
			}
		}
	}
	if r.flags&flagTurns != 0 && s.turns[number].Unanswered() {
		add(domain.AttentionNobodyAnswering)
	}
	if r.flags&flagDamaged != 0 {
		add(domain.AttentionDamaged)
	}
	slices.Sort(kinds)
	s.kinds = kinds
	return s.setOf(s.needs)
}

// condsOf is the number of the set of names of conditions, which are sorted by
// name. An account may have several of one name.
func (s *shard) condsOf(conditions []domain.Condition) uint16 {
	kinds := s.kinds[:0]
	for i := range conditions {
		if name := conditions[i].Name; len(kinds) == 0 || kinds[len(kinds)-1] != name {
			kinds = append(kinds, name)
		}
	}
	s.kinds = kinds
	return s.setOf(s.conds)
}

// setOf is the number of the set of texts in kinds.
func (s *shard) setOf(sets *intern.Table) uint16 {
	s.set = s.set[:0]
	for i, kind := range s.kinds {
		if i > 0 {
			s.set = append(s.set, kindSep...)
		}
		s.set = append(s.set, kind...)
	}
	return uint16(sets.BytesWithin(s.set, maxSets, "other"))
}

// knows says whether the registry has the machine of a state.
func (s *shard) knows(state uint16) bool {
	_, ok := s.machines.Get(s.states.At(state).Machine)
	return ok
}

// textsOf are the kinds, or names, of a set.
func textsOf(sets *intern.Table, number int) []string {
	if number == 0 {
		return nil
	}
	return strings.Split(sets.Name(uint32(number)), kindSep)
}

// speak keeps the customers' open turns and says whether what the account asks
// for may have changed.
func (s *shard) speak(number uint32, r *row, e *domain.Event) (changed bool) {
	if turns.Opens(e) && r.flags&flagTurns == 0 {
		r.flags |= flagTurns
		s.turns[number] = &turns.Turns{}
	}
	if r.flags&flagTurns == 0 {
		return false
	}
	t := s.turns[number]
	changed = t.Apply(e)
	if t.Empty() {
		delete(s.turns, number)
		r.flags &^= flagTurns
	}
	return changed
}
