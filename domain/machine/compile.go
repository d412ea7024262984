package machine

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The largest table that is accepted; it bounds what a user's file can cost.
const (
	maxStates   = 200
	maxTriggers = 500
)

var (
	machineName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}@[1-9][0-9]{0,8}$`)
	stateName   = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,62}$`)
	triggerName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
)

type compiler struct {
	m      *Machine
	faults Faults
}

func (c *compiler) fault(name FaultName, where, format string, args ...any) {
	c.faults = append(c.faults, Fault{Name: name, Where: where, Text: fmt.Sprintf(format, args...)})
}

// names checks and numbers states and triggers.
func (c *compiler) names() {
	d := &c.m.def
	if !machineName.MatchString(d.Name) {
		c.fault(BadName, d.Name, "machine name %q: want lower-case letters, digits, _ or -, then @ and a version number, as in shop@1", d.Name)
	}
	if !slices.Contains([]string{FamilySession, FamilyMessage, FamilyConversation}, d.Family) {
		c.fault(UnknownFamily, d.Family, "family %q: want session, message or conversation", d.Family)
	}
	if len(d.States) == 0 {
		c.fault(NoStates, d.Name, "a machine needs at least one state")
	}
	if len(d.States) > maxStates || len(d.Triggers) > maxTriggers {
		c.fault(TooMany, d.Name, "%d states and %d triggers: at most %d and %d are accepted", len(d.States), len(d.Triggers), maxStates, maxTriggers)
	}
	for i := range d.States {
		c.state(i)
	}
	if _, ok := c.m.states[d.Initial]; !ok {
		c.fault(UnknownState, d.Initial, "initial state %q is not among the states", d.Initial)
	}
	for i, t := range d.Triggers {
		c.trigger(i, t)
	}
}

func (c *compiler) state(i int) {
	s := c.m.def.States[i]
	info := stateInfo{State: s, up: s.Class == ClassReady || s.Class == ClassLimited}
	if !stateName.MatchString(s.Name) {
		c.fault(BadName, s.Name, "state name %q: want capital letters, digits and _, as in RUNNING", s.Name)
	}
	if _, twice := c.m.states[s.Name]; twice {
		c.fault(DuplicateState, s.Name, "state %s is there twice", s.Name)
	} else {
		c.m.states[s.Name] = i
	}
	if c.m.def.Family == FamilySession && !slices.Contains(Classes(), s.Class) {
		c.fault(UnknownClass, s.Name, "state %s has class %q: want one of %s", s.Name, s.Class, strings.Join(Classes(), ", "))
	}
	for _, what := range s.Can {
		switch what {
		case CanRead:
			info.read = true
		case CanSend:
			info.send = true
		case CanBulk:
			info.bulk = true
		default:
			c.fault(UnknownCan, s.Name, "state %s can %q: want one of %s", s.Name, what, strings.Join(Capabilities(), ", "))
		}
	}
	c.m.info = append(c.m.info, info)
}

func (c *compiler) trigger(i int, t string) {
	if !triggerName.MatchString(t) {
		c.fault(BadName, t, "trigger name %q: want lower-case letters, digits and _, as in qr_received", t)
	}
	if _, twice := c.m.triggers[t]; twice {
		c.fault(DuplicateTrigger, t, "trigger %s is there twice", t)
		return
	}
	if _, taken := Reserved(t); taken && c.m.def.Family == FamilySession {
		c.fault(ReservedTrigger, t, "trigger %s has a fixed meaning and cannot be a row of a table", t)
	}
	c.m.triggers[t] = i
}

// conditions checks the names of conditions and choices.
func (c *compiler) conditions() {
	for _, known := range conditions {
		if known.Common {
			c.m.has[known.Name] = true
		}
	}
	for _, name := range c.m.def.Conditions {
		if conditionIndex(name) < 0 {
			c.fault(UnknownCondition, name, "condition %q is not known", name)
			continue
		}
		c.m.has[name] = true
	}
	seen := map[string]bool{}
	for _, ch := range c.m.def.Choices {
		if _, isState := c.m.states[ch.Name]; isState || seen[ch.Name] || !stateName.MatchString(ch.Name) {
			c.fault(BadChoice, ch.Name, "choice %q: its name must be of capital letters, and neither a state nor another choice", ch.Name)
		}
		seen[ch.Name] = true
		for _, s := range []string{ch.To, ch.Blocked} {
			if _, ok := c.m.states[s]; !ok {
				c.fault(UnknownState, s, "choice %s leads to %q, which is not among the states", ch.Name, s)
			}
		}
	}
}

