package alert

import (
	"time"

	"github.com/musterhq/muster/bus/operator"
)

// named is how many accounts an incident names.
const named = 5

// route gives a need whose debounce is over to the endpoints that want it.
func (c *Core) route(i *item, now time.Time) {
	c.do(change{Routed: &itemRef{i.Account, i.Kind}})
	for k := range c.cfg.Endpoints {
		if e := &c.cfg.Endpoints[k]; e.wants(i) {
			c.join(e, i, now, 0)
		}
	}
}

// join puts a need into the endpoint's group of its kind, source and reason, or
// begins one. What joins an incident that was told is not told again. again tells
// a group that is begun by a need that was held back from the one it was in before.
func (c *Core) join(e *Endpoint, i *item, now time.Time, again int64) {
	g := c.st.current[what(e.Name, i.Kind, i.Source, i.Reason)]
	j := &joining{Account: i.Account, Phase: gathered, At: now.UnixNano(), Began: i.Since}
	if g != nil && now.UnixNano()-g.Last <= int64(apart) && now.UnixNano()-g.First <= int64(longest) {
		j.group = group{ID: g.ID, Endpoint: g.Endpoint, Kind: g.Kind, Source: g.Source, Reason: g.Reason}
		switch {
		case g.Told != 0 && c.is(operator.Mute, i, g, now):
			j.Phase = held
			c.counts.Muted++
		case g.Told != 0:
			j.Phase = within
		}
	} else {
		id := nameOf("inc_", i.Kind, i.Source, i.Reason, i.Account, i.Part, i.Seq, again)
		j.group = group{ID: id, Endpoint: e.Name, Kind: i.Kind, Source: i.Source, Reason: i.Reason}
	}
	c.do(change{Join: j})
	c.arm(c.st.groups[j.key()])
}

// tellAt is when a group is told: when nothing has joined it for a moment, a
// minute after the first one began to wait at the latest.
func (c *Core) tellAt(g *group) int64 {
	return min(g.Last+int64(c.cfg.Gather), g.Waits+int64(max(apart, c.cfg.Gather)))
}

// tell makes the alerts of a group's members that wait: few are told one by one,
// more as an incident. Those that are muted are held back.
func (c *Core) tell(g *group, now time.Time) {
	for _, account := range g.in(gathered) {
		if i := c.st.items[account][g.Kind]; c.is(operator.Mute, i, g, now) {
			c.counts.Muted++
			c.do(change{Move: &moving{g.key(), account, held}})
		}
	}
	list, e := g.in(gathered), c.byName[g.Endpoint]
	all := len(list) + g.count[single]
	t := &telling{Group: g.key(), At: now.UnixNano()}
	if c.cfg.Remind > 0 {
		t.Remind = now.Add(c.cfg.Remind).UnixNano()
	}
	switch {
	case len(list) == 0:
		return // nobody waits any more
	case all >= e.incidentFrom():
		t.Incident, t.Sample = true, list[:min(named, len(list))]
		c.make(c.incidentAlert(IncidentOpened, g, all, t.Sample, now), now)
	case e.Min > 1:
		t = &telling{Group: g.key(), None: true}
	default:
		for _, account := range list {
			c.make(c.alertOf(AttentionOpened, g, c.st.items[account][g.Kind], now), now)
		}
	}
	c.do(change{Told: t})
	c.arm(g)
}

// settle ends an incident when all its needs have ended and none can join any
// more, and forgets a group of which nothing is left to be told.
func (c *Core) settle(g *group, now time.Time) {
	if c.st.groups[g.key()] != g {
		return
	}
	closing := now.UnixNano() >= g.Last+int64(apart)
	if !closing || g.open() > 0 {
		return
	}
	if !g.Ended {
		if g.Told != 0 {
			c.make(c.incidentAlert(IncidentClosed, g, g.total(), g.Sample, now), now)
		}
		c.do(change{Told: &telling{Group: g.key(), Ended: true}})
	}
	if g.pending == 0 {
		c.do(change{Gone: g.key()})
	}
}

// remind tells again what still stands and that nobody has acknowledged.
func (c *Core) remind(g *group, now time.Time) {
	nobody := func(account string) bool {
		i := c.st.items[account][g.Kind]
		return i != nil && !c.is(operator.Ack, i, g, now) && !c.is(operator.Mute, i, g, now)
	}
	open := 0
	for _, account := range g.in(within) {
		if nobody(account) {
			open++
		}
	}
	if open > 0 {
		c.make(c.incidentAlert(IncidentReminder, g, open, g.Sample, now), now)
	}
	for _, account := range g.in(single) {
		if nobody(account) {
			c.make(c.alertOf(AttentionReminder, g, c.st.items[account][g.Kind], now), now)
		}
	}
	t := &telling{Group: g.key(), Again: true}
	if c.cfg.Remind > 0 && g.count[within]+g.count[single] > 0 {
		t.Remind = now.Add(c.cfg.Remind).UnixNano()
	}
	c.do(change{Told: t})
	c.arm(g)
}
