// Package stats puts the numbers of the views distribution, transitions and
// readytime together into one object, the answer to "how is the fleet".
//
// It owns the object's shape, which users and checks rely on, and no number:
// each is asked of its view. It is no view itself and keeps nothing. It cannot
// fail.
package stats

import (
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/readytime"
	"github.com/musterhq/muster/projections/transitions"
)

// Stats is the fleet in numbers.
type Stats struct {
	// AsOf is the position at least reached, by partition.
	AsOf     map[int]uint64 `json:"as_of"`
	Accounts int            `json:"accounts"`

	States    map[string]int            `json:"states"`
	Classes   map[string]int            `json:"classes"`
	ByMachine map[string]map[string]int `json:"by_machine"` // machine → state → accounts

	Transitions   Transitions       `json:"transitions"`
	LoggedOut     LoggedOut         `json:"logged_out"`
	Outcomes      map[string]uint64 `json:"outcomes"` // all events: applied, noop, stale, rejected
	TimeToRunning TimeToRunning     `json:"time_to_running"`
}

// Transitions counts the applied changes of state.
type Transitions struct {
	Total      uint64 `json:"total"`
	LastMinute uint64 `json:"last_minute"`
	Edges      []Edge `json:"edges"` // most frequent first, then by name
}

// Edge is how often an edge was taken.
type Edge struct {
	From    string `json:"from"`
	Trigger string `json:"trigger"`
	To      string `json:"to"`
	Count   uint64 `json:"count"`
}

// LoggedOut counts the moves into LOGGED_OUT.
type LoggedOut struct {
	Total    uint64            `json:"total"`
	ByReason map[string]uint64 `json:"by_reason"` // by reason code; "" = none was given
}

// TimeToRunning is how long accounts take to reach RUNNING.
type TimeToRunning struct {
	Onboarding Episodes `json:"onboarding"`
	Recovery   Episodes `json:"recovery"`
}

// Episodes are the figures over the episodes of one kind, in seconds. null:
// nothing has reached RUNNING (mean_s), or too many still wait for the estimate
// to reach that quantile (or that end of the band).
type Episodes struct {
	Reached   int         `json:"reached"`
	Abandoned int         `json:"abandoned"`
	Open      int         `json:"open"`
	Mean      *float64    `json:"mean_s"`
	Median    *float64    `json:"median_s"`
	P90       *float64    `json:"p90_s"`
	P99       *float64    `json:"p99_s"`
	MedianCI  [2]*float64 `json:"median_ci_s"` // 95 %
}

// Of asks the views for their numbers at now (unix ns). asOf is the Runner's
// position, asked for before.
func Of(asOf map[int]uint64, d *distribution.View, tr *transitions.View, r *readytime.View, now int64) Stats {
	counts, n := d.Now(), tr.Numbers(now)
	s := Stats{
		AsOf: asOf, Accounts: counts.Accounts,
		States: counts.States, Classes: counts.Classes, ByMachine: counts.ByMachine,
		Transitions: Transitions{Total: n.Total, LastMinute: n.LastMinute, Edges: make([]Edge, 0, len(n.Edges))},
		LoggedOut:   LoggedOut{Total: n.LoggedOut, ByReason: n.ByReason},
		Outcomes:    n.Outcomes,
		TimeToRunning: TimeToRunning{
			Onboarding: EpisodesOf(r.Estimate(readytime.Onboarding, now)),
			Recovery:   EpisodesOf(r.Estimate(readytime.Recovery, now)),
		},
	}
	for _, e := range n.Edges {
		s.Transitions.Edges = append(s.Transitions.Edges, Edge{From: e.From, Trigger: e.Trigger, To: e.To, Count: e.Count})
	}
	return s
}

// EpisodesOf writes an estimate in the form of the object.
func EpisodesOf(e readytime.Estimate) Episodes {
	return Episodes{
		Reached: e.Reached, Abandoned: e.Abandoned, Open: e.Open, Mean: e.Mean,
		Median: e.Median.Seconds, P90: e.P90.Seconds, P99: e.P99.Seconds,
		MedianCI: [2]*float64{e.Median.Low, e.Median.High},
	}
}
