// Package accounts is the view that shows every account as it is now, and
// finds accounts by id, state and label.
//
// It owns nothing but a copy: each account is the fold of domain.Evolve over
// its events, less what only the judge needs (remembered ids, epochs, times of
// sources, retries) and less its messages and conversations, which the view talk
// keeps. That takes about 85 bytes for the row and its places in the indexes,
// beside 45 for the id in the roster, and more only for accounts with
// conditions. Authoritative is the history. Accounts that
// were forgotten are not shown; accounts with a damaged history are shown and
// say so. Nothing in it can fail.
//
// # Finding
//
// Accounts are in the order of their ids, by bytes. A page is read by walking
// that order from where the last one ended, or, when few accounts are in the
// states or have the labels asked for, by picking the next ones out of those few. Neither ever
// looks at more than so many accounts (ScanLimit, GatherLimit): a page may
// hold fewer accounts than asked for, even none, and still have a next one.
// Each account is shown whole, as it was at one moment; a page is not one
// moment of the whole fleet, since events go on while it is read.
//
// # Counting
//
// Accounts that have all in common that can be filtered by, but for id and time,
// are one cell with a count, which is kept as events are applied. A fleet has
// some hundreds or thousands of cells in a partition, and counting is a walk over
// them; where nearly every account has labels or a source of its own, there are
// as many cells as accounts, and it takes some 30 ns for each.
package accounts

import (
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/shards"
)

// AttentionDamaged is the kind of attention of an account whose history is
// damaged.
const AttentionDamaged = domain.AttentionDamaged

// set is the parts of the view, with what every view does with them.
type set = shards.Set[shard, *shard]

// View shows accounts. Make one with New.
type View struct {
	set
	roster *projections.Roster
	judge  *domain.Judge
}

var (
	_ projections.DamageObserver = (*View)(nil)
	_ projections.Settler        = (*View)(nil)
	_ projections.Renewer        = (*View)(nil)
)

// New returns an empty view. The judge says what an account can do and what
// needs attention.
func New(roster *projections.Roster, judge *domain.Judge) *View {
	return &View{roster: roster, judge: judge, set: shards.New[shard](roster.Partitions(), func(p int) *shard { return newShard(roster.Ids(p), judge.Machines()) })}
}

// Name is "accounts".
func (v *View) Name() string { return "accounts" }

// Version is the version of what the view's state means. It grows with that of
// the fold.
func (v *View) Version() int { return 3 + 1000*domain.FoldVersion }

// Renew returns an empty view of the same kind.
func (v *View) Renew() projections.View { return New(v.roster, v.judge) }

// Damaged marks an account whose history is damaged.
func (v *View) Damaged(at projections.Place) { v.Part(at.Partition).damaged(at) }

// Settle makes the view ready to be asked for pages.
func (v *View) Settle() {
	for i := range v.Partitions() {
		v.Part(i).settle()
	}
}

// Account is one account as users see it, but for its messages and
// conversations, and the attention that they ask for. Its labels are shared by
// all accounts that have the same, and must not be changed.
type Account struct {
	domain.AccountView
	Damaged bool `json:"damaged,omitempty"` // an event of it is missing or unreadable
}

// describe makes what users see of a row's copy.
func (v *View) describe(c *copied) Account {
	labels := c.account.Labels
	c.account.Labels = nil
	a := Account{AccountView: v.judge.Describe(&c.account), Damaged: c.damaged}
	if len(labels) > 0 {
		a.Labels = labels
	}
	if a.Damaged {
		a.Attention = append(a.Attention, AttentionDamaged)
	}
	return a
}

// Get returns one account; ok is false when there is none of this id, or it was
// forgotten.
func (v *View) Get(id domain.AccountID) (a Account, ok bool) {
	s := v.Part(eventlog.Partition(string(id), v.Partitions()))
	c, ok := s.get(string(id))
	if !ok {
		return Account{}, false
	}
	return v.describe(&c), true
}

// Len is the number of accounts shown.
func (v *View) Len() (n int) {
	v.read(func(s *shard) { n += s.shown })
	return n
}

// read calls look with each shard, which Apply does not change meanwhile.
func (v *View) read(look func(*shard)) {
	for _, s := range v.Parts() {
		s.mu.RLock()
		look(s)
		s.mu.RUnlock()
	}
}
