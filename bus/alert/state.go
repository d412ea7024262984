package alert

import (
	"cmp"
	"slices"
)

// item is one kind of attention that one account needs.
type item struct {
	Account string            `json:"a"`
	Kind    string            `json:"k"`
	Since   int64             `json:"s"`           // unix ns
	Reason  string            `json:"r,omitempty"` // as when it began
	Source  string            `json:"o,omitempty"`
	Labels  map[string]string `json:"l,omitempty"`
	Part    int               `json:"p"` // partition and sequence of the event that opened it
	Seq     uint64            `json:"q"`
	Opened  int64             `json:"t"`            // when Muster learnt of it, unix ns
	Quiet   bool              `json:"z,omitempty"`  // it stood already when alerts were turned on
	Routed  bool              `json:"d,omitempty"`  // its debounce is over: it was given to the endpoints' groups
	Trace   string            `json:"tp,omitempty"` // W3C trace context of the event that opened it
}

// phase is where a member of a group is.
type phase string

const (
	gathered phase = "g" // waits to be told
	held     phase = "m" // muted when it would have been told
	single   phase = "s" // told by itself
	within   phase = "i" // told as part of the incident, or joined it later
	left     phase = "x" // closed
)

// group is what one endpoint is told together: needs of one kind, source and
// reason that came within a minute of each other.
type group struct {
	ID       string `json:"id"`
	Endpoint string `json:"ep"`
	Kind     string `json:"k"`
	Source   string `json:"o,omitempty"`
	Reason   string `json:"r,omitempty"`

	Members map[string]phase `json:"-"`
	First   int64            `json:"-"` // when the first one joined, unix ns
	Last    int64            `json:"-"` // when the last one did
	Since   int64            `json:"-"` // when the earliest need began
	Waits   int64            `json:"-"` // since when one waits to be told; 0 = none does
	Told    int64            `json:"-"` // when the incident was told; 0 = it was not
	Remind  int64            `json:"-"` // when to remind; 0 = never
	Nth     int              `json:"-"` // number of reminders
	Ended   bool             `json:"-"` // its end was told, or there was nothing to tell
	Sample  []string         `json:"-"` // the accounts that were named

	count   map[phase]int
	pending int // deliveries that are not done
}

func (g *group) key() string  { return g.Endpoint + "|" + g.ID }
func (g *group) what() string { return what(g.Endpoint, g.Kind, g.Source, g.Reason) }
func (g *group) open() int {
	return g.count[gathered] + g.count[held] + g.count[single] + g.count[within]
}
func (g *group) total() int { return len(g.Members) }

func what(endpoint, kind, source, reason string) string {
	return endpoint + "|" + kind + "\x00" + source + "\x00" + reason
}

func (g *group) move(account string, to phase) {
	if from, ok := g.Members[account]; ok {
		g.count[from]--
	}
	g.Members[account] = to
	g.count[to]++
}

// in lists the members in a phase, by id.
func (g *group) in(p phase) []string {
	var list []string
	for a, q := range g.Members {
		if q == p {
			list = append(list, a)
		}
	}
	slices.Sort(list)
	return list
}

// Status says what has become of a delivery.
type Status string

// The statuses.
const (
	Pending   Status = "pending"
	Delivered Status = "delivered"
	Dead      Status = "dead" // not tried any more; it can be sent again by hand
)

// Delivery is one alert on its way to one endpoint.
type Delivery struct {
	ID       string `json:"id"` // the webhook-id, the same in every try
	N        uint64 `json:"n"`  // the order in which deliveries were made
	Endpoint string `json:"ep"`
	Type     Type   `json:"ty"`
	Kind     string `json:"k,omitempty"`
	Account  string `json:"a,omitempty"` // "" = of the incident
	Incident string `json:"in,omitempty"`
	Body     string `json:"b"`
	Trace    string `json:"tp,omitempty"` // W3C trace context of the event that it is about
	Made     int64  `json:"t"`            // unix ns
	Status   Status `json:"st"`
	Attempts int    `json:"x,omitempty"`
	Next     int64  `json:"nx,omitempty"` // when it is tried next, unix ns
	Code     int    `json:"c,omitempty"`  // the last HTTP status; 0 = no answer came
	Err      string `json:"e,omitempty"`  // of the last try, or why it is dead
	Done     int64  `json:"dn,omitempty"` // when it was delivered or given up, unix ns
}

