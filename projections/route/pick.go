package route

import (
	"math"
	"slices"

	"github.com/musterhq/muster/domain/machine"
)

// ScanLimit is how many accounts of a group are looked at for one answer, when
// those that come first do not match.
const ScanLimit = 10_000

// pick adds up to n accounts of each group that may do what is wanted; the
// caller holds both locks.
func (s *shard) pick(w *Want, n int, list *[]found) (whole bool) {
	whole = true
	pair, ok := s.rarest(w)
	if !ok {
		return true
	}
	for number := 1; number < len(s.groups); number++ {
		g := &s.groups[number]
		if g.accounts == 0 || !g.may(w) {
			continue
		}
		place := pair<<groupBits | uint32(number)
		matched, looked := 0, 0
		s.index.Ascend(entry{place: place, last: math.MinInt64}, func(e entry) bool {
			if e.place != place || matched == n {
				return false
			}
			if looked++; looked > ScanLimit {
				whole = false
				return false
			}
			if s.matches(e.account, g, w) {
				matched++
				*list = append(*list, found{s, e.last, e.account})
			}
			return true
		})
	}
	return whole
}

// rarest returns the number of the label asked for that the fewest accounts
// have, anyPair when none is asked for; ok is false when one of them nobody has.
func (s *shard) rarest(w *Want) (pair uint32, ok bool) {
	pair = anyPair
	for k, v := range w.Labels {
		n, known := s.pairs.Find(k + "=" + v)
		switch {
		case !known && s.pairs.Len() < maxPairs:
			return anyPair, false
		case known && (pair == anyPair || s.counts[n] < s.counts[pair]):
			pair = n
		}
	}
	return pair, true
}

// matches says whether an account of a group that may do what is wanted has the
// labels, and may do it itself.
func (s *shard) matches(number uint32, g *group, w *Want) bool {
	r := s.rows.At(number)
	if len(w.Labels) > 0 {
		has := s.labels.Set(r.labels).Map
		for k, v := range w.Labels {
			if got, ok := has[k]; !ok || got != v {
				return false
			}
		}
	}
	if !g.mixed || w.Do == machine.CanRead {
		return true
	}
	return !slices.ContainsFunc(s.blocks[number], func(b block) bool {
		return b.scope == w.Scope || w.Do == machine.CanBulk && w.Scope == ""
	})
}

func (s *shard) candidate(number uint32) Candidate {
	r := s.rows.At(number)
	st := s.states.At(r.state)
	return Candidate{
		Account: s.ids.ID(number), Machine: st.Machine, State: st.Name, Used: r.used, Since: r.since, Labels: s.labels.Set(r.labels).Map,
	}
}

// eligible counts the accounts of the groups that may do what is wanted.
func (s *shard) eligible(w *Want) (n int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := range s.groups {
		g := &s.groups[i]
		switch {
		case !g.may(w):
		case !g.mixed:
			n += g.accounts
		default:
			for number := range uint32(s.rows.Len()) {
				if int(s.rows.At(number).group) == i && s.matches(number, g, w) {
					n++
				}
			}
		}
	}
	return n
}
