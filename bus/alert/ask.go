package alert

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/musterhq/muster/bus/operator"
)

// Standing is what an endpoint was told, or will be, that is not over.
type Standing struct {
	Endpoint string
	Incident string // id of the group
	Kind     string
	Source   string
	Reason   string
	Since    int64 // unix ns
	Open     int   // accounts whose need still stands
	Held     int   // of these, those that are muted
	Waiting  int   // of these, those that are told in a moment
	Told     bool  // somebody was told
	Grouped  bool  // as an incident
	Acked    bool
	Sample   []string // the first few by id
}

// List is what Engine.List answers.
type List struct {
	Open      []Standing       // by when they began, the last one first
	Debounced int              // needs that were not told yet and may heal
	Waiting   map[string]int   // deliveries that are not done, by endpoint
	Disabled  map[string]int64 // since when, unix ns: endpoints that answered 410
	Mutes     []operator.Action
	Acks      []operator.Action
	Counts    Counts
}

// List returns what is open.
func (e *Engine) List(ctx context.Context) (l List, err error) {
	err = e.do(ctx, func(c *Core, now time.Time) error {
		l = c.list(now)
		return nil
	})
	return l, err
}

func (c *Core) list(now time.Time) List {
	l := List{
		Mutes: c.rules.InForce(operator.Mute, now), Acks: c.rules.InForce(operator.Ack, now),
		Counts: c.counts, Waiting: map[string]int{}, Disabled: map[string]int64{},
	}
	for name, g := range c.st.gates {
		l.Disabled[name] = g.At
	}
	for name, list := range c.st.waiting {
		l.Waiting[name] = len(list)
	}
	for _, kinds := range c.st.items {
		for _, i := range kinds {
			if !i.Quiet && !i.Routed {
				l.Debounced++
			}
		}
	}
	for _, g := range c.st.groups {
		if g.open() == 0 {
			continue
		}
		l.Open = append(l.Open, c.openOf(g, now))
	}
	slices.SortFunc(l.Open, func(a, b Standing) int {
		switch {
		case a.Since != b.Since:
			if a.Since > b.Since {
				return -1
			}
			return 1
		case a.Endpoint+a.Incident < b.Endpoint+b.Incident:
			return -1
		}
		return 1
	})
	return l
}

func (c *Core) openOf(g *group, now time.Time) Standing {
	o := Standing{
		Endpoint: g.Endpoint, Incident: g.ID, Kind: g.Kind, Source: g.Source, Reason: g.Reason, Since: g.Since,
		Open: g.open(), Held: g.count[held], Waiting: g.count[gathered],
		Told: g.count[within]+g.count[single] > 0, Grouped: g.Told != 0, Acked: true,
	}
	for _, a := range slices.Sorted(maps.Keys(g.Members)) {
		if g.Members[a] == left {
			continue
		}
		if i := c.st.items[a][g.Kind]; i != nil && !c.is(operator.Ack, i, g, now) {
			o.Acked = false
		}
		if len(o.Sample) < named {
			o.Sample = append(o.Sample, a)
		}
	}
	return o
}

// Filter says which deliveries are wanted; what is empty does not filter.
type Filter struct {
	Endpoint string
	Account  string
	Status   Status
	Limit    int // 0: 100
}

// Deliveries returns deliveries, the one made last first.
func (e *Engine) Deliveries(ctx context.Context, f Filter) (list []Delivery, err error) {
	err = e.do(ctx, func(c *Core, _ time.Time) error {
		list = c.find(f)
		return nil
	})
	return list, err
}

func (c *Core) find(f Filter) []Delivery {
	if f.Limit == 0 {
		f.Limit = 100
	}
	var list []*Delivery
	for _, d := range c.st.deliveries {
		if (f.Endpoint == "" || f.Endpoint == d.Endpoint) && (f.Account == "" || f.Account == d.Account) && (f.Status == "" || f.Status == d.Status) {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b *Delivery) int { return byOrder(b, a) })
	list = list[:min(f.Limit, len(list))]
	out := make([]Delivery, len(list))
	for i, d := range list {
		out[i] = *d
	}
	return out
}

// Resend sends a delivery that is done once more, under the id that it had. The
// error is ErrNoDelivery, ErrWaiting or ErrNoEndpoint.
func (e *Engine) Resend(ctx context.Context, id string) error {
	return e.do(ctx, func(c *Core, now time.Time) error { return c.resend(id, now) })
}

// ResendDead does so with all that are dead, of one endpoint or of all (""), in the
// order in which they were made, and says how many these are.
func (e *Engine) ResendDead(ctx context.Context, endpoint string) (n int, err error) {
	err = e.do(ctx, func(c *Core, now time.Time) error {
		dead := c.find(Filter{Endpoint: endpoint, Status: Dead, Limit: maxFinished})
		for _, d := range slices.Backward(dead) {
			if c.resend(d.ID, now) == nil {
				n++
			}
		}
		return nil
	})
	return n, err
}

// Test sends a test alert to an endpoint and returns it as it was made; its try
// is under way then. The error is ErrNoEndpoint.
func (e *Engine) Test(ctx context.Context, endpoint, nonce string) (d Delivery, err error) {
	err = e.do(ctx, func(c *Core, now time.Time) error {
		made, err := c.test(endpoint, nonce, now)
		if err == nil {
			d = *made
		}
		return err
	})
	return d, err
}

// Delivery returns one delivery, or ErrNoDelivery.
func (e *Engine) Delivery(ctx context.Context, id string) (d Delivery, err error) {
	err = e.do(ctx, func(c *Core, _ time.Time) error {
		found := c.st.deliveries[id]
		if found == nil {
			return ErrNoDelivery
		}
		d = *found
		return nil
	})
	return d, err
}

// Counts returns what happened since the process started.
func (e *Engine) Counts(ctx context.Context) (counts Counts, err error) {
	err = e.do(ctx, func(c *Core, _ time.Time) error {
		counts = c.counts
		return nil
	})
	return counts, err
}