// edges fills the table.
func (c *compiler) edges() {
	d := &c.m.def
	c.m.cells = make([][]Cell, len(d.States))
	for i := range c.m.cells {
		c.m.cells[i] = make([]Cell, len(d.Triggers))
	}
	used := map[string]bool{}
	for _, e := range d.Edges {
		cell, ok := c.cell(e)
		for _, on := range e.On {
			used[on] = true
			t, known := c.m.triggers[on]
			if !known {
				c.fault(UnknownTrigger, on, "an edge is on %q, which is not among the triggers", on)
				continue
			}
			for _, from := range e.From {
				s, known := c.m.states[from]
				if !known {
					c.fault(UnknownState, from, "an edge on %s is from %q, which is not among the states", on, from)
					continue
				}
				if c.m.cells[s][t].Act != Reject {
					c.fault(TwoEdges, from+" "+on, "two edges from %s on %s", from, on)
					continue
				}
				if ok {
					c.m.cells[s][t] = cell
				}
			}
		}
		if len(e.On) == 0 || len(e.From) == 0 {
			c.fault(BadEdge, e.To, "an edge to %q names no trigger or no state that it is from", e.To)
		}
	}
	for _, t := range d.Triggers {
		if !used[t] {
			c.fault(UnusedTrigger, t, "no edge is on trigger %s", t)
		}
	}
}

// cell compiles what an edge does, without its from and on.
func (c *compiler) cell(e Edge) (Cell, bool) {
	where := strings.Join(e.On, ",")
	cell := Cell{Act: Stay, When: e.When, Else: e.Else, To: e.To, Main: e.Main}
	if e.When != "" && !slices.Contains(Guards(), e.When) {
		c.fault(UnknownGuard, where, "an edge on %s holds when %q: want one of %s", where, e.When, strings.Join(Guards(), ", "))
	}
	if (e.When == "") != (e.Else == "") || !slices.Contains([]string{"", ElseNoop, ElseStale, ElseRejected}, e.Else) {
		c.fault(BadEdge, where, "an edge on %s: else is noop, stale or rejected and stands with when, and only then", where)
	}
	switch {
	case len(e.ToAny) > 0 && e.To != "":
		c.fault(BadEdge, where, "an edge on %s has both to and to_any", where)
		return cell, false
	case len(e.ToAny) > 0:
		cell.Act, cell.told = MoveTold, e.ToAny
		for _, s := range e.ToAny {
			if _, ok := c.m.states[s]; !ok {
				c.fault(UnknownState, s, "an edge on %s leads to %q, which is not among the states", where, s)
			}
		}
	case e.To != "":
		return c.target(cell, where)
	}
	return cell, true
}

func (c *compiler) target(cell Cell, where string) (Cell, bool) {
	if _, ok := c.m.states[cell.To]; ok {
		cell.Act = Move
		return cell, true
	}
	for _, ch := range c.m.def.Choices {
		if ch.Name == cell.To {
			cell.Act, cell.To, cell.Blocked = MoveFree, ch.To, ch.Blocked
			return cell, true
		}
	}
	c.fault(UnknownState, cell.To, "an edge on %s leads to %q, which is neither a state nor a choice", where, cell.To)
	return cell, false
}

// leaves says whether the pair always and unconditionally leads elsewhere.
func (c *compiler) leaves(state, trigger string) bool {
	cell := c.m.Lookup(state, trigger)
	return cell.Act == Move && cell.When == "" && cell.To != state
}

