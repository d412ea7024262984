// Package readytime is the view that says how long accounts take to reach
// RUNNING, without forgetting those that never do.
//
// It owns the episodes: when each began, how it ended, how long it lasted.
// Authoritative is the history. Nothing in it can fail.
//
// # Episodes
//
// RUNNING stands for every state of class ready. DEGRADED is of class limited:
// an account that comes back DEGRADED has not come back, and its episode goes
// on until it is RUNNING.
//
// An onboarding begins when an account that was never ready is started: at the
// first applied event that brings it into a state of class starting or human.
// Later starts do not begin it again while it lasts. If it is abandoned, the
// next start begins another one, until the account has been ready once. An
// account that was adopted (taken over from a running fleet) has no
// onboarding: it lies before its history.
//
// A recovery begins when an account is lost: when it leaves a state of class
// ready or limited for one of class down, recovering, starting or human, other
// than by a logout. A new start after a stop or a logout begins no episode:
// nothing was lost.
//
// Both end reached (a state of class ready) or abandoned (a state of class
// stopped or idle, a logout, or the account is forgotten). Until then they are
// open. Their length is the difference of the events' own times (At), never
// less than 0.
//
// # Estimates
//
// The plain mean is that of the episodes that reached RUNNING: an average over
// the lucky ones. The quantiles come from the Kaplan-Meier estimate, which
// counts those that still wait; see [Curve] for it and for what abandonment
// does to it.
//
// By machine, source, label and reason an episode counts where its account was
// when it ended, or is. By window it counts where it began: see [View.Within].
package readytime

import (
	"time"

	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/shards"
)

// The bounds of the view, for each partition.
const (
	// ExactAll and ExactGroup are the numbers of ended episodes whose length
	// is kept exactly: over all of one kind and end, and in one group of them.
	// With more, all of them are kept in buckets 1 % wide.
	ExactAll   = 8192
	ExactGroup = 512
	// MaxGroups is the number of groups told apart for each dimension; what
	// goes beyond is in the group Other.
	MaxGroups = 256
	// Other stands for what goes beyond the bounds.
	Other = "other"
)

// Kind is the kind of an episode.
type Kind uint8

// The kinds of episodes.
const (
	Onboarding Kind = iota + 1
	Recovery
)

// String is the kind's name.
func (k Kind) String() string {
	if k == Recovery {
		return "recovery"
	}
	return "onboarding"
}

// Dimension is what episodes can be grouped by.
type Dimension uint8

// The dimensions.
const (
	// ByMachine: the account's machine.
	ByMachine Dimension = iota + 1
	// BySource: the account's source at the end of the episode, or now; "" =
	// only users and Muster itself have spoken.
	BySource
	// ByLabel: each of the account's labels at the end, or now, as key=value;
	// an account without labels is in no group, one with two in two.
	ByLabel
	// ByReason: the reason code of the event that began the episode, or its
	// trigger when it gave none.
	ByReason
)

// set is the parts of the view, with what every view does with them.
type set = shards.Set[shard, *shard]

// View keeps the episodes. Make one with New.
type View struct {
	set
	machines *machine.Registry
}

var _ projections.Renewer = (*View)(nil)

// New returns an empty view of a history of that many partitions.
func New(partitions int, machines *machine.Registry) *View {
	return &View{machines: machines, set: shards.New[shard](partitions, func(int) *shard { return newShard(machines) })}
}

// Name is "readytime".
func (v *View) Name() string { return "readytime" }

// Version is the version of what the view's state means.
func (v *View) Version() int { return 2 }

// Renew returns an empty view of the same kind.
func (v *View) Renew() projections.View { return New(v.Partitions(), v.machines) }

// Estimate is what is known of the episodes of one kind. Times are seconds.
type Estimate struct {
	Reached, Abandoned, Open int

	Mean             *float64 // of those that reached RUNNING; nil: none has
	Median, P90, P99 Quantile // counting those that still wait

	Curve Curve
}

// Estimate tells of all episodes of a kind as they stand at now (unix ns).
func (v *View) Estimate(kind Kind, now int64) Estimate {
	var all group
	var waiting sample
	for _, s := range v.Parts() {
		s.copyOpen(func() {
			if g := s.groups[groupKey{kind: kind}]; g != nil {
				all.merge(g)
			}
		}, func(episodes []open) {
			for i := range episodes {
				if ep := &episodes[i]; ep.kind == kind {
					waiting.add(time.Duration(now-ep.since), ExactAll)
				}
			}
		})
	}
	return estimate(&all, &waiting)
}

// By is Estimate for each group of a dimension.
func (v *View) By(kind Kind, by Dimension, now int64) map[string]Estimate {
	groups, waiting := map[string]*group{}, map[string]*sample{}
	add := func(name string) {
		if groups[name] == nil {
			groups[name], waiting[name] = &group{}, &sample{}
		}
	}
	for _, s := range v.Parts() {
		s.copyOpen(func() {
			for key, g := range s.groups {
				if key.kind == kind && key.by == by {
					add(key.name)
					groups[key.name].merge(g)
				}
			}
		}, func(episodes []open) {
			s.eachGroup(episodes, by, func(ep open, name string) {
				if ep.kind == kind {
					add(name)
					waiting[name].add(time.Duration(now-ep.since), ExactAll)
				}
			})
		})
	}
	estimates := make(map[string]Estimate, len(groups))
	for name, g := range groups {
		estimates[name] = estimate(g, waiting[name])
	}
	return estimates
}

// estimate fits the curve.
func estimate(ended *group, waiting *sample) Estimate {
	e := Estimate{Reached: ended.reached.n, Abandoned: ended.abandoned.n, Open: waiting.n, Mean: ended.reached.mean()}
	observations := ended.reached.observe(nil, Reached)
	observations = ended.abandoned.observe(observations, Abandoned)
	e.Curve = Fit(waiting.observe(observations, Waiting))
	e.Median, e.P90, e.P99 = e.Curve.Quantile(0.5), e.Curve.Quantile(0.9), e.Curve.Quantile(0.99)
	return e
}
