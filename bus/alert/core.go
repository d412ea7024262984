package alert

import (
	"container/heap"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/domain"
)

// Settings say how alerts are made; the zero value is good.
type Settings struct {
	Endpoints []Endpoint
	Debounce  time.Duration // how long a need must stand before it is told (default 3 min; negative: not at all)
	Gather    time.Duration // how long nothing further must have come before needs are told together (default 5 s)
	Remind    time.Duration // how often what stands and was told is told again; 0 = never
	Parallel  int           // alerts under way to one endpoint at once (default 4)
}

func (s *Settings) withDefaults() {
	if s.Debounce == 0 {
		s.Debounce = 3 * time.Minute
	}
	if s.Gather == 0 {
		s.Gather = 5 * time.Second
	}
	if s.Parallel == 0 {
		s.Parallel = 4
	}
}

// The spans of an incident.
const (
	apart   = time.Minute // what joins within this of the last that joined belongs to it
	longest = time.Hour   // after this a new incident begins, whatever joins
)

// maxWaiting is how many deliveries may wait for one endpoint; what is made
// beyond is dead at once.
const maxWaiting = 20_000

// Need is one kind of attention that an account needs now.
type Need struct {
	Kind   string
	Since  int64 // unix ns
	Reason string
	// New says that this look may begin it: the event at which the account was
	// looked at opened it, or is the account's last. Otherwise a later event will
	// bring it, and ids do not depend on how far the feed lags behind.
	New bool
	// Loose says that Since is the time of the look: a later one does not mean that
	// the need has ended and begun again.
	Loose bool
}

// Seen is all that an account needs after an event.
type Seen struct {
	Partition int
	Seq       uint64
	Account   domain.AccountID // "" = only the position is meant
	At        int64            // when the event was judged, unix ns
	Source    string
	Labels    map[string]string
	Needs     []Need
	Quiet     bool   // what is new in it stood before alerts were turned on
	Trace     string // the event's W3C trace context; "" = none
}

// Core decides which alerts are made and what is sent when. It has no clock and
// does no I/O: every call says what time it is, and every decision comes out of
// Take as changes that must be stored before Start is called. Times must not run
// backwards. It is not safe for use by many goroutines.
type Core struct {
	cfg      Settings
	byName   map[string]*Endpoint
	describe func(account domain.AccountID, kind, reason string) string

	st      *state
	changes []change
	places  map[int]uint64 // positions that are not among the changes yet
	timers  timers
	flying  map[string]bool // deliveries under way
	rules   operator.Book
	counts  Counts
}

// Counts are what happened since the process started.
type Counts struct {
	Opened    uint64 `json:"opened"` // needs that began
	Healed    uint64 `json:"healed"` // that ended before they were told
	Muted     uint64 `json:"muted"`  // that were held back, once for each endpoint
	Made      uint64 `json:"made"`   // deliveries
	Delivered uint64 `json:"delivered"`
	Failed    uint64 `json:"failed"` // tries that will be repeated
	Dead      uint64 `json:"dead"`
}

// newCore returns a Core over a state that was loaded. describe explains an
// account in a sentence.
func newCore(cfg Settings, st *state, describe func(account domain.AccountID, kind, reason string) string, now time.Time) *Core {
	cfg.withDefaults()
	c := &Core{cfg: cfg, byName: map[string]*Endpoint{}, describe: describe, st: st, places: map[int]uint64{}, flying: map[string]bool{}}
	for i := range c.cfg.Endpoints {
		c.byName[c.cfg.Endpoints[i].Name] = &c.cfg.Endpoints[i]
	}
	c.resume(now)
	return c
}

