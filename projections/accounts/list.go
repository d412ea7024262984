package accounts

import (
	"slices"
	"sync"

	"github.com/musterhq/muster/domain"
)

// The bounds of a page and of what is looked at for one, for each partition.
const (
	MaxLimit    = 1000
	ScanLimit   = 16_384 // accounts walked over in the order of their ids
	GatherLimit = 32_768 // accounts of which the next ones are picked
	atOnce      = 1_024  // accounts looked at before events are let in
)

// Filter says which accounts are wanted. What is empty does not filter; all
// else must hold at once.
type Filter struct {
	Prefix    string // of the id
	Machine   string
	State     string
	Class     string
	Condition string // name of a condition that stands
	Desired   string
	Source    *string           // the account's source; a pointer to "" = none has spoken
	Attention string            // a kind of attention that it asks for
	Labels    map[string]string // all of these

	// SinceFrom and SinceBefore bound the time since when the account is in its
	// state, unix ns: from the one on, and before the other. 0 = no bound.
	SinceFrom, SinceBefore int64
}

// Page is one page of accounts, in the order of their ids by bytes.
type Page struct {
	Accounts []Account
	Next     string // where the next page begins (List's after); "" = this is the last
}

// List returns the accounts that match f and whose ids lie behind after, up to
// limit of them (1 to MaxLimit; outside of that, the nearer bound).
func (v *View) List(f Filter, after string, limit int) (page Page) {
	page.Next = v.Each(f, after, limit, func(a Account) { page.Accounts = append(page.Accounts, a) })
	return page
}

// Each is List that calls with each account of the page, in order, and returns
// its Next.
func (v *View) Each(f Filter, after string, limit int, with func(Account)) (rest string) {
	limit = max(1, min(limit, MaxLimit))
	walks := make([]*walk, 0, v.Partitions())
	for i := range v.Partitions() {
		walks = append(walks, newWalk(v.Part(i), &f, after, 1+limit*5/4/v.Partitions())) // its share, and a little more
	}
	defer func() {
		for _, w := range walks {
			w.end()
		}
	}()
	var last domain.AccountID
	for n := 0; ; n++ {
		next, horizon := nearest(walks)
		if next == nil || (horizon != nil && *horizon < next.id()) {
			if horizon != nil {
				rest = *horizon
			}
			return rest
		}
		if n == limit {
			return string(last)
		}
		c := next.pop()
		last = c.account.ID
		with(v.describe(c))
	}
}

// nearest returns the walk whose next account comes first, and up to which id
// all accounts have been looked at (nil: all), because some walk has looked at
// as many as it may.
func nearest(walks []*walk) (next *walk, horizon *string) {
	for _, w := range walks {
		w.fill()
		switch {
		case len(w.found) > 0 && (next == nil || w.id() < next.id()):
			next = w
		case len(w.found) == 0 && !w.done && (horizon == nil || w.after < *horizon):
			horizon = &w.after
		}
	}
	return next, horizon
}

// copied is a copy of one account, as it was at one moment.
type copied struct {
	account domain.Account
	damaged bool
}

// walk finds the matching accounts of one partition in order, some at a time.
type walk struct {
	s     *shard
	f     *Filter
	after string // all accounts up to here have been looked at
	want  int    // how many to find at a time

	found  []copied  // in order; the next one first
	copies *[]copied // the memory of found
	done   bool      // there are no more
	begun  bool
	budget int  // accounts that may still be walked over
	gather bool // the next ones are picked out of all that can match, instead
	stuck  bool // it has looked at as many accounts as it may
}

func newWalk(s *shard, f *Filter, after string, want int) *walk {
	s.settle()
	w := &walk{s: s, f: f, after: after, want: want, budget: ScanLimit, copies: copies.Get().(*[]copied)}
	if cap(*w.copies) < want {
		*w.copies = make([]copied, want)
	}
	return w
}

// copies are used again: they are most of what a page takes.
var copies = sync.Pool{New: func() any { return new([]copied) }}

// end gives back what the walk has used. What it found must not be used any more.
func (w *walk) end() {
	clear((*w.copies)[:cap(*w.copies)])
	copies.Put(w.copies)
}

func (w *walk) id() string { return string(w.found[0].account.ID) }

func (w *walk) pop() *copied {
	c := &w.found[0]
	w.found = w.found[1:]
	return c
}

