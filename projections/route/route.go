// Package route is the view that picks accounts for a send: those that may do
// it now, the one that was used longest ago first.
//
// It owns nothing but an order. Authoritative is the history: an account is
// eligible when the judge, asked about the fold, says that it can (domain.Judge.Can),
// and forgotten accounts never are. Nothing in it can fail; a saved view that
// cannot be loaded is the Runner's to discard.
//
// # Used
//
// An account was used when its last message_pending or message_sent was
// observed, whichever is later; one that has had none, when it entered its
// state. A caller that records message_pending before it sends moves the account
// to the end, so that the next caller is given another one.
//
// # Order
//
// Accounts that may do the same, and are kept from the same scopes, are a group.
// Each group is held in the order of last use, once for all and once for each
// label, so that the first n of a group with a label are read off. Only who asks
// for two labels at once looks at accounts that have just one of them: at
// ScanLimit of a group at most, and the answer then says that it is not whole.
//
// An account takes 24 bytes, and 23 more for each of its labels and once for
// none. The order is built when the history has been replayed.
package route

import (
	"cmp"
	"slices"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/shards"
)

// set is the parts of the view, with what every view does with them.
type set = shards.Set[shard, *shard]

// View picks accounts. Make one with New.
type View struct {
	set
	roster   *projections.Roster
	machines *machine.Registry
}

var (
	_ projections.Settler = (*View)(nil)
	_ projections.Renewer = (*View)(nil)
)

// New returns an empty view.
func New(roster *projections.Roster, machines *machine.Registry) *View {
	return &View{roster: roster, machines: machines, set: shards.New[shard](roster.Partitions(), func(p int) *shard { return newShard(roster.Ids(p), machines) })}
}

// Name is "route".
func (v *View) Name() string { return "route" }

// Version is the version of what the view's state means.
func (v *View) Version() int { return 1 }

// Renew returns an empty view of the same kind.
func (v *View) Renew() projections.View { return New(v.roster, v.machines) }

// Settle builds the order.
func (v *View) Settle() {
	for i := range v.Partitions() {
		v.Part(i).settle()
	}
}

// MaxLimit is the most accounts that one answer holds.
const MaxLimit = 1000

// Want says which accounts are looked for.
type Want struct {
	Do     string // machine.CanRead, CanSend or CanBulk
	Scope  string // "" = none named
	Labels map[string]string
}

// Candidate is an account that may be used.
type Candidate struct {
	Account domain.AccountID
	Machine string
	State   string
	Used    int64 // unix ns: its last message_pending or message_sent; 0 = it has had none
	Since   int64 // unix ns: when it entered its state
	Labels  map[string]string
}

// Pick returns the accounts that may do what is wanted, the one used longest ago
// first, up to n of them (1 to MaxLimit; outside of that, the nearer bound).
// whole is false when there may be others that come before some of them. All are
// as they were at one moment.
func (v *View) Pick(w Want, n int) (list []Candidate, whole bool) {
	n, whole = max(1, min(n, MaxLimit)), true
	shards := make([]*shard, v.Partitions())
	for i := range v.Partitions() {
		shards[i] = v.Part(i)
		shards[i].settle()
	}
	for _, s := range shards {
		s.mu.RLock()
		defer s.mu.RUnlock()
		s.ids.RLock()
		defer s.ids.RUnlock()
	}
	var first []found
	for _, s := range shards {
		all := s.pick(&w, n, &first)
		whole = whole && all
	}
	slices.SortFunc(first, func(a, b found) int {
		if a.last != b.last {
			return cmp.Compare(a.last, b.last)
		}
		return a.shard.ids.CompareWith(a.account, b.shard.ids, b.account)
	})
	list = make([]Candidate, 0, min(n, len(first)))
	for _, f := range first[:min(n, len(first))] {
		list = append(list, f.shard.candidate(f.account))
	}
	return list, whole
}

// found is an account that matches.
type found struct {
	shard   *shard
	last    int64
	account uint32
}

// Eligible counts the accounts that may do what is wanted, whatever their labels.
func (v *View) Eligible(do, scope string) (n int) {
	for i := range v.Partitions() {
		n += v.Part(i).eligible(&Want{Do: do, Scope: scope})
	}
	return n
}