// gate is an endpoint that answered 410.
type gate struct {
	URL string `json:"u"` // a hash of the URL that did
	At  int64  `json:"t"`
}

// state is the fold of the journal.
type state struct {
	on         bool
	positions  map[int]uint64
	items      map[string]map[string]*item // account → kind
	groups     map[string]*group           // by endpoint and id
	current    map[string]*group           // by what it is about: the one that was begun last
	byAccount  map[string][]*group         // those that an account is or was a member of
	deliveries map[string]*Delivery
	waiting    map[string][]*Delivery // by endpoint, those that are pending, in order
	finished   []*Delivery            // in the order in which they ended
	gates      map[string]gate
	made       uint64
}

func newState() *state {
	return &state{
		positions: map[int]uint64{}, items: map[string]map[string]*item{}, groups: map[string]*group{}, current: map[string]*group{},
		byAccount: map[string][]*group{}, deliveries: map[string]*Delivery{}, waiting: map[string][]*Delivery{}, gates: map[string]gate{},
	}
}

// maxFinished is how many deliveries are remembered that are done; those that
// were delivered go first.
const maxFinished = 2000

// apply folds a change in. It decides nothing.
func (s *state) apply(c *change) {
	switch {
	case c.Switch != nil:
		s.on = *c.Switch
	case c.At != nil:
		s.positions[c.At.Part] = c.At.Seq
	case c.Open != nil:
		i := *c.Open
		if s.items[i.Account] == nil {
			s.items[i.Account] = map[string]*item{}
		}
		s.items[i.Account][i.Kind] = &i
	case c.Shut != nil:
		delete(s.items[c.Shut.Account], c.Shut.Kind)
		if len(s.items[c.Shut.Account]) == 0 {
			delete(s.items, c.Shut.Account)
		}
	case c.Routed != nil:
		if i := s.items[c.Routed.Account][c.Routed.Kind]; i != nil {
			i.Routed = true
		}
	case c.Join != nil:
		s.join(c.Join)
	case c.Move != nil:
		s.move(c.Move)
	case c.Told != nil:
		s.told(c.Told)
	case c.Gone != "":
		s.gone(c.Gone)
	case c.Make != nil:
		s.make(c.Make)
	case c.Result != nil:
		s.result(c.Result)
	case c.Gate != nil:
		delete(s.gates, c.Gate.Endpoint)
		if c.Gate.Shut != nil {
			s.gates[c.Gate.Endpoint] = *c.Gate.Shut
		}
	}
}

func (s *state) join(j *joining) {
	g := s.groups[j.key()]
	if g == nil {
		g = &group{
			ID: j.ID, Endpoint: j.Endpoint, Kind: j.Kind, Source: j.Source, Reason: j.Reason,
			Members: map[string]phase{}, count: map[phase]int{}, First: j.At, Since: j.Began,
		}
		s.groups[g.key()] = g
		s.current[g.what()] = g
	}
	if _, in := g.Members[j.Account]; !in {
		s.byAccount[j.Account] = append(s.byAccount[j.Account], g)
	}
	g.move(j.Account, j.Phase)
	g.Last, g.Since = j.At, min(g.Since, j.Began)
	if j.Phase == gathered && g.Waits == 0 {
		g.Waits = j.At
	}
}

func (s *state) move(m *moving) {
	g := s.groups[m.Group]
	if g == nil {
		return
	}
	if m.To != "" {
		g.move(m.Account, m.To)
	} else if from, ok := g.Members[m.Account]; ok {
		g.count[from]--
		delete(g.Members, m.Account)
		s.unlink(m.Account, g)
	}
	if g.count[gathered] == 0 {
		g.Waits = 0
	}
}

