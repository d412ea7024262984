// Package states numbers the states that the accounts of a partition are in,
// each together with its machine and class, and holds the rule by which an
// event moves an account from one to the next.
//
// The rule is that of domain.Evolve, reduced to machine and state: a view that
// counts accounts must count them where the fold has them. It cannot fail: a
// state that the registry does not know has no class. It is not safe for use by
// several goroutines.
package states

import (
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections/internal/wire"
)

// State is one state of one machine.
type State struct {
	Machine string
	Name    string
	Class   string // "" when the registry does not know the state

	next []uint16 // the states of the machine that accounts went to from here
}

// None is the number of the state of an account that has no events.
const None = 0

// maxStates is the number of states that a table holds; what goes beyond is counted
// as the last one. The machines of a fleet have some dozens together.
const maxStates = 1 << 16

// Table is the numbered states of a partition.
type Table struct {
	machines *machine.Registry
	states   []State
	numbers  map[string]map[string]uint16 // by machine and name
}

// New returns a table that holds None only.
func New(machines *machine.Registry) *Table {
	return &Table{machines: machines, states: make([]State, 1), numbers: map[string]map[string]uint16{}}
}

// At returns the state with this number.
func (t *Table) At(number uint16) *State { return &t.states[number] }

// Len is the number of states, None included.
func (t *Table) Len() int { return len(t.states) }

// Next returns the state in which e leaves an account that was in current.
func (t *Table) Next(current uint16, e *domain.Event) uint16 {
	s := &t.states[current]
	machine, name := s.Machine, s.Name
	if current == None {
		machine, name = e.Machine, e.Initial
	}
	if e.Outcome == domain.Applied && (e.Kind == domain.KindSession || e.Kind == domain.KindMark) {
		name = e.To
	}
	if current == None {
		return t.Number(machine, name)
	}
	return t.Move(current, name)
}

// Move returns the number of another state of the machine of current, by its
// name. From one state only a few are ever gone to, so they are compared one
// by one before the table is asked.
func (t *Table) Move(current uint16, name string) uint16 {
	s := &t.states[current]
	if name == s.Name {
		return current
	}
	for _, n := range s.next {
		if t.states[n].Name == name {
			return n
		}
	}
	machine := s.Machine
	n := t.Number(machine, name)
	t.states[current].next = append(t.states[current].next, n)
	return n
}

// Labels returns the labels that e gives to an account; ok is false when it
// leaves them as they are. first says that e is the account's first event: it
// registers the account with labels, and may itself be a set_labels.
func Labels(e *domain.Event, first bool) (labels map[string]string, ok bool) {
	if e.Kind != domain.KindAccount || e.Outcome != domain.Applied || e.Trigger != "set_labels" {
		return e.Labels, first
	}
	given, _ := e.Data["labels"].(map[string]any)
	labels = make(map[string]string, len(given))
	for k, v := range given {
		switch v := v.(type) {
		case string:
			labels[k] = v
		case nil:
		default:
			return nil, true // no judge lets it pass; the fold takes it for none
		}
	}
	return labels, true
}

// Number returns the number of a state and gives it one if it has none. It
// keeps copies of the texts.
func (t *Table) Number(machine, name string) uint16 {
	if n, ok := t.numbers[machine][name]; ok {
		return n
	}
	if len(t.states) == maxStates {
		return maxStates - 1
	}
	machine, name = strings.Clone(machine), strings.Clone(name)
	if t.numbers[machine] == nil {
		t.numbers[machine] = map[string]uint16{}
	}
	n := uint16(len(t.states))
	t.numbers[machine][name] = n
	t.states = append(t.states, State{Machine: machine, Name: name, Class: t.class(machine, name)})
	return n
}

// Find returns the number of a state, if it has one.
func (t *Table) Find(machine, name string) (number uint16, ok bool) {
	number, ok = t.numbers[machine][name]
	return number, ok
}

func (t *Table) class(machine, name string) string {
	if m, ok := t.machines.Get(machine); ok {
		return m.Class(name)
	}
	return ""
}

// Save writes the table; classes are asked for anew when it is loaded.
func (t *Table) Save(w *wire.Writer) {
	w.Uint(uint64(len(t.states) - 1))
	for _, s := range t.states[1:] {
		w.String(s.Machine)
		w.String(s.Name)
	}
}

// Load replaces the table by a saved one.
func (t *Table) Load(r *wire.Reader) {
	*t = *New(t.machines)
	for n := r.Len(); n > 0 && r.Err() == nil; n-- {
		machine := r.String()
		t.Number(machine, r.String())
	}
}
