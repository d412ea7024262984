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

// Facets counts all accounts shown, at the price of a look at the view's own
// counters.
func (v *View) Facets() Facets { return v.FacetsOf(Filter{}) }

// FacetsOf counts the accounts that match f exactly: each as it is at one moment.
// All of those that can match are looked at, some 15 ns each.
func (v *View) FacetsOf(f Filter) Facets {
	sum := Facets{
		Machines: map[string]int{}, States: map[string]int{}, Classes: map[string]int{},
		Labels: map[string]map[string]int{}, Conditions: map[string]int{}, Sources: map[string]int{},
		Desired: map[string]int{}, Attention: map[string]int{},
	}
	for _, s := range v.Parts() {
		if f.all() {
			s.mu.RLock()
			s.addTo(&sum, s.counters())
			s.mu.RUnlock()
			continue
		}
		t := s.count(&f)
		s.mu.RLock()
		s.addTo(&sum, t)
		s.mu.RUnlock()
	}
	return sum
}

// all says whether every account matches.
func (f *Filter) all() bool {
	return f.Prefix == "" && f.Machine == "" && f.State == "" && f.Class == "" && f.Condition == "" && f.Desired == "" &&
		f.Source == nil && f.Attention == "" && f.SinceFrom == 0 && f.SinceBefore == 0 && len(f.Labels) == 0
}

// tally counts accounts by the numbers of a shard's tables.
type tally struct {
	accounts, damaged                       int
	states, labels, sources, desired, needs []int
	conditions                              map[string]int
}

// bump counts one more, or less, of a number.
func bump(counts *[]int, number, d int) {
	for len(*counts) <= number {
		*counts = append(*counts, 0)
	}
	(*counts)[number] += d
}

// add counts an account; the caller holds the lock.
func (t *tally) add(s *shard, number uint32) {
	r := s.rows.At(number)
	t.accounts++
	if r.flags&flagDamaged != 0 {
		t.damaged++
	}
	bump(&t.states, int(r.state), 1)
	bump(&t.labels, int(r.labels), 1)
	bump(&t.sources, int(r.source), 1)
	bump(&t.desired, int(r.desired), 1)
	bump(&t.needs, int(r.needs), 1)
	if r.flags&flagMore == 0 {
		return
	}
	last := ""
	for _, c := range s.more[number] { // sorted by name
		if c.Name != last {
			t.conditions[c.Name]++
			last = c.Name
		}
	}
}

// counters are the counts over all accounts shown; the caller holds the lock.
func (s *shard) counters() *tally {
	t := &tally{accounts: s.shown, damaged: s.damage, sources: s.bySource, desired: s.byDesired, conditions: s.conditions}
	for _, of := range []struct {
		lists  [][]uint32
		counts *[]int
	}{{s.byState, &t.states}, {s.byLabels, &t.labels}, {s.byNeeds, &t.needs}} {
		for i, l := range of.lists {
			bump(of.counts, i, len(l))
		}
	}
	return t
}

// count counts the accounts that match, some at a time, so that events are let
// in between.
func (s *shard) count(f *Filter) *tally {
	t := &tally{conditions: map[string]int{}}
	if f.Prefix != "" {
		s.countPrefix(f, t)
		return t
	}
	s.mu.RLock()
	m := s.matcher(f)
	var numbers []uint32
	n, lists := m.fewest()
	if lists != nil {
		numbers = m.gather()
	} else if n > 0 {
		n = s.rows.Len()
	}
	s.mu.RUnlock()
	if lists != nil {
		n = len(numbers)
	}
	for from := 0; from < n; from += countAtOnce {
		s.mu.RLock()
		m := s.matcher(f)
		for i := from; i < min(from+countAtOnce, n); i++ {
			number := uint32(i)
			if lists != nil {
				number = numbers[i]
			}
			if m.matches(number) {
				t.add(s, number)
			}
		}
		s.mu.RUnlock()
	}
	return t
}

// countAtOnce is how many accounts are counted before events are let in.
const countAtOnce = 8 * atOnce

// countPrefix is count along the order of the ids.
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
					t.add(s, number)
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
			for _, kind := range s.kindsOf(i) {
				f.Attention[kind] += n
			}
		}
	}
	addNamed(f.Sources, t.sources, s.sources.Name)
	addNamed(f.Desired, t.desired, s.words.Name)
	for name, n := range t.conditions {
		if n > 0 {
			f.Conditions[name] += n
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
