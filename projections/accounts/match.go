package accounts

import "slices"

// matcher is a filter in the numbers of one shard, as its tables are now.
type matcher struct {
	s      *shard
	f      *Filter
	states []bool // by state; nil: any
	labels []bool // by set of labels; nil: any
	needs  []bool // by set of kinds of attention; nil: any
	conds  []bool // by set of names of conditions; nil: any
	source uint32
	none   bool // nothing can match
}

// matcher prepares a filter; the caller holds the lock as long as it is used.
func (s *shard) matcher(f *Filter) *matcher {
	m := &matcher{s: s, f: f}
	if f.Machine != "" || f.State != "" || f.Class != "" {
		m.states = make([]bool, s.states.Len())
		for i := 1; i < s.states.Len(); i++ {
			st := s.states.At(uint16(i))
			m.states[i] = (f.Machine == "" || f.Machine == st.Machine) &&
				(f.State == "" || f.State == st.Name) && (f.Class == "" || f.Class == st.Class)
		}
	}
	if len(f.Labels) > 0 {
		m.labels = make([]bool, s.labels.Len())
		for i := range m.labels {
			m.labels[i] = hasAll(s.labels.Set(uint32(i)).Map, f.Labels)
		}
	}
	if f.Attention != "" {
		m.needs = make([]bool, s.needs.Len())
		for i := range m.needs {
			m.needs[i] = slices.Contains(textsOf(s.needs, i), f.Attention)
		}
	}
	if f.Condition != "" {
		m.conds = make([]bool, s.conds.Len())
		for i := range m.conds {
			m.conds[i] = slices.Contains(textsOf(s.conds, i), f.Condition)
		}
	}
	if f.Source != nil {
		number, known := s.sources.Find(*f.Source)
		m.source = number
		m.none = !known
	}
	return m
}

func hasAll(labels, wanted map[string]string) bool {
	for k, v := range wanted {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// matches says whether an account is shown and matches, but for the prefix.
func (m *matcher) matches(number uint32) bool {
	r := m.s.rows.At(number)
	if !r.shown() || m.f.SinceFrom != 0 && r.since < m.f.SinceFrom || m.f.SinceBefore != 0 && r.since >= m.f.SinceBefore {
		return false
	}
	k := r.key()
	return m.has(&k)
}

// has says whether accounts with a key match, but for the prefix and the times.
func (m *matcher) has(k *cellKey) bool {
	return !m.none &&
		(m.states == nil || m.states[k.state]) &&
		(m.labels == nil || m.labels[k.labels]) &&
		(m.needs == nil || m.needs[k.needs]) &&
		(m.conds == nil || m.conds[k.conds]) &&
		(m.f.Source == nil || m.source == k.source) &&
		(m.f.Desired == "" || m.s.words.Name(uint32(k.desired)) == m.f.Desired)
}

// fewest returns how many accounts can match at most, and the lists that hold
// them all: by state, by labels or by what they ask for, whichever are fewest;
// nil when none of these is asked for. An empty one, not nil, means that a condition is asked for that
// fewer accounts have: those with an entry in more.
func (m *matcher) fewest() (n int, lists [][]uint32) {
	if m.none {
		return 0, [][]uint32{{}}
	}
	n = m.s.shown
	if m.states != nil {
		lists, n = chosen(m.s.byState, m.states)
	}
	if m.labels != nil {
		if byLabels, fewer := chosen(m.s.byLabels, m.labels); lists == nil || fewer < n {
			lists, n = byLabels, fewer
		}
	}
	if m.needs != nil {
		if byNeeds, fewer := chosen(m.s.byNeeds, m.needs); lists == nil || fewer < n {
			lists, n = byNeeds, fewer
		}
	}
	if m.f.Condition != "" && len(m.s.more) < n {
		lists, n = [][]uint32{}, len(m.s.more)
	}
	return n, lists
}

// chosen returns the lists that are wanted, and their length.
func chosen(lists [][]uint32, wanted []bool) (found [][]uint32, n int) {
	found = make([][]uint32, 0, 8)
	for i, l := range lists {
		if wanted[i] && len(l) > 0 {
			found = append(found, l)
			n += len(l)
		}
	}
	return found, n
}

// gather returns a copy of all accounts that can match.
func (m *matcher) gather() []uint32 {
	n, lists := m.fewest()
	switch {
	case lists == nil:
		return m.s.order.Items()
	case len(lists) > 0:
		return slices.Concat(lists...)
	}
	numbers := make([]uint32, 0, n)
	if m.f.Condition != "" {
		for number := range m.s.more {
			numbers = append(numbers, number)
		}
	}
	return numbers
}