func (s *state) told(t *telling) {
	g := s.groups[t.Group]
	switch {
	case g == nil:
	case t.Full != nil:
		f := t.Full
		g.First, g.Last, g.Since, g.Waits, g.Told, g.Remind, g.Nth, g.Ended = f.First, f.Last, f.Since, f.Waits, f.Told, f.Remind, f.Nth, f.Ended
		g.Sample = t.Sample
		if g.Ended {
			s.forget(g)
		}
	case t.Ended:
		g.Ended, g.Remind = true, 0
		s.forget(g)
	case t.Again:
		g.Nth, g.Remind = g.Nth+1, t.Remind
	case t.None:
		g.Waits = 0
	default:
		to := single
		if t.Incident {
			to, g.Told, g.Sample = within, t.At, t.Sample
		}
		for _, a := range g.in(gathered) {
			g.move(a, to)
		}
		g.Waits, g.Remind = 0, t.Remind
	}
}

func (s *state) gone(key string) {
	g := s.groups[key]
	if g == nil {
		return
	}
	delete(s.groups, key)
	s.forget(g)
	for a := range g.Members {
		s.unlink(a, g)
	}
}

func (s *state) unlink(account string, g *group) {
	list := slices.DeleteFunc(s.byAccount[account], func(o *group) bool { return o == g })
	if s.byAccount[account] = list; len(list) == 0 {
		delete(s.byAccount, account)
	}
}

// forget lets nobody join a group any more.
func (s *state) forget(g *group) {
	if s.current[g.what()] == g {
		delete(s.current, g.what())
	}
}

// groupOf is the group that a delivery belongs to; nil when it is gone.
func (s *state) groupOf(d *Delivery) *group { return s.groups[d.Endpoint+"|"+d.Incident] }

func (s *state) make(m *Delivery) {
	if s.deliveries[m.ID] != nil {
		return
	}
	d := *m
	s.made = max(s.made, d.N)
	s.deliveries[d.ID] = &d
	if d.Status == Pending {
		s.await(&d)
		return
	}
	s.finish(&d)
}

// await puts a delivery among those that wait, in order.
func (s *state) await(d *Delivery) {
	list := s.waiting[d.Endpoint]
	at, _ := slices.BinarySearchFunc(list, d, byOrder)
	s.waiting[d.Endpoint] = slices.Insert(list, at, d)
	if g := s.groupOf(d); g != nil {
		g.pending++
	}
}

func byOrder(a, b *Delivery) int { return cmp.Compare(a.N, b.N) }

func (s *state) result(r *resulting) {
	d := s.deliveries[r.ID]
	if d == nil {
		return
	}
	before := d.Status
	d.Status, d.Attempts, d.Next, d.Code, d.Err, d.Done = r.Status, r.Attempts, r.Next, r.Code, r.Err, r.Done
	switch {
	case before == Pending && d.Status != Pending:
		if at, ok := slices.BinarySearchFunc(s.waiting[d.Endpoint], d, byOrder); ok {
			s.waiting[d.Endpoint] = slices.Delete(s.waiting[d.Endpoint], at, at+1)
		}
		if g := s.groupOf(d); g != nil {
			g.pending--
		}
		s.finish(d)
	case before != Pending && d.Status == Pending:
		s.finished = slices.DeleteFunc(s.finished, func(o *Delivery) bool { return o == d })
		s.await(d)
	}
}

// finish remembers a delivery that is done, and forgets the oldest one when there
// are too many.
func (s *state) finish(d *Delivery) {
	s.finished = append(s.finished, d)
	if len(s.finished) <= maxFinished {
		return
	}
	oldest := max(0, slices.IndexFunc(s.finished, func(o *Delivery) bool { return o.Status == Delivered }))
	delete(s.deliveries, s.finished[oldest].ID)
	s.finished = slices.Delete(s.finished, oldest, oldest+1)
}
