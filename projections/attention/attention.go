// Package attention is the view that says who needs a human: which accounts,
// for what, since when and why, one by one or grouped into incidents.
//
// It owns no judgement. Authoritative is the history: the kinds of attention of
// an account are those that the judge names for its fold (domain.Judge.Attention),
// and `damaged` for one whose history is not whole. Forgotten accounts are not
// shown. Nothing in it can fail; a saved view that cannot be loaded is the
// Runner's to discard.
//
// # Incidents
//
// What many accounts of one source need for one reason at one time is one thing
// to look at. An incident is the items of one kind, source and reason that began
// in the same minute of the clock or in minutes that follow one another: so all
// that begin within a minute of each other are together, and an outage that
// takes its accounts down over five minutes is one incident. Which items are
// together follows from when they began and from nothing else.
//
// An item's source is the account's when the item began. Its reason is that of
// the condition, or the reason code or trigger of the event that began it.
//
// # Memory
//
// An account takes 16 bytes; one with an item some 130 more, and 100 for each
// contact that waits for an answer.
package attention

import (
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/shards"
)

// The bounds of what is told apart and of an answer.
const (
	MaxLimit   = 1000
	ScanLimit  = 65_536 // items of each partition that are looked at for a page of accounts
	MaxReasons = 4096   // reasons told apart in a partition; what goes beyond is Other
	Other      = "other"
)

// set is the parts of the view, with what every view does with them.
type set = shards.Set[shard, *shard]

// View says who needs a human. Make one with New.
type View struct {
	set
	roster   *projections.Roster
	machines *machine.Registry
}

var (
	_ projections.DamageObserver = (*View)(nil)
	_ projections.Settler        = (*View)(nil)
	_ projections.Renewer        = (*View)(nil)
)

// New returns an empty view.
func New(roster *projections.Roster, machines *machine.Registry) *View {
	return &View{roster: roster, machines: machines, set: shards.New[shard](roster.Partitions(), func(p int) *shard { return newShard(roster.Ids(p), machines) })}
}

// Name is "attention".
func (v *View) Name() string { return "attention" }

// Version is the version of what the view's state means.
func (v *View) Version() int { return 1 }

// Renew returns an empty view of the same kind.
func (v *View) Renew() projections.View { return New(v.roster, v.machines) }

// Damaged marks an account whose history is damaged.
func (v *View) Damaged(at projections.Place) { v.Part(at.Partition).damaged(at) }

// Settle makes the view ready to be asked.
func (v *View) Settle() {
	for i := range v.Partitions() {
		v.Part(i).settle()
	}
}

// Item is one thing that one account needs a human for.
type Item struct {
	Account domain.AccountID
	Kind    string
	Since   int64 // unix ns
	Reason  string
	Source  string
	State   string // of the account, now
	Labels  map[string]string
}

// Filter says which items are wanted. What is empty does not filter; all else
// must hold at once.
type Filter struct {
	Kind   string
	Source string
	Labels map[string]string // of the account, all of these
}

// Size counts what is shown: items by kind.
func (v *View) Size() map[string]int {
	n := map[string]int{}
	for i := range v.Partitions() {
		v.Part(i).addSize(n)
	}
	return n
}
