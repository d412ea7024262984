package httpapi

import (
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/projections/stats"
)

type distributionInput struct {
	Waits
	At    string `query:"at" format:"date-time" doc:"a past time; absent: now"`
	Label string `query:"label" doc:"name of a label: count by its values, too"`
}

type historyInput struct {
	Waits
	Step string `query:"step" enum:"minute,hour" doc:"minute: of the last 24 hours (default); hour: of the last 90 days"`
}

type readyTimeInput struct {
	Waits
	By     string `query:"by" enum:"machine,source,label,reason" doc:"group by this, too"`
	Window string `query:"window" doc:"a duration such as 24h: only what began in so much time up to now, from a full hour on, or beyond 48h from a midnight (UTC) on, 90 days at most. Not with by"`
}

type transitionsInput struct {
	Waits
	Minutes int    `query:"minutes" minimum:"0" maximum:"1440" doc:"with a count for each of the last minutes"`
	Window  string `query:"window" doc:"a duration up to 1h, such as 10m: which accounts are flapping, and which moved into DISCONNECTED how often in so much time up to now"`
}

func (a *API) fleetRoutes() {
	const tag = "fleet"
	get[Waits, stats.Stats](a, operation{
		path: "/v1/stats", id: "stats", tag: tag, summary: "The fleet in numbers: distribution, transitions, time to RUNNING",
	}, api.StatsQuery, func(in *Waits) (any, error) { return api.StatsRequest{WaitFor: in.waitFor()}, nil })
	get[distributionInput, api.Distribution](a, operation{
		path: "/v1/distribution", id: "distribution", tag: tag, errors: missing,
		summary: "How many accounts are in which state, now or at a past time",
	}, api.DistributionQuery, func(in *distributionInput) (any, error) {
		return api.DistributionRequest{At: in.At, Label: in.Label, WaitFor: in.waitFor()}, nil
	})
	get[historyInput, api.History](a, operation{
		path: "/v1/distribution/history", id: "distributionHistory", tag: tag,
		summary: "How many accounts were in which state, by minute or by hour",
	}, api.HistoryQuery, func(in *historyInput) (any, error) {
		return api.HistoryRequest{Step: in.Step, WaitFor: in.waitFor()}, nil
	})
	get[readyTimeInput, api.ReadyTime](a, operation{
		path: "/v1/time-to-running", id: "timeToRunning", tag: tag, summary: "How long accounts take to reach RUNNING, all together and by group",
		description: "Quantiles are Kaplan-Meier estimates that count the accounts which still wait; null where too many do. mean_s is of those that reached RUNNING.",
	}, api.ReadyTimeQuery, func(in *readyTimeInput) (any, error) {
		return api.ReadyTimeRequest{By: in.By, Window: in.Window, WaitFor: in.waitFor()}, nil
	})
	get[transitionsInput, api.Transitions](a, operation{
		path: "/v1/transitions", id: "transitions", tag: tag, summary: "Which edges are taken, what is rejected, why accounts log out",
	}, api.TransitionsQuery, func(in *transitionsInput) (any, error) {
		return api.TransitionsRequest{Minutes: in.Minutes, Window: in.Window, WaitFor: in.waitFor()}, nil
	})
	get[Waits, api.Digest](a, operation{
		path: "/v1/digest", id: "digest", tag: tag, summary: "The digest of the whole fleet's state",
		description: "Two servers, or a server and a replay, with the same digest hold the same state. It looks at every account.",
	}, api.DigestQuery, func(in *Waits) (any, error) { return api.DigestRequest{WaitFor: in.waitFor()}, nil })
}