// resume sets the timers of what was loaded, and gives up what has nobody to go to.
func (c *Core) resume(now time.Time) {
	for _, kinds := range c.st.items {
		for _, i := range kinds {
			if !i.Quiet && !i.Routed {
				c.timers.add(c.due(i), timer{op: routeItem, key: i.Account, sub: i.Kind})
			}
		}
	}
	for key, g := range c.st.groups {
		if c.byName[g.Endpoint] == nil {
			c.do(change{Gone: key})
			continue
		}
		c.arm(g)
	}
	for name, list := range c.st.waiting {
		for _, d := range slices.Clone(list) {
			if c.byName[name] == nil {
				c.finish(d, now, "the endpoint is not configured any more")
				continue
			}
			c.timers.add(d.Next, timer{op: tryDelivery})
		}
	}
	for name, g := range c.st.gates {
		if e := c.byName[name]; e == nil || nameOf("", e.URL) != g.URL {
			c.do(change{Gate: &gating{name, nil}})
		}
	}
}

// arm sets a group's timers.
func (c *Core) arm(g *group) {
	if g.Waits != 0 {
		c.timers.add(c.tellAt(g), timer{op: tellGroup, key: g.key()})
	}
	if g.Remind != 0 {
		c.timers.add(g.Remind, timer{op: remindGroup, key: g.key()})
	}
	c.timers.add(g.Last+int64(apart), timer{op: settleGroup, key: g.key()})
}

// do decides a change.
func (c *Core) do(ch change) {
	c.st.apply(&ch)
	c.changes = append(c.changes, ch)
}

// take returns the changes decided since the last call, the positions behind all
// that follows from the events up to there.
func (c *Core) take() []change {
	for _, p := range slices.Sorted(maps.Keys(c.places)) {
		c.do(change{At: &position{p, c.places[p]}})
	}
	clear(c.places)
	list := c.changes
	c.changes = nil
	return list
}

// decided says that there is more for take than positions, behind that there are
// positions.
func (c *Core) decided() bool { return len(c.changes) > 0 }
func (c *Core) behind() bool  { return len(c.places) > 0 }

// On says whether alerts were turned on before.
func (c *Core) on() bool { return c.st.on }

// turn turns alerts on or off. Turning them off forgets what is open: nothing of
// the time until they are turned on again will be told.
func (c *Core) turn(on bool) {
	if !on {
		for _, i := range c.itemsInOrder() {
			c.do(change{Shut: &itemRef{i.Account, i.Kind}})
		}
		for _, key := range slices.Sorted(maps.Keys(c.st.groups)) {
			c.do(change{Gone: key})
		}
	}
	if c.st.on != on {
		c.do(change{Switch: &on})
	}
}

func (c *Core) itemsInOrder() (list []*item) {
	for _, a := range slices.Sorted(maps.Keys(c.st.items)) {
		for _, k := range slices.Sorted(maps.Keys(c.st.items[a])) {
			list = append(list, c.st.items[a][k])
		}
	}
	return list
}

// place notes up to where the events of a partition were looked at.
func (c *Core) place(partition int, seq uint64) {
	if c.st.positions[partition] != seq {
		c.places[partition] = seq
	}
}

// observe takes in what an account needs.
func (c *Core) observe(s *Seen, now time.Time) {
	known := c.st.items[string(s.Account)]
	for _, kind := range slices.Sorted(maps.Keys(known)) {
		i := known[kind]
		n := slices.IndexFunc(s.Needs, func(n Need) bool { return n.Kind == kind })
		if n < 0 || s.Needs[n].again(i) {
			c.shut(i, now)
		}
	}
	for _, n := range s.Needs {
		if !n.New || c.st.items[string(s.Account)][n.Kind] != nil {
			continue
		}
		i := &item{
			Account: string(s.Account), Kind: n.Kind, Since: n.Since, Reason: n.Reason, Source: s.Source, Labels: s.Labels,
			Part: s.Partition, Seq: s.Seq, Opened: s.At, Quiet: s.Quiet, Trace: s.Trace,
		}
		c.do(change{Open: i})
		if !s.Quiet {
			c.counts.Opened++
			c.timers.add(c.due(i), timer{op: routeItem, key: i.Account, sub: i.Kind})
		}
	}
}

// again says that a need has ended and begun again since it was noted.
func (n *Need) again(i *item) bool { return n.New && !n.Loose && n.Since > i.Since }

// due is when a need may be told.
func (c *Core) due(i *item) int64 {
	if debounced(i.Kind) && c.cfg.Debounce > 0 {
		return i.Opened + int64(c.cfg.Debounce)
	}
	return i.Opened
}