// fill finds some accounts if it has none.
func (w *walk) fill() {
	if len(w.found) > 0 || w.done || w.stuck {
		return
	}
	w.found = (*w.copies)[:0]
	if !w.begun {
		w.begin()
	}
	if !w.gather {
		for w.budget > 0 && !w.done && len(w.found) < w.want {
			w.scan()
		}
		if len(w.found) > 0 || w.done {
			return
		}
		n, _, _ := w.spread()
		w.gather = n <= GatherLimit
		w.stuck = !w.gather
	}
	for w.gather && len(w.found) == 0 && !w.done {
		w.pick()
	}
}

// begin chooses the way that looks at fewer accounts: of n that can match among
// all, evenly spread, the first ones are found after so many steps along the
// order. When they turn out not to be spread like that, the other way is taken
// after as many steps as it would cost itself.
func (w *walk) begin() {
	w.begun = true
	n, all, narrowed := w.spread()
	if narrowed && n <= GatherLimit {
		w.gather = n*n <= w.want*all
		w.budget = min(w.budget, max(n, atOnce))
	}
}

// spread is how many accounts can match at most, of how many, and whether they
// were narrowed down at all.
func (w *walk) spread() (n, all int, narrowed bool) {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	n, lists := w.s.matcher(w.f).fewest()
	return n, w.s.shown, lists != nil
}

// scan walks over some accounts in the order of their ids.
func (w *walk) scan() {
	s := w.s
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.ids.RLock()
	defer s.ids.RUnlock()
	m := s.matcher(w.f)
	first, ok := s.seek(max(w.after, w.f.Prefix), w.f.Prefix > w.after)
	if !ok {
		w.done = true
		return
	}
	looked, last := 0, first
	ended := true
	s.order.Ascend(first, func(number uint32) bool {
		if w.f.Prefix != "" && !s.ids.HasPrefix(number, w.f.Prefix) {
			return false // behind the last one with the prefix
		}
		if looked == min(atOnce, w.budget) || len(w.found) == w.want {
			ended = false
			return false
		}
		looked++
		last = number
		if m.matches(number) {
			w.found = append(w.found, s.copy(number))
		}
		return true
	})
	w.budget -= looked
	w.done = ended
	if looked > 0 {
		w.after = string(s.ids.ID(last))
	}
}

// seek returns the first account behind an id, or from it on.
func (s *shard) seek(id string, inclusive bool) (number uint32, ok bool) {
	least := 1
	if inclusive {
		least = 0
	}
	lo, hi := 0, s.order.Len()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		n, _ := s.order.GetAt(mid)
		if s.ids.CompareID(n, id) >= least {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return s.order.GetAt(lo)
}

// pick finds the next accounts among all that can match: it keeps the first ones
// by id of those that it has seen.
func (w *walk) pick() {
	s := w.s
	s.mu.RLock()
	numbers := s.matcher(w.f).gather()
	s.mu.RUnlock()
	first := make([]uint32, 0, w.want+1)
	cut := false
	for chunk := range slices.Chunk(numbers, atOnce) {
		s.mu.RLock()
		s.ids.RLock()
		m := s.matcher(w.f)
		for _, number := range chunk {
			if len(first) == w.want && s.ids.Compare(number, first[w.want-1]) > 0 {
				cut = cut || m.matches(number)
				continue
			}
			if !m.matches(number) || s.ids.CompareID(number, w.after) <= 0 || !s.ids.HasPrefix(number, w.f.Prefix) {
				continue
			}
			at, _ := slices.BinarySearchFunc(first, number, s.ids.Compare)
			if first = slices.Insert(first, at, number); len(first) > w.want {
				first, cut = first[:w.want], true
			}
		}
		s.ids.RUnlock()
		s.mu.RUnlock()
	}
	w.take(first)
	w.done = !cut
}

// take copies accounts that matched a moment ago.
func (w *walk) take(numbers []uint32) {
	s := w.s
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.ids.RLock()
	defer s.ids.RUnlock()
	m := s.matcher(w.f)
	for _, number := range numbers {
		if m.matches(number) { // it may have changed meanwhile
			w.found = append(w.found, s.copy(number))
		}
		w.after = string(s.ids.ID(number))
	}
}

// copy copies an account; the caller holds both locks.
func (s *shard) copy(number uint32) copied {
	var c copied
	r := s.rows.At(number)
	s.fill(&c.account, number, r)
	c.account.ID = s.ids.ID(number)
	c.damaged = r.flags&flagDamaged != 0
	return c
}

// get copies the account of an id, if it is shown.
func (s *shard) get(id string) (copied, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.ids.RLock()
	defer s.ids.RUnlock()
	number, ok := s.ids.Find(id)
	if !ok || int(number) >= s.rows.Len() || !s.rows.At(number).shown() {
		return copied{}, false
	}
	return s.copy(number), true
}