func (c *compiler) retry() {
	r := c.m.def.Retry
	if r == nil {
		return
	}
	c.m.retry = *r
	cell := c.m.Lookup(r.State, r.Trigger)
	c.m.stays = cell.Act == Stay
	if _, ok := c.m.states[r.State]; !ok {
		c.fault(BadRetry, r.State, "retry is in state %q, which is not among the states", r.State)
	} else if cell.When != "" || !c.m.stays && !c.leaves(r.State, r.Trigger) {
		c.fault(BadRetry, r.Trigger, "retry gives %q in %s, where it must be legal without a condition", r.Trigger, r.State)
	}
	if r.Tries < 1 || r.Tries > 100 {
		c.fault(BadRetry, r.State, "retry makes %d tries: want 1 to 100", r.Tries)
	}
}

func (c *compiler) recovery() {
	for _, from := range slices.Sorted(maps.Keys(c.m.def.Recover)) {
		to := c.m.def.Recover[from]
		for _, s := range []string{from, to} {
			if _, ok := c.m.states[s]; !ok {
				c.fault(BadRecovery, s, "recover %s: %s names %q, which is not among the states", from, to, s)
			}
		}
		if from == to {
			c.fault(BadRecovery, from, "recover leads from %s to itself; leave it out", from)
		}
	}
}

func (c *compiler) deadlines() {
	seen := map[string]bool{}
	for _, d := range c.m.def.Deadlines {
		s, ok := c.m.states[d.State]
		key := d.State + " " + d.Trigger
		switch {
		case !ok:
			c.fault(BadDeadline, d.State, "a deadline is in state %q, which is not among the states", d.State)
			continue
		case d.After <= 0:
			c.fault(BadDeadline, d.State, "the deadline in %s is after no time at all", d.State)
		case d.Trigger != "mark_stuck" && !c.leaves(d.State, d.Trigger):
			c.fault(BadDeadline, d.State, "the deadline in %s gives %q: want mark_stuck, or a trigger that leaves the state without a condition", d.State, d.Trigger)
		case d.Mode != "" && d.Mode != "observe" && d.Mode != "supervise":
			c.fault(BadDeadline, d.State, "the deadline in %s is for mode %q: want observe or supervise", d.State, d.Mode)
		case d.Desired != "" && d.Desired != "run":
			c.fault(BadDeadline, d.State, "the deadline in %s is for desired %q: want run, or nothing", d.State, d.Desired)
		case seen[key]:
			c.fault(BadDeadline, d.State, "two deadlines in %s give %s", d.State, d.Trigger)
		}
		seen[key] = true
		c.m.info[s].deadlines = append(c.m.info[s].deadlines, d)
	}
	for i := range c.m.info {
		slices.SortStableFunc(c.m.info[i].deadlines, func(a, b Deadline) int { return cmp.Compare(a.After, b.After) })
	}
}

// paths finds states that cannot be reached or left.
func (c *compiler) paths() {
	reached := map[string]bool{}
	next := []string{c.m.def.Initial}
	if _, ok := c.m.states[c.m.def.Initial]; !ok {
		return // said already; everything would be unreachable
	}
	for len(next) > 0 {
		s := next[0]
		next = next[1:]
		if reached[s] {
			continue
		}
		reached[s] = true
		next = append(next, c.exits(s)...)
	}
	for _, s := range c.m.def.States {
		if !reached[s.Name] {
			c.fault(Unreachable, s.Name, "state %s cannot be reached from %s", s.Name, c.m.def.Initial)
		}
		if len(c.exits(s.Name)) == 0 && !s.Final {
			c.fault(NoWayOut, s.Name, "no edge leads out of state %s", s.Name)
		}
	}
}

// exits lists the other states that a state leads to.
func (c *compiler) exits(state string) []string {
	i, ok := c.m.states[state]
	if !ok {
		return nil
	}
	var out []string
	for _, cell := range c.m.cells[i] {
		if cell.Act == Stay {
			continue
		}
		for _, to := range cell.targets(state) {
			if to != state {
				out = append(out, to)
			}
		}
	}
	if to, ok := c.m.out[state]; ok && to != state {
		out = append(out, to)
	}
	return out
}
