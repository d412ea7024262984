package domain

import "container/heap"

// Agenda keeps the next deadline of each account and gives them out in the
// order in which they are to be judged: by due time, then by kind, then by
// account id and the deadline's own name, both by bytes. It keeps only when to
// look; what is due then is what [Judge.Due] says of the account at that
// moment. It is not safe for use from several goroutines.
type Agenda struct {
	items  entries
	places map[AccountID]*entry
}

type entry struct {
	account AccountID
	at      int64
	sub     string
	rank    int32
	place   int32
}

// before is the order in which deadlines are judged.
func (e *entry) before(o *entry) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.rank != o.rank {
		return e.rank < o.rank
	}
	if e.account != o.account {
		return e.account < o.account
	}
	return e.sub < o.sub
}

// NewAgenda returns an empty agenda.
func NewAgenda() *Agenda { return &Agenda{places: map[AccountID]*entry{}} }

// Set makes d the account's next deadline, in place of the one before.
func (g *Agenda) Set(account AccountID, d Deadline) {
	if e, ok := g.places[account]; ok {
		if e.at != d.At || e.rank != int32(d.Rank) || e.sub != d.Sub {
			e.at, e.rank, e.sub = d.At, int32(d.Rank), d.Sub
			heap.Fix(&g.items, int(e.place))
		}
		return
	}
	e := &entry{account: account, at: d.At, rank: int32(d.Rank), sub: d.Sub}
	g.places[account] = e
	heap.Push(&g.items, e)
}

// Remove forgets the account's deadline, if it has one.
func (g *Agenda) Remove(account AccountID) {
	if e, ok := g.places[account]; ok {
		heap.Remove(&g.items, int(e.place))
		delete(g.places, account)
	}
}

// Update asks the judge for the account's next deadline and keeps it.
func (g *Agenda) Update(j *Judge, a *Account) {
	if d, ok := j.Due(a); ok {
		g.Set(a.ID, d)
	} else {
		g.Remove(a.ID)
	}
}

// Next returns when the first deadline is due, without taking it; ok is false
// when there is none.
func (g *Agenda) Next() (at int64, ok bool) {
	if len(g.items) == 0 {
		return 0, false
	}
	return g.items[0].at, true
}

// PopDue takes the first deadline off when it is due at now or before; ok is
// false when none is. Ask Judge.Due what is due, judge it, and Set or Update
// the account anew.
func (g *Agenda) PopDue(now int64) (account AccountID, ok bool) {
	if at, some := g.Next(); !some || at > now {
		return "", false
	}
	account = g.items[0].account
	g.Remove(account)
	return account, true
}

// Len is the number of accounts that have a deadline.
func (g *Agenda) Len() int { return len(g.items) }

// entries is the heap; entry.place is where each one stands.
type entries []*entry

func (s entries) Len() int { return len(s) }

func (s entries) Less(i, j int) bool { return s[i].before(s[j]) }

func (s entries) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = int32(i), int32(j)
}

// Push is for container/heap.
func (s *entries) Push(x any) {
	e := x.(*entry)
	e.place = int32(len(*s))
	*s = append(*s, e)
}

// Pop is for container/heap.
func (s *entries) Pop() any {
	old := *s
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	return e
}
