package machine

import (
	"fmt"
	"slices"
	"strings"
)

// Registry holds compiled machines by name. Fill it before it is shared; after
// that it may be read from many goroutines.
type Registry struct {
	byName   map[string]*Machine
	names    []string
	triggers map[string]bool // of all session machines
	standard string
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{byName: map[string]*Machine{}, triggers: map[string]bool{}}
}

// Add puts a machine into the registry. A name can be taken only once.
func (r *Registry) Add(m *Machine) error {
	if _, taken := r.byName[m.Name()]; taken {
		return fmt.Errorf("machine %s is there already; give yours another name or version", m.Name())
	}
	r.byName[m.Name()] = m
	r.names = append(r.names, m.Name())
	slices.Sort(r.names)
	if m.Family() == FamilySession {
		for _, t := range m.def.Triggers {
			r.triggers[t] = true
		}
	}
	return nil
}

// Get returns the machine of that name.
func (r *Registry) Get(name string) (*Machine, bool) {
	m, ok := r.byName[name]
	return m, ok
}

// List returns all machines, sorted by name.
func (r *Registry) List() []*Machine {
	out := make([]*Machine, len(r.names))
	for i, n := range r.names {
		out[i] = r.byName[n]
	}
	return out
}

// SetDefault says which session machine an account gets that names none.
func (r *Registry) SetDefault(name string) error {
	m, ok := r.byName[name]
	if !ok || m.Family() != FamilySession {
		return fmt.Errorf("default machine %q: want one of %s", name, strings.Join(r.session(), ", "))
	}
	r.standard = name
	return nil
}

// Default returns the name that SetDefault was given.
func (r *Registry) Default() string { return r.standard }

// session lists the names of the session machines.
func (r *Registry) session() []string {
	var out []string
	for _, n := range r.names {
		if r.byName[n].Family() == FamilySession {
			out = append(out, n)
		}
	}
	return out
}

// Knows says whether any session machine has the trigger.
func (r *Registry) Knows(trigger string) bool { return r.triggers[trigger] }

// Nearest returns the known trigger, of a machine or of Muster itself, that is
// most like name, or "" when nothing is near.
func (r *Registry) Nearest(name string) string {
	names := ReservedNames()
	for t := range r.triggers {
		names = append(names, t)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(n string) bool { return reserved[n] == GroupMark })
	return Closest(name, names)
}

// NearestMachine returns the machine name that is most like name, or "".
func (r *Registry) NearestMachine(name string) string { return Closest(name, r.names) }

// Closest returns the candidate with the smallest edit distance to name, the
// first of them when several are equal, or "" when more than a third of the
// text, and more than two letters, would have to change.
func Closest(name string, candidates []string) string {
	if len(name) > 100 {
		return ""
	}
	best, at := max(2, len(name)/3)+1, ""
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), c); d < best {
			best, at = d, c
		}
	}
	return at
}

// distance is the number of letters to insert, delete, change or swap with
// their neighbour to get from a to b.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows = [3][]int{last, row, before}
	}
	return rows[1][len(b)]
}