// shut ends a need. What was told of it as opened is told as closed.
func (c *Core) shut(i *item, now time.Time) {
	if !i.Quiet && !i.Routed {
		c.counts.Healed++
	}
	for _, g := range c.groupsOf(i) {
		switch g.Members[i.Account] {
		case gathered, held:
			c.counts.Healed++
			c.do(change{Move: &moving{Group: g.key(), Account: i.Account}})
		case single:
			c.make(c.alertOf(AttentionClosed, g, i, now), now)
			c.do(change{Move: &moving{g.key(), i.Account, left}})
		case within:
			c.do(change{Move: &moving{g.key(), i.Account, left}})
		case left:
		}
		c.settle(g, now)
	}
	c.do(change{Shut: &itemRef{i.Account, i.Kind}})
}

// groupsOf lists the groups in which a need is open, by endpoint.
func (c *Core) groupsOf(i *item) (list []*group) {
	if !i.Routed {
		return nil
	}
	for _, e := range c.cfg.Endpoints {
		for _, g := range c.st.byAccount[i.Account] {
			if g.Endpoint == e.Name && g.Kind == i.Kind {
				list = append(list, g)
			}
		}
	}
	return list
}

// act takes an operator's action in.
func (c *Core) act(a operator.Action, now time.Time) {
	c.rules.Apply(a)
	if !a.Until.IsZero() {
		c.timers.add(a.Until.UnixNano(), timer{op: freeHeld})
	}
	if a.Action == operator.Unmute {
		c.free(now)
	}
}

// free looks again at what was held back.
func (c *Core) free(now time.Time) {
	for _, key := range slices.Sorted(maps.Keys(c.st.groups)) {
		g := c.st.groups[key]
		for _, account := range g.in(held) {
			i := c.st.items[account][g.Kind]
			if i == nil || c.is(operator.Mute, i, g, now) {
				continue
			}
			c.do(change{Move: &moving{Group: key, Account: account}})
			c.join(c.byName[g.Endpoint], i, now, now.UnixNano())
		}
		c.settle(g, now)
	}
}

// is says whether a need is muted or acknowledged.
func (c *Core) is(name operator.Name, i *item, g *group, now time.Time) bool {
	rules := c.rules.InForce(name, now)
	if len(rules) == 0 {
		return false
	}
	facts := map[string]string{operator.Account: i.Account, operator.Source: i.Source, operator.Kind: i.Kind, operator.Incident: g.ID}
	return slices.ContainsFunc(rules, func(a operator.Action) bool { return a.Names(facts) })
}

// advance does what is due.
func (c *Core) advance(now time.Time) {
	for len(c.timers) > 0 && c.timers[0].at <= now.UnixNano() {
		t := heap.Pop(&c.timers).(timer)
		switch t.op {
		case routeItem:
			if i := c.st.items[t.key][t.sub]; i != nil && !i.Routed && !i.Quiet && c.due(i) <= now.UnixNano() {
				c.route(i, now)
			}
		case tellGroup:
			if g := c.st.groups[t.key]; g != nil && g.Waits != 0 && c.tellAt(g) <= now.UnixNano() {
				c.tell(g, now)
			}
		case settleGroup:
			if g := c.st.groups[t.key]; g != nil {
				c.settle(g, now)
			}
		case remindGroup:
			if g := c.st.groups[t.key]; g != nil && g.Remind != 0 && g.Remind <= now.UnixNano() {
				c.remind(g, now)
			}
		case freeHeld:
			c.free(now)
		case tryDelivery: // Start finds it
		}
	}
}

// next is when advance or start has something to do; ok is false when nothing is
// waited for.
func (c *Core) next() (at time.Time, ok bool) {
	if len(c.timers) == 0 {
		return at, false
	}
	return time.Unix(0, c.timers[0].at), true
}

// The errors of what is asked for by hand.
var (
	ErrNoEndpoint = errors.New("there is no such endpoint")
	ErrNoDelivery = errors.New("there is no such delivery")
	ErrWaiting    = errors.New("the delivery is on its way already")
)
