package accounts

import (
	"github.com/musterhq/muster/projections/internal/states"
)

// Facets counts accounts by what they can be filtered by.
type Facets struct {
	Accounts   int
	Machines   map[string]int
	States     map[string]int
	Classes    map[string]int
	Labels     map[string]map[string]int // key → value → accounts
	Conditions map[string]int            // by name
	Sources    map[string]int            // by the account's source; "" = none has spoken
	Desired    map[string]int            // run and stop
	Attention  map[string]int            // by kind; an account that asks for two things counts in both
	Damaged    int
}

// Facets counts all accounts shown.
func (v *View) Facets() Facets { return v.FacetsOf(Filter{}) }

// FacetsOf counts the accounts that match f exactly: each as it is at one moment.
// Only for a prefix and for times all of those that can match are looked at, some 15 ns each.
func (v *View) FacetsOf(f Filter) Facets {
	sum := Facets{
		Machines: map[string]int{}, States: map[string]int{}, Classes: map[string]int{},
		Labels: map[string]map[string]int{}, Conditions: map[string]int{}, Sources: map[string]int{},
		Desired: map[string]int{}, Attention: map[string]int{},
	}
	for _, s := range v.Parts() {
		t := s.count(&f)
		s.mu.RLock()
		s.addTo(&sum, t)
		s.mu.RUnlock()
	}
	return sum
}

// tally counts accounts by the numbers of a shard's tables.
type tally struct {
	accounts, damaged                              int
	states, labels, sources, desired, needs, conds []int
}

// bump counts n more of a number.
func bump(counts *[]int, number, n int) {
	if number >= len(*counts) {
		*counts = append(*counts, make([]int, number+1-len(*counts))...)
	}
	(*counts)[number] += n
}

// add counts n accounts with a key.
func (t *tally) add(k *cellKey, n int) {
	t.accounts += n
	if k.damaged {
		t.damaged += n
	}
	bump(&t.states, int(k.state), n)
	bump(&t.labels, int(k.labels), n)
	bump(&t.sources, int(k.source), n)
	bump(&t.desired, int(k.desired), n)
	bump(&t.needs, int(k.needs), n)
	bump(&t.conds, int(k.conds), n)
}

// count counts the accounts that match.
func (s *shard) count(f *Filter) *tally {
	t := &tally{}
	switch {
	case f.Prefix != "":
		s.countPrefix(f, t)
	case f.SinceFrom != 0 || f.SinceBefore != 0:
		s.countRows(f, t)
	default:
		s.countCells(f, t)
	}
	return t
}

// countCells counts whole cells.
func (s *shard) countCells(f *Filter, t *tally) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.matcher(f)
	for i := range s.cells.list {
		if c := &s.cells.list[i]; c.n > 0 && m.has(&c.key) {
			t.add(&c.key, c.n)
		}
	}
}

// countRows counts account by account, some at a time, so that events are let
// in between.
func (s *shard) countRows(f *Filter, t *tally) {
	s.mu.RLock()
	m := s.matcher(f)
	var numbers []uint32
	n, lists := m.fewest()
	if lists != nil {
		numbers = m.gather()
		n = len(numbers)
	} else if n > 0 {
		n = s.rows.Len()
	}
	s.mu.RUnlock()
	for from := 0; from < n; from += countAtOnce {
		s.mu.RLock()
		m := s.matcher(f)
		for i := from; i < min(from+countAtOnce, n); i++ {
			number := uint32(i)
			if lists != nil {
				number = numbers[i]
			}
			if m.matches(number) {
				t.row(s, number)
			}
		}
		s.mu.RUnlock()
	}
}

// row counts an account.
func (t *tally) row(s *shard, number uint32) {
	k := s.rows.At(number).key()
	t.add(&k, 1)
}

// countAtOnce is how many accounts are counted before events are let in.
const countAtOnce = 8 * atOnce

// countPrefix counts along the order of the ids.
func (s *shard) countPrefix(f *Filter, t *tally) {
	s.settle()
	for after, inclusive := f.Prefix, true; ; inclusive = false {
		looked, last := 0, uint32(0)
		s.mu.RLock()
		s.ids.RLock()
		m := s.matcher(f)
		if first, ok := s.seek(after, inclusive); ok {
			s.order.Ascend(first, func(number uint32) bool {
				if looked == countAtOnce || !s.ids.HasPrefix(number, f.Prefix) {
					return false
				}
				looked, last = looked+1, number
				if m.matches(number) {
					t.row(s, number)
				}
				return true
			})
		}
		if looked > 0 {
			after = string(s.ids.ID(last))
		}
		s.ids.RUnlock()
		s.mu.RUnlock()
		if looked < countAtOnce {
			return
		}
	}
}

// addTo adds counts to the facets; the caller holds the lock.
func (s *shard) addTo(f *Facets, t *tally) {
	f.Accounts += t.accounts
	f.Damaged += t.damaged
	for i, n := range t.states {
		if n > 0 && i != states.None {
			st := s.states.At(uint16(i))
			f.Machines[st.Machine] += n
			f.States[st.Name] += n
			f.Classes[st.Class] += n
		}
	}
	for i, n := range t.labels {
		if n == 0 {
			continue
		}
		for k, v := range s.labels.Set(uint32(i)).Map {
			if f.Labels[k] == nil {
				f.Labels[k] = map[string]int{}
			}
			f.Labels[k][v] += n
		}
	}
	for i, n := range t.needs {
		if n > 0 {
			for _, kind := range textsOf(s.needs, i) {
				f.Attention[kind] += n
			}
		}
	}
	addNamed(f.Sources, t.sources, s.sources.Name)
	addNamed(f.Desired, t.desired, s.words.Name)
	for i, n := range t.conds {
		if n > 0 {
			for _, name := range textsOf(s.conds, i) {
				f.Conditions[name] += n
			}
		}
	}
}

func addNamed(sum map[string]int, counts []int, name func(uint32) string) {
	for i, n := range counts {
		if n > 0 {
			sum[name(uint32(i))] += n
		}
	}
}
