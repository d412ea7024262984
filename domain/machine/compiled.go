package machine

import (
	"fmt"
	"strings"
)

// Act is what a cell of the table does.
type Act uint8

// The acts. The zero value is what a pair without an edge gets.
const (
	Reject   Act = iota // no such edge
	Stay                // legal, the state stays
	Move                // to Cell.To
	MoveFree            // a choice: to Cell.Blocked while a blocking condition stands, else to Cell.To
	MoveTold            // to the state named in data.state, when Machine.MayTell allows it
)

// Cell is one compiled (state, trigger) pair.
type Cell struct {
	Act     Act
	When    string // guard; "" = always
	Else    string // noop, stale or rejected when the guard does not hold
	To      string // target of Move and MoveFree
	Blocked string // the other target of MoveFree
	Main    bool
	told    []string
}

// Machine is a compiled definition. It is immutable and may be used from many
// goroutines.
type Machine struct {
	def      Definition
	states   map[string]int
	triggers map[string]int
	cells    [][]Cell // [state][trigger]
	info     []stateInfo
	has      map[string]bool // conditions
	retry    Retry
	stays    bool
	out      map[string]string // recovery map
}

type stateInfo struct {
	State
	read, send, bulk bool
	up               bool
	deadlines        []Deadline
}

// Name returns the machine's name with its version, e.g. "whatsapp@2".
func (m *Machine) Name() string { return m.def.Name }

// Family returns what the machine is a table for: session, message or conversation.
func (m *Machine) Family() string { return m.def.Family }

// Initial returns the state before the first event.
func (m *Machine) Initial() string { return m.def.Initial }

// Definition returns the data that the machine was compiled from. It must not
// be changed.
func (m *Machine) Definition() Definition { return m.def }

// Authority says whether only one source of an account is believed.
func (m *Machine) Authority() bool { return m.def.Authority }

// Tickets says whether accounts have tickets and a sync cursor.
func (m *Machine) Tickets() bool { return m.def.Tickets }

// Beats is the longest silence of heartbeats while ready, 0 when none are expected.
func (m *Machine) Beats() Duration { return m.def.Beats }

// HasTrigger says whether the table has a row for the trigger.
func (m *Machine) HasTrigger(trigger string) bool {
	_, ok := m.triggers[trigger]
	return ok
}

// Lookup returns the cell of (state, trigger). A name that the table does not
// have gives a rejecting cell. It allocates nothing.
func (m *Machine) Lookup(state, trigger string) Cell {
	s, ok := m.states[state]
	if !ok {
		return Cell{}
	}
	t, ok := m.triggers[trigger]
	if !ok {
		return Cell{}
	}
	return m.cells[s][t]
}

// MayTell says whether data.state may name the state as the target of a
// MoveTold cell, and returns the table's own text of its name.
func (c Cell) MayTell(state string) (string, bool) {
	for _, s := range c.told {
		if s == state {
			return s, true
		}
	}
	return "", false
}

// State returns what the table says about a state; ok is false for a name that
// it does not have.
func (m *Machine) State(name string) (s State, ok bool) {
	i, ok := m.states[name]
	if !ok {
		return State{}, false
	}
	return m.info[i].State, true
}

// Class returns a state's class, "" for an unknown state.
func (m *Machine) Class(state string) string {
	if i, ok := m.states[state]; ok {
		return m.info[i].Class
	}
	return ""
}

// Can returns a state's capabilities.
func (m *Machine) Can(state string) (read, send, bulk bool) {
	i, ok := m.states[state]
	if !ok {
		return false, false, false
	}
	s := &m.info[i]
	return s.read, s.send, s.bulk
}

// Up says whether a state counts as up: its class is ready or limited.
func (m *Machine) Up(state string) bool {
	i, ok := m.states[state]
	return ok && m.info[i].up
}

// Has says whether the machine has the built-in condition.
func (m *Machine) Has(condition string) bool { return m.has[condition] }

// Deadlines returns the deadlines of a state. The slice must not be changed.
func (m *Machine) Deadlines(state string) []Deadline {
	if i, ok := m.states[state]; ok {
		return m.info[i].deadlines
	}
	return nil
}

