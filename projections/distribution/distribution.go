// Package distribution is the view that counts a fleet: how many accounts are
// in which state, now and at any time of the last day (by minute) and of the
// last 90 days (by hour).
//
// It owns the counts. Authoritative is the history: a count is always the
// number of accounts that the fold of the history has in that state; forgotten
// accounts are not counted. Nothing in it can fail; a saved view that cannot be
// loaded is the Runner's to discard.
//
// # Time
//
// The past is told by the events' own time (At), not by when Muster heard of
// them. An event that comes late and whose time is before the account's last
// change counts from that change on, so that an account is in exactly one
// state at every instant and no count is ever negative. What is older than the
// window of a history is part of the level at its beginning.
package distribution

import (
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/shards"
)

// How far the histories reach back.
const (
	MinutesKept = 24 * 60
	HoursKept   = 90 * 24
)

// set is the parts of the view, with what every view does with them.
type set = shards.Set[shard, *shard]

// View counts accounts. Make one with New.
type View struct {
	set
	machines *machine.Registry
}

var _ projections.Renewer = (*View)(nil)

// New returns an empty view of a history of that many partitions.
func New(partitions int, machines *machine.Registry) *View {
	return &View{machines: machines, set: shards.New[shard](partitions, func(int) *shard { return newShard(machines) })}
}

// Name is "distribution".
func (v *View) Name() string { return "distribution" }

// Version is the version of what the view's state means.
func (v *View) Version() int { return 1 }

// Renew returns an empty view of the same kind.
func (v *View) Renew() projections.View { return New(v.Partitions(), v.machines) }

// Counts are numbers of accounts.
type Counts struct {
	Accounts  int
	States    map[string]int            // by state, over all machines
	Classes   map[string]int            // by class; "" = of states that no registered machine has
	ByMachine map[string]map[string]int // machine → state → accounts
}

func newCounts() Counts {
	return Counts{States: map[string]int{}, Classes: map[string]int{}, ByMachine: map[string]map[string]int{}}
}

// add counts n accounts in a state. States without accounts are left out.
func (c *Counts) add(machine, state, class string, n int) {
	if n == 0 {
		return
	}
	c.Accounts += n
	c.States[state] += n
	c.Classes[class] += n
	if c.ByMachine[machine] == nil {
		c.ByMachine[machine] = map[string]int{}
	}
	c.ByMachine[machine][state] += n
}

// Now counts the accounts as they are.
func (v *View) Now() Counts {
	counts := newCounts()
	v.read(func(s *shard) {
		for i, n := range s.now {
			st := s.states.At(uint16(i))
			counts.add(st.Machine, st.Name, st.Class, int(n))
		}
	})
	return counts
}

// ByLabel counts the accounts that have a label of this key, by its value.
func (v *View) ByLabel(key string) map[string]Counts {
	values := map[string]Counts{}
	v.read(func(s *shard) {
		for set, cells := range s.byLabel {
			value, has := s.labels.Set(uint32(set)).Map[key]
			if !has {
				continue
			}
			counts, known := values[value]
			if !known {
				counts = newCounts()
			}
			for i, n := range cells {
				st := s.states.At(uint16(i))
				counts.add(st.Machine, st.Name, st.Class, int(n))
			}
			if counts.Accounts > 0 {
				values[value] = counts
			}
		}
	})
	return values
}

// LabelKeys counts the accounts that have a label, by its key.
func (v *View) LabelKeys() map[string]int {
	keys := map[string]int{}
	v.read(func(s *shard) {
		for set, cells := range s.byLabel {
			n := 0
			for _, c := range cells {
				n += int(c)
			}
			for k := range s.labels.Set(uint32(set)).Map {
				if n > 0 {
					keys[k] += n
				}
			}
		}
	})
	return keys
}

// read calls look with each shard, which Apply does not change meanwhile.
func (v *View) read(look func(*shard)) {
	for _, s := range v.Parts() {
		s.mu.RLock()
		look(s)
		s.mu.RUnlock()
	}
}
