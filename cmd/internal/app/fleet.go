package app

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/readytime"
	"github.com/musterhq/muster/projections/stats"
	"github.com/musterhq/muster/projections/transitions"
)

// fleetQueries is the table of the questions about the fleet as a whole.
func (a *App) fleetQueries() []query.Query {
	return []query.Query{
		{Name: api.FacetsQuery, Description: "How many accounts each filter would find", Handle: query.Of(a.facets)},
		{Name: api.DistributionQuery, Description: "How many accounts are in which state, now or at a past time", Handle: query.Of(a.distribution)},
		{Name: api.HistoryQuery, Description: "How many accounts were in which state, by minute or by hour", Handle: query.Of(a.history)},
		{Name: api.ReadyTimeQuery, Description: "How long accounts take to reach RUNNING, all together and by group", Handle: query.Of(a.readyTime)},
		{Name: api.TransitionsQuery, Description: "Which edges are taken, what is rejected, why accounts log out", Handle: query.Of(a.transitions)},
	}
}

func (a *App) facets(ctx context.Context, r api.FacetsRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	filter, err := filterOf(&r.ListRequest)
	if err != nil {
		return nil, err
	}
	asOf := a.views.runner.AsOf()
	f := a.views.accounts.FacetsOf(filter)
	return api.Facets{
		Accounts: f.Accounts, Machines: f.Machines, States: f.States, Classes: f.Classes,
		Labels: f.Labels, Conditions: f.Conditions, Sources: f.Sources, Desired: f.Desired, Attention: f.Attention, Damaged: f.Damaged, AsOf: asOf,
	}, nil
}

func (a *App) distribution(ctx context.Context, r api.DistributionRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	answer, view := api.Distribution{AsOf: a.views.runner.AsOf()}, a.views.distribution
	if r.At != "" {
		if r.Label != "" {
			return nil, invalid("a past time is not counted by label; leave out at or label")
		}
		at, err := domain.ParseTime("at", r.At)
		if err != nil {
			return nil, invalid("%v", err)
		}
		counts, ok := view.At(at, time.Now().UnixNano())
		if !ok {
			return nil, notFound("the distribution is kept for the last 90 days, and %s lies outside of them", r.At)
		}
		answer.At, answer.Counts = domain.FormatTime(at), api.Counts(counts)
		return answer, nil
	}
	answer.Counts = api.Counts(view.Now())
	if r.Label != "" {
		answer.ByLabel = map[string]api.Counts{}
		for value, counts := range view.ByLabel(r.Label) {
			answer.ByLabel[value] = api.Counts(counts)
		}
	}
	return answer, nil
}

// steps are the widths of a history's buckets by name.
var steps = map[string]distribution.Step{"minute": distribution.ByMinute, "hour": distribution.ByHour}

func (a *App) history(ctx context.Context, r api.HistoryRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	if r.Step == "" {
		r.Step = "minute"
	}
	step, ok := steps[r.Step]
	if !ok {
		return nil, invalid("step is %q; it is minute or hour", r.Step)
	}
	asOf := a.views.runner.AsOf()
	h := a.views.distribution.History(step, time.Now().UnixNano())
	answer := api.History{
		Step: r.Step, Width: step.Width().Seconds(), Start: domain.FormatTime(h.Start), Series: make([]api.Series, 0, len(h.Series)), AsOf: asOf,
	}
	for _, s := range h.Series {
		answer.Series = append(answer.Series, api.Series(s))
	}
	return answer, nil
}

// dimensions are what episodes can be grouped by.
var dimensions = map[string]readytime.Dimension{
	"machine": readytime.ByMachine, "source": readytime.BySource, "label": readytime.ByLabel, "reason": readytime.ByReason,
}

func (a *App) readyTime(ctx context.Context, r api.ReadyTimeRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	by, ok := dimensions[r.By]
	if !ok && r.By != "" {
		return nil, invalid("by is %q; it is one of %s", r.By, strings.Join(slices.Sorted(maps.Keys(dimensions)), ", "))
	}
	answer, view, now := api.ReadyTime{By: r.By, AsOf: a.views.runner.AsOf()}, a.views.readytime, time.Now().UnixNano()
	if r.Window != "" {
		d, err := time.ParseDuration(r.Window)
		switch {
		case err != nil || d < 0:
			return nil, invalid("window is %q; it is a duration such as 24h", r.Window)
		case ok:
			return nil, invalid("a window is not told by group; leave out by or window")
		}
		w := readytime.Last(d, now)
		answer.From = domain.FormatTime(w.From)
		answer.Onboarding = stats.EpisodesOf(view.Within(readytime.Onboarding, w, now))
		answer.Recovery = stats.EpisodesOf(view.Within(readytime.Recovery, w, now))
		return answer, nil
	}
	answer.Onboarding = stats.EpisodesOf(view.Estimate(readytime.Onboarding, now))
	answer.Recovery = stats.EpisodesOf(view.Estimate(readytime.Recovery, now))
	if !ok {
		return answer, nil
	}
	answer.Groups = map[string]stats.TimeToRunning{}
	onboarding, recovery := view.By(readytime.Onboarding, by, now), view.By(readytime.Recovery, by, now)
	for _, groups := range []map[string]readytime.Estimate{onboarding, recovery} {
		for name := range groups {
			answer.Groups[name] = stats.TimeToRunning{
				Onboarding: stats.EpisodesOf(onboarding[name]), Recovery: stats.EpisodesOf(recovery[name]),
			}
		}
	}
	return answer, nil
}

func (a *App) transitions(ctx context.Context, r api.TransitionsRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	if r.Minutes < 0 || r.Minutes > transitions.MinutesKept {
		return nil, invalid("minutes is 0 to %d, not %d", transitions.MinutesKept, r.Minutes)
	}
	answer, now := api.Transitions{AsOf: a.views.runner.AsOf()}, time.Now().UnixNano()
	n := a.views.transitions.Numbers(now)
	answer.Total, answer.LastMinute = n.Total, n.LastMinute
	answer.Edges, answer.Rejected = edgesOf(n.Edges), edgesOf(n.Rejected)
	answer.LoggedOut = stats.LoggedOut{Total: n.LoggedOut, ByReason: n.ByReason}
	answer.Outcomes = n.Outcomes
	if r.Minutes > 0 {
		p := a.views.transitions.PerMinute(now, r.Minutes)
		answer.PerMinute = &api.PerMinute{Start: domain.FormatTime(p.Start), Edges: seriesOf(p.Edges), Rejected: seriesOf(p.Rejected)}
	}
	if r.Window != "" {
		window, err := time.ParseDuration(r.Window)
		if err != nil || window <= 0 || window > transitions.LossesWindow {
			return nil, invalid("window is %q; it is a duration such as 10m, 1h at most", r.Window)
		}
		answer.Flapping = a.flapping(now, window)
	}
	return answer, nil
}

func edgesOf(list []transitions.EdgeCount) []stats.Edge {
	out := make([]stats.Edge, 0, len(list))
	for _, e := range list {
		out = append(out, stats.Edge{From: e.From, Trigger: e.Trigger, To: e.To, Count: e.Count})
	}
	return out
}

func seriesOf(list []transitions.EdgeSeries) []api.EdgeSeries {
	out := make([]api.EdgeSeries, 0, len(list))
	for _, e := range list {
		out = append(out, api.EdgeSeries{From: e.From, Trigger: e.Trigger, To: e.To, Counts: e.Counts})
	}
	return out
}