// Retry returns the retry rule; ok is false when there is none. stays says that
// the retry trigger leaves the account where it is.
func (m *Machine) Retry() (r Retry, stays, ok bool) {
	return m.retry, m.stays, m.def.Retry != nil
}

// Recover returns where a state goes when nobody vouches for the account any
// more; ok is false when it stays.
func (m *Machine) Recover(state string) (to string, ok bool) {
	to, ok = m.out[state]
	return to, ok
}

// AsksLogin says whether a state that was entered by the trigger asks for a
// login; ran says that the account has been ready before.
func (m *Machine) AsksLogin(state, trigger string, byUser, ran bool) bool {
	i, ok := m.states[state]
	if !ok {
		return false
	}
	for _, a := range m.info[i].AsksLogin {
		for _, after := range a.After {
			if after == trigger && !(a.NotUser && byUser) && (ran || !a.Ran) {
				return true
			}
		}
	}
	return false
}

// Transition is one edge of the flat table: what a trigger may lead to.
type Transition struct {
	From, Trigger string
	To            []string // more than one for a choice; the state itself for a legal trigger that stays
	Cell          Cell
}

// Transitions lists the whole table, by state and then trigger, rejected pairs
// left out.
func (m *Machine) Transitions() []Transition {
	var out []Transition
	for s, st := range m.def.States {
		for t, trigger := range m.def.Triggers {
			if c := m.cells[s][t]; c.Act != Reject {
				out = append(out, Transition{From: st.Name, Trigger: trigger, To: c.targets(st.Name), Cell: c})
			}
		}
	}
	return out
}

// targets lists where a cell may lead from a state.
func (c Cell) targets(from string) []string {
	switch c.Act {
	case Move:
		return []string{c.To}
	case MoveFree:
		return []string{c.To, c.Blocked}
	case MoveTold:
		return c.told
	case Stay:
		return []string{from}
	default:
		return nil
	}
}

// Compile checks a definition and returns its machine. The error is a
// [Faults] with every fault that was found.
func Compile(d Definition) (*Machine, error) {
	if d.Family == "" {
		d.Family = FamilySession
	}
	c := compiler{m: &Machine{def: d, states: map[string]int{}, triggers: map[string]int{}, has: map[string]bool{}, out: d.Recover}}
	c.names()
	c.conditions()
	c.edges()
	c.retry()
	c.recovery()
	c.deadlines()
	c.paths()
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	return c.m, nil
}

// MustCompile is Compile for definitions that are part of the program; it
// panics on a fault.
func MustCompile(d Definition) *Machine {
	m, err := Compile(d)
	if err != nil {
		panic(fmt.Sprintf("machine %s: %v", d.Name, err))
	}
	return m
}

// FaultName names a kind of fault.
type FaultName string

// The kinds of faults.
const (
	BadName          FaultName = "bad_name"
	UnknownFamily    FaultName = "unknown_family"
	NoStates         FaultName = "no_states"
	TooMany          FaultName = "too_many"
	DuplicateState   FaultName = "duplicate_state"
	UnknownState     FaultName = "unknown_state"
	UnknownClass     FaultName = "unknown_class"
	UnknownCan       FaultName = "unknown_capability"
	DuplicateTrigger FaultName = "duplicate_trigger"
	UnknownTrigger   FaultName = "unknown_trigger"
	ReservedTrigger  FaultName = "reserved_trigger"
	UnusedTrigger    FaultName = "unused_trigger"
	TwoEdges         FaultName = "two_edges"
	BadEdge          FaultName = "bad_edge"
	UnknownGuard     FaultName = "unknown_guard"
	UnknownCondition FaultName = "unknown_condition"
	BadChoice        FaultName = "bad_choice"
	BadDeadline      FaultName = "bad_deadline"
	BadRetry         FaultName = "bad_retry"
	BadRecovery      FaultName = "bad_recovery"
	Unreachable      FaultName = "unreachable_state"
	NoWayOut         FaultName = "no_way_out"
)

// Fault is one thing that is wrong with a definition.
type Fault struct {
	Name  FaultName
	Where string // the state, trigger, edge … it is about
	Text  string // a sentence that says what is wrong and what is right
}

// String prints the fault as "name: sentence".
func (f Fault) String() string { return string(f.Name) + ": " + f.Text }

// Faults is everything that is wrong with a definition.
type Faults []Fault

// Error prints one fault a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}
