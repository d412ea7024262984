// Package stays is the view that knows how long accounts stay in their states,
// and for which reason those that are there came.
//
// It owns the lengths of the stays that have ended, by machine and state, in
// buckets 5 % wide (so a quantile is right to 2.5 %), and for each account the
// state it is in, since when and why. Authoritative is the history. Nothing in it
// can fail; a saved view that cannot be loaded is the Runner's to discard.
//
// The lengths are of stays that have ended: the accounts that are still in a
// state are counted, not measured. A stay is timed by the events' own time; one
// that ends with an earlier time than it began lasted no time. That an account
// was forgotten ends its stay without a length.
//
// An account takes 16 bytes, a state 2.2 kB for each partition.
package stays

import (
	"cmp"
	"slices"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/lengths"
	"github.com/musterhq/muster/projections/internal/shards"
)

// MaxReasons is the number of reasons told apart in a partition; what goes
// beyond is Other.
const (
	MaxReasons = 4096
	Other      = "other"
)

// set is the parts of the view, with what every view does with them.
type set = shards.Set[shard, *shard]

// View knows stays. Make one with New.
type View struct {
	set
	roster   *projections.Roster
	machines *machine.Registry
}

var _ projections.Renewer = (*View)(nil)

// New returns an empty view.
func New(roster *projections.Roster, machines *machine.Registry) *View {
	return &View{roster: roster, machines: machines, set: shards.New[shard](roster.Partitions(), func(int) *shard { return newShard(machines) })}
}

// Name is "stays".
func (v *View) Name() string { return "stays" }

// Version is the version of what the view's state means.
func (v *View) Version() int { return 2 }

// Renew returns an empty view of the same kind.
func (v *View) Renew() projections.View { return New(v.roster, v.machines) }

// Stay is where an account is.
type Stay struct {
	Machine string
	State   string
	Since   int64  // unix ns
	Reason  string // the reason code of the event that led there, or its trigger when it gave none; "" = none did
}

// Of returns where an account is; ok is false when there is none of this id, or
// it was forgotten.
func (v *View) Of(account domain.AccountID) (stay Stay, ok bool) {
	p := eventlog.Partition(string(account), v.Partitions())
	ids := v.roster.Ids(p)
	ids.RLock()
	number, known := ids.Find(string(account))
	ids.RUnlock()
	if !known {
		return Stay{}, false
	}
	return v.Part(p).of(number)
}

// Now counts the accounts that are in a state, and those of them that came for
// a reason.
func (v *View) Now(machine, state, reason string) (inState, forReason int) {
	for i := range v.Partitions() {
		a, b := v.Part(i).count(machine, state, reason)
		inState, forReason = inState+a, forReason+b
	}
	return inState, forReason
}

// Lengths are how long the stays in one state were that have ended.
type Lengths = lengths.Lengths

// Ended returns the lengths of the stays in a state.
func (v *View) Ended(machine, state string) (l Lengths) {
	for i := range v.Partitions() {
		v.Part(i).addLengths(machine, state, &l)
	}
	return l
}

// Dwell is how long accounts stay in one state.
type Dwell struct {
	Machine string
	State   string
	Now     int     // accounts that are in it
	Ended   Lengths // the stays that have ended
}

// Dwell tells of every state in which an account is, or was until it moved on, by
// machine and state.
func (v *View) Dwell() []Dwell {
	type name struct{ machine, state string }
	sums := map[name]*Dwell{}
	for i := range v.Partitions() {
		v.Part(i).each(func(machine, state string, now int, ended *Lengths) {
			d := sums[name{machine, state}]
			if d == nil {
				d = &Dwell{Machine: machine, State: state}
				sums[name{machine, state}] = d
			}
			d.Now += now
			d.Ended.Merge(ended)
		})
	}
	list := make([]Dwell, 0, len(sums))
	for _, d := range sums {
		list = append(list, *d)
	}
	slices.SortFunc(list, func(a, b Dwell) int { return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.State, b.State)) })
	return list
}
