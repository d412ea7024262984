package machine

import (
	"fmt"
	"slices"
	"strings"
)

// arrow is one drawn edge: all triggers that lead from one state to another.
type arrow struct {
	from, to string
	labels   []string
	main     bool
}

// arrows lists what is drawn: one arrow per pair of states, legal triggers that
// stay left out. Edges to a choice go to the choice's own node.
func (m *Machine) arrows() []arrow {
	var out []arrow
	at := map[[2]string]int{}
	add := func(from, to, label string, main bool) {
		key := [2]string{from, to}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, arrow{from: from, to: to})
		}
		out[i].labels = append(out[i].labels, label)
		out[i].main = out[i].main || main
	}
	for _, e := range m.def.Edges {
		for _, from := range e.From {
			for _, to := range append(slices.Clone(e.ToAny), e.To) {
				if to == "" || to == from {
					continue
				}
				for _, on := range e.On {
					add(from, to, label(on, e), e.Main)
				}
			}
		}
	}
	for _, c := range m.def.Choices {
		add(c.Name, c.To, "free", true)
		add(c.Name, c.Blocked, "blocked", false)
	}
	return out
}

func label(on string, e Edge) string {
	if e.When == "" {
		return on
	}
	return on + " (" + strings.ReplaceAll(e.When, "_", " ") + ")"
}

// Mermaid draws the machine as a Mermaid state diagram: the main path solid,
// exceptional edges dashed, states that wait for a human red. State diagrams
// have no line styles of their own, so the dashes come as CSS that numbers the
// edges in the order in which they stand.
func (m *Machine) Mermaid() string {
	arrows := m.arrows()
	var css []string
	for i, a := range arrows {
		if !a.main {
			css = append(css, fmt.Sprintf("path[id$=edge%d]", i+1)) // edge0 is the one from the start
		}
	}
	var b strings.Builder
	if len(css) > 0 {
		fmt.Fprintf(&b, "%%%%{init: {\"themeCSS\": \"%s { stroke-dasharray: 5 4 }\"}}%%%%\n", strings.Join(css, ", "))
	}
	fmt.Fprintf(&b, "stateDiagram-v2\n    %%%% %s\n    [*] --> %s\n", m.def.Name, m.def.Initial)
	for _, c := range m.def.Choices {
		fmt.Fprintf(&b, "    state %s <<choice>>\n", c.Name)
	}
	for _, a := range arrows {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", a.from, a.to, strings.Join(a.labels, "<br/>"))
	}
	b.WriteString("    classDef human fill:#f8d7da,stroke:#b02a37,color:#58151c\n")
	if human := m.human(); len(human) > 0 {
		fmt.Fprintf(&b, "    class %s human\n", strings.Join(human, ","))
	}
	return b.String()
}

// DOT draws the machine in Graphviz's language, with the same meaning of lines
// and colours as Mermaid.
func (m *Machine) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n    rankdir=TB;\n    node [shape=box, style=rounded];\n", m.def.Name)
	b.WriteString("    __start [shape=point];\n")
	for _, s := range m.def.States {
		style := ""
		if s.Human {
			style = `, style="rounded,filled", color="#b02a37", fillcolor="#f8d7da"`
		}
		fmt.Fprintf(&b, "    %q [label=\"%s\\n%s\"%s];\n", s.Name, s.Name, s.Class, style)
	}
	for _, c := range m.def.Choices {
		fmt.Fprintf(&b, "    %q [shape=diamond, style=solid];\n", c.Name)
	}
	fmt.Fprintf(&b, "    __start -> %q;\n", m.def.Initial)
	for _, a := range m.arrows() {
		style := "solid"
		if !a.main {
			style = "dashed"
		}
		fmt.Fprintf(&b, "    %q -> %q [style=%s, label=\"%s\"];\n", a.from, a.to, style, strings.Join(a.labels, "\\n"))
	}
	b.WriteString("}\n")
	return b.String()
}

// human lists the states that wait for a person.
func (m *Machine) human() []string {
	var out []string
	for _, s := range m.def.States {
		if s.Human {
			out = append(out, s.Name)
		}
	}
	return out
}
