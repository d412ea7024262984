package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/musterhq/muster/bus/alert"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/bus/feed"
	"github.com/musterhq/muster/bus/inbox"
	"github.com/musterhq/muster/cmd/internal/buildinfo"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/readytime"
	projected "github.com/musterhq/muster/projections/transitions"
)

// Sources are where the numbers come from, asked at each scrape. A nil function,
// and one whose part does not run, has no series. They may be called from several
// goroutines.
type Sources struct {
	Ready        func() bool
	Replay       func() time.Duration // 0 = not done yet
	Distribution func() distribution.Counts
	ClassOf      func(machine, state string) string // of a state; "" = not known
	Transitions  func() projected.Numbers
	ReadyTime    func() *readytime.View // nil = not there yet
	Attention    func() map[string]int
	Views        func() (status projections.Status, asOf map[int]uint64)
	Connectors   func() []hub.Stats
	Inbox        func() (s inbox.Stats, parked uint64, ok bool)
	Alerts       func() (alert.Counts, bool)
	Feed         func() feed.Stats
	Workers      func() map[string]int
	Tokens       func() map[string]int
	DiskFree     func() (bytes uint64, ok bool)
	Sync         func() string // the mode's name
}

// The most series of the metrics whose labels users have a hand in.
const (
	mostAccounts    = 500
	mostEdges       = 500
	mostRejected    = 200
	mostReasons     = 50
	mostDeliveries  = 400
	mostConnectors  = 100
	mostKinds       = 100
	mostPartitioned = 100
)

// collector is the Prometheus collector of what is read at each scrape.
type collector struct {
	src    Sources
	seen   *Writers
	now    func() time.Time
	bounds map[*metric]*bound
}

var _ prometheus.Collector = (*collector)(nil)

func newCollector(src Sources, seen *Writers, now func() time.Time) *collector {
	return &collector{src: src, seen: seen, now: now, bounds: map[*metric]*bound{
		accounts: newBound(mostAccounts), transitions: newBound(mostEdges), rejected: newBound(mostRejected), loggedOut: newBound(mostReasons),
		deliveries: newBound(mostDeliveries), connectorAge: newBound(mostConnectors), needs: newBound(mostKinds),
		viewLag: newBound(mostPartitioned), snapshotAge: newBound(mostPartitioned), position: newBound(mostPartitioned),
	}}
}

// Describe names the metrics of the table.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range collected {
		ch <- m.desc
	}
}

// Collect reads them.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	p := &page{c: c, ch: ch}
	b := buildinfo.Read()
	p.one(build, 1, b.Version, b.Revision, b.Go)
	if c.src.Sync != nil {
		p.one(syncMode, 1, c.src.Sync())
	}
	p.one(ready, truth(c.src.Ready != nil && c.src.Ready()))
	p.fleet()
	p.views()
	p.writers()
	p.edges()
	p.rest()
	for _, m := range collected {
		if b := c.bounds[m]; b != nil {
			p.one(capped, float64(b.capped()), m.name)
		}
	}
}

