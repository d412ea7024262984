package alert

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Result is what a try has come to.
type Result struct {
	Code       int           // HTTP status; 0 = no answer came
	Err        string        // why none came; quotes neither the URL nor a secret
	RetryAfter time.Duration // as the receiver asked; 0 = it did not
}

// make decides that a delivery is made.
func (c *Core) make(d *Delivery, now time.Time) {
	if c.st.deliveries[d.ID] != nil {
		return
	}
	d.N, d.Made, d.Next, d.Status = c.st.made+1, now.UnixNano(), now.UnixNano(), Pending
	gone := ""
	if _, shut := c.st.gates[d.Endpoint]; shut && d.Type != Test {
		gone = "the endpoint is disabled: it answered 410 Gone; a test alert that gets through enables it"
	} else if len(c.st.waiting[d.Endpoint]) >= maxWaiting {
		gone = fmt.Sprintf("%d alerts wait for the endpoint already", maxWaiting)
	}
	if gone != "" {
		d.Status, d.Err, d.Done = Dead, gone, now.UnixNano()
		c.counts.Dead++
	}
	c.counts.Made++
	c.do(change{Make: d})
	c.timers.add(d.Next, timer{op: tryDelivery})
}

// start returns the deliveries that are sent now; each must be answered by
// result. Those of one account go one after the other, in the order in which they
// were made; an incident counts for all its accounts.
func (c *Core) start(now time.Time) (list []*Delivery) {
	for k := range c.cfg.Endpoints {
		list = append(list, c.startAt(&c.cfg.Endpoints[k], now)...)
	}
	return list
}

// before is what was made earlier and has not got through.
type before struct {
	accounts map[string]bool
	groups   []*group
}

func (c *Core) startAt(e *Endpoint, now time.Time) (list []*Delivery) {
	free := c.cfg.Parallel
	waiting := c.st.waiting[e.Name]
	for _, d := range waiting {
		if c.flying[d.ID] {
			free--
		}
	}
	earlier := before{accounts: map[string]bool{}}
	for _, d := range waiting {
		if free <= 0 {
			break
		}
		g := c.st.groupOf(d)
		if !c.flying[d.ID] && d.Next <= now.UnixNano() && !earlier.holds(d, g) {
			c.flying[d.ID] = true
			list = append(list, d)
			free--
		}
		earlier.add(d, g)
	}
	return list
}

// holds says whether a delivery has to wait for an earlier one.
func (b *before) holds(d *Delivery, g *group) bool {
	switch {
	case d.Type == Test:
		return false
	case d.Account != "":
		return b.accounts[d.Account] || slices.ContainsFunc(b.groups, func(o *group) bool { _, in := o.Members[d.Account]; return in })
	case g == nil:
		return false
	}
	for a := range b.accounts {
		if _, in := g.Members[a]; in {
			return true
		}
	}
	return slices.ContainsFunc(b.groups, func(o *group) bool { return o == g || overlap(o, g) })
}

// overlap says whether two groups have an account in common.
func overlap(a, b *group) bool {
	if len(a.Members) > len(b.Members) {
		a, b = b, a
	}
	for m := range a.Members {
		if _, in := b.Members[m]; in {
			return true
		}
	}
	return false
}

func (b *before) add(d *Delivery, g *group) {
	switch {
	case d.Account != "":
		b.accounts[d.Account] = true
	case g != nil && !slices.Contains(b.groups, g):
		b.groups = append(b.groups, g)
	}
}

// result takes in what a try has come to.
func (c *Core) result(id string, r Result, now time.Time) (disabled bool) {
	delete(c.flying, id)
	d := c.st.deliveries[id]
	if d == nil || d.Status != Pending {
		return false
	}
	n := d.Attempts + 1
	out := &resulting{ID: id, Attempts: n, Code: r.Code, Err: r.Err}
	pause, more := wait(id, n, r.RetryAfter)
	switch {
	case r.Code >= 200 && r.Code <= 299:
		out.Status, out.Done = Delivered, now.UnixNano()
		c.counts.Delivered++
	case r.Code == http.StatusGone:
		out.Status, out.Done, disabled = Dead, now.UnixNano(), true
		c.counts.Dead++
	case !more:
		out.Status, out.Done = Dead, now.UnixNano()
		c.counts.Dead++
	default:
		out.Status, out.Next = Pending, now.Add(pause).UnixNano()
		c.counts.Failed++
	}
	g := c.st.groupOf(d)
	c.do(change{Result: out})
	c.timers.add(max(out.Next, now.UnixNano()), timer{op: tryDelivery})
	if g != nil {
		c.settle(g, now)
	}
	switch {
	case disabled:
		c.disable(d.Endpoint, now)
	case out.Status == Delivered && d.Type == Test:
		if _, shut := c.st.gates[d.Endpoint]; shut {
			c.do(change{Gate: &gating{d.Endpoint, nil}})
		}
	}
	return disabled
}

// disable sends nothing more to an endpoint that is gone.
func (c *Core) disable(endpoint string, now time.Time) {
	e := c.byName[endpoint]
	if e == nil {
		return
	}
	c.do(change{Gate: &gating{endpoint, &gate{nameOf("", e.URL), now.UnixNano()}}})
	for _, d := range slices.Clone(c.st.waiting[endpoint]) {
		if !c.flying[d.ID] {
			c.finish(d, now, "the endpoint is disabled: it answered 410 Gone")
		}
	}
}

// finish ends a delivery without a try.
func (c *Core) finish(d *Delivery, now time.Time, why string) {
	c.counts.Dead++
	g := c.st.groupOf(d)
	c.do(change{Result: &resulting{ID: d.ID, Status: Dead, Attempts: d.Attempts, Code: d.Code, Err: why, Done: now.UnixNano()}})
	if g != nil {
		c.settle(g, now)
	}
}

// resend sends a delivery that is done once more, under its own id.
func (c *Core) resend(id string, now time.Time) error {
	d := c.st.deliveries[id]
	switch {
	case d == nil:
		return ErrNoDelivery
	case d.Status == Pending:
		return ErrWaiting
	case c.byName[d.Endpoint] == nil:
		return fmt.Errorf("%w: %s", ErrNoEndpoint, d.Endpoint)
	}
	c.do(change{Result: &resulting{ID: id, Status: Pending, Next: now.UnixNano()}})
	c.timers.add(now.UnixNano(), timer{op: tryDelivery})
	return nil
}

// test makes a test alert for an endpoint.
func (c *Core) test(endpoint, nonce string, now time.Time) (*Delivery, error) {
	if c.byName[endpoint] == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoEndpoint, endpoint)
	}
	d := &Delivery{
		ID: nameOf("alert_", Test, endpoint, nonce), Endpoint: endpoint, Type: Test,
		Body: bodyOf(Test, Data{Why: "This is a test alert; no account needs anything.", Do: "Nothing."}, now),
	}
	c.make(d, now)
	return c.st.deliveries[d.ID], nil
}
