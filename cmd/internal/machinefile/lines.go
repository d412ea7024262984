package machinefile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/musterhq/muster/domain/machine"
)

// lines finds the line of a file that a fault is about. A fault names the
// state, trigger or edge in question (its Where); the kind of the fault says
// in which part of the file that stands. Of several equal faults the first is
// about the first place, and so on.
type lines struct {
	root *yaml.Node
	told map[machine.Fault]int // by name and where: how many were asked for
}

func newLines(root *yaml.Node) *lines {
	return &lines{root: root, told: map[machine.Fault]int{}}
}

// of returns the line of a fault, at worst that of the machine's first line.
func (l *lines) of(f machine.Fault) int {
	places := l.places(f)
	kind := machine.Fault{Name: f.Name, Where: f.Where}
	n := l.told[kind]
	l.told[kind]++
	if f.Name == machine.DuplicateState || f.Name == machine.DuplicateTrigger || f.Name == machine.TwoEdges {
		n++ // the first place is the one that was right
	}
	if len(places) == 0 {
		return l.root.Line
	}
	return places[min(n, len(places)-1)]
}

// places returns the lines that a fault of this kind and Where may be about.
func (l *lines) places(f machine.Fault) []int {
	switch f.Name {
	case machine.NoStates, machine.TooMany:
		return l.section("states")
	case machine.UnknownFamily:
		return l.section("family")
	case machine.DuplicateState, machine.UnknownClass, machine.UnknownCan, machine.Unreachable, machine.NoWayOut:
		return l.entries("states", "name", f.Where)
	case machine.DuplicateTrigger, machine.ReservedTrigger, machine.UnusedTrigger:
		return l.scalars("triggers", f.Where)
	case machine.UnknownTrigger:
		return l.scalars("edges", f.Where)
	case machine.TwoEdges:
		from, on, _ := strings.Cut(f.Where, " ")
		return l.edges(func(e edgeNode) bool { return slices.Contains(e.from, from) && slices.Contains(e.on, on) })
	case machine.UnknownGuard, machine.BadEdge:
		return l.edges(func(e edgeNode) bool {
			return strings.Join(e.on, ",") == f.Where || (e.to == f.Where && (len(e.on) == 0 || len(e.from) == 0))
		})
	case machine.UnknownState:
		return slices.Concat(l.scalars("initial", f.Where), l.scalars("choices", f.Where), l.scalars("edges", f.Where))
	case machine.UnknownCondition:
		return l.scalars("conditions", f.Where)
	case machine.BadChoice:
		return l.entries("choices", "name", f.Where)
	case machine.BadDeadline:
		return l.entries("deadlines", "state", f.Where)
	case machine.BadRetry:
		return l.section("retry")
	case machine.BadRecovery:
		return slices.Concat(l.scalars("recover", f.Where), l.section("recover"))
	case machine.BadName:
		return slices.Concat(l.scalars("name", f.Where), l.entries("states", "name", f.Where), l.scalars("triggers", f.Where))
	}
	return nil
}

// part returns the value of a field of the machine, or nil.
func (l *lines) part(name string) *yaml.Node { return field(l.root, name) }

// section returns the line of a field of the machine.
func (l *lines) section(name string) []int {
	for i := 0; i+1 < len(l.root.Content); i += 2 {
		if l.root.Content[i].Value == name {
			return []int{l.root.Content[i].Line}
		}
	}
	return nil
}

// scalars returns the lines within a part at which exactly this text stands.
func (l *lines) scalars(part, text string) []int {
	var found []int
	var visit func(n *yaml.Node)
	visit = func(n *yaml.Node) {
		if n == nil {
			return
		}
		if n.Kind == yaml.ScalarNode && n.Value == text {
			found = append(found, n.Line)
		}
		for _, c := range n.Content {
			visit(c)
		}
	}
	visit(l.part(part))
	return found
}

// entries returns the lines of the entries of a list whose key has this value.
func (l *lines) entries(part, key, value string) []int {
	var found []int
	list := l.part(part)
	if list == nil {
		return nil
	}
	for _, entry := range list.Content {
		if v := field(entry, key); value == text(v) {
			found = append(found, entry.Line)
		}
	}
	return found
}

// edgeNode is an edge as it stands in the file.
type edgeNode struct {
	on, from []string
	to       string
}

// edges returns the lines of the edges that match.
func (l *lines) edges(match func(edgeNode) bool) []int {
	var found []int
	list := l.part("edges")
	if list == nil {
		return nil
	}
	for _, n := range list.Content {
		e := edgeNode{on: texts(field(n, "on")), from: texts(field(n, "from")), to: text(field(n, "to"))}
		if match(e) {
			found = append(found, n.Line)
		}
	}
	return found
}

// field returns the value of a key of a mapping, or nil.
func field(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func text(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

// texts returns the texts of a list, or the one text that stands for a list of one.
func texts(n *yaml.Node) []string {
	if n == nil {
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	var all []string
	for _, c := range n.Content {
		all = append(all, c.Value)
	}
	return all
}