// page is one scrape.
type page struct {
	c  *collector
	ch chan<- prometheus.Metric
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// one gives a series without a bound.
func (p *page) one(m *metric, value float64, labels ...string) {
	p.ch <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

// many gives series within the metric's bound.
func (p *page) many(m *metric, each func(add func(value float64, labels ...string))) {
	for _, s := range p.c.bounds[m].sum(len(m.labels), each) {
		p.one(m, s.value, s.labels...)
	}
}

// fleet is what the views say about accounts.
func (p *page) fleet() {
	src := &p.c.src
	if src.Distribution != nil {
		counts := src.Distribution()
		p.many(accounts, func(add func(float64, ...string)) {
			for machine, states := range counts.ByMachine {
				for state, n := range states {
					add(float64(n), machine, state, src.ClassOf(machine, state))
				}
			}
		})
	}
	if src.Transitions != nil {
		n := src.Transitions()
		p.many(transitions, func(add func(float64, ...string)) {
			for _, e := range n.Edges {
				add(float64(e.Count), e.From, e.Trigger, e.To)
			}
		})
		p.many(rejected, func(add func(float64, ...string)) {
			for _, e := range n.Rejected {
				add(float64(e.Count), e.From, e.Trigger)
			}
		})
		p.many(loggedOut, func(add func(float64, ...string)) {
			for reason, count := range n.ByReason {
				add(float64(count), reason)
			}
		})
		for _, o := range [...]string{"applied", "noop", "stale", "rejected"} { // all that are kept
			p.one(outcomes, float64(n.Outcomes[o]), o)
		}
	}
	if src.Attention != nil {
		size := src.Attention()
		p.many(needs, func(add func(float64, ...string)) {
			for kind, n := range size {
				add(float64(n), kind)
			}
		})
	}
	p.readyTime()
}

// readyTime is the time to RUNNING of both kinds.
func (p *page) readyTime() {
	if p.c.src.ReadyTime == nil {
		return
	}
	v := p.c.src.ReadyTime()
	if v == nil {
		return
	}
	bounds := make([]time.Duration, len(runningBounds))
	for i, s := range runningBounds {
		bounds[i] = time.Duration(s * float64(time.Second))
	}
	for _, kind := range []readytime.Kind{readytime.Onboarding, readytime.Recovery} {
		within, all, seconds := v.Lengths(kind, bounds)
		buckets := make(map[float64]uint64, len(within))
		for i, n := range within {
			buckets[runningBounds[i]] = n
		}
		p.ch <- prometheus.MustNewConstHistogram(toRunning.desc, all, seconds, buckets, kind.String())
		p.one(waiting, float64(v.Open(kind)), kind.String())
	}
}

// alarmKinds are the labels of the faults of a history.
var alarmKinds = map[projections.AlarmKind]string{
	projections.GapInStream: "gap_in_stream", projections.GapInAccount: "gap_in_account", projections.Unreadable: "unreadable",
}

// views is how the views fare.
func (p *page) views() {
	src := &p.c.src
	if src.Replay != nil {
		if took := src.Replay(); took > 0 {
			p.one(replayTook, took.Seconds())
		}
	}
	if src.Views == nil {
		return
	}
	s, asOf := src.Views()
	p.one(viewApplied, float64(s.Applied))
	p.one(viewSaves, float64(s.Saves), "saved")
	p.one(viewSaves, float64(s.SaveErrors), "failed")
	if !s.SavedAt.IsZero() {
		p.one(viewSaved, p.c.now().Sub(s.SavedAt).Seconds())
	}
	for k, name := range alarmKinds {
		p.one(viewGaps, float64(s.Alarms[k]), name)
	}
	p.many(viewLag, func(add func(float64, ...string)) {
		for partition, last := range p.c.seen.positions() {
			lag := 0.0
			if has := asOf[partition]; has < last {
				lag = float64(last - has)
			}
			add(lag, strconv.Itoa(partition))
		}
	})
}

// writers is how far the partitions of this process have come.
func (p *page) writers() {
	p.many(position, func(add func(float64, ...string)) {
		for partition, last := range p.c.seen.positions() {
			add(float64(last), strconv.Itoa(partition))
		}
	})
	now := p.c.now()
	p.many(snapshotAge, func(add func(float64, ...string)) {
		for partition, taken := range p.c.seen.snapshots() {
			add(now.Sub(taken).Seconds(), strconv.Itoa(partition))
		}
	})
}

// edges are the ways in and out: webhooks, inbox, alerts, feed.
func (p *page) edges() {
	src := &p.c.src
	if src.Connectors != nil {
		p.connectors(src.Connectors())
	}
	if src.Inbox != nil {
		if s, parked, ok := src.Inbox(); ok {
			p.one(inboxWaiting, float64(s.Waiting))
			p.one(inboxParked, float64(parked))
			p.one(inboxTaken, float64(s.Taken), "judged")
			p.one(inboxTaken, float64(s.Parked), "parked")
			p.one(inboxTaken, float64(s.Retried), "retried")
		}
	}
	if src.Alerts != nil {
		if c, ok := src.Alerts(); ok {
			for result, n := range map[string]uint64{
				"opened": c.Opened, "healed": c.Healed, "muted": c.Muted, "made": c.Made, "delivered": c.Delivered, "failed": c.Failed, "dead": c.Dead,
			} {
				p.one(alertsSent, float64(n), result)
			}
		}
	}
	if src.Feed != nil {
		s := src.Feed()
		p.one(feedEvents, float64(s.Published), "published")
		p.one(feedEvents, float64(s.Unheard), "unheard")
		p.one(feedEvents, float64(s.Dropped), "dropped")
	}
}

func (p *page) connectors(all []hub.Stats) {
	p.many(deliveries, func(add func(float64, ...string)) {
		for i := range all {
			s := &all[i]
			for _, r := range [...]struct {
				result string
				n      int64
			}{
				{"fact", s.Facts}, {"duplicate", s.Duplicates}, {"ignored", s.Ignored}, {"unmapped", s.Unmapped},
				{"unauthenticated", s.Unauthenticated}, {"malformed", s.Malformed}, {"too_large", s.TooLarge}, {"aborted", s.Aborted}, {"unavailable", s.Unavailable},
			} {
				add(float64(r.n), s.Kind, s.Name, r.result)
			}
		}
	})
	now := p.c.now()
	p.many(connectorAge, func(add func(float64, ...string)) {
		for i := range all {
			if !all[i].Last.IsZero() {
				add(now.Sub(all[i].Last).Seconds(), all[i].Kind, all[i].Name)
			}
		}
	})
}

// rest is everything else.
func (p *page) rest() {
	src := &p.c.src
	for _, table := range []struct {
		m   *metric
		get func() map[string]int
	}{{workers, src.Workers}, {tokens, src.Tokens}} {
		if table.get != nil {
			for label, n := range table.get() {
				p.one(table.m, float64(n), label)
			}
		}
	}
	if src.DiskFree != nil {
		if free, ok := src.DiskFree(); ok {
			p.one(diskFree, float64(free))
		}
	}
}
