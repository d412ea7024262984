package sim

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/musterhq/muster/domain"
)

// Signal is what happens to a worker.
type Signal uint8

// The signals.
const (
	NoSignal   Signal = iota
	WorkerDies        // without a word
	WorkerUp          // a new run of it is there
)

// Item is the next thing that happens: a trigger, or a signal about a worker.
type Item struct {
	Virtual int64 // the virtual clock, unix ns
	Trigger domain.Trigger
	Signal  Signal
	Worker  string // whose signal it is
}

// Fleet plays accounts on a virtual clock. It is not safe for use from several
// goroutines.
type Fleet struct {
	cfg    Config
	rng    actor // for what befalls the whole fleet
	actors []actor
	agenda heap
	now    int64
	ids    int64
	queue  []Item // signals that are to be given next
	labels []map[string]string
	names  []string // of the workers
	dead   []bool   // workers
}

// New makes a fleet that has done nothing yet. The error says what is wrong
// with the configuration.
func New(cfg Config) (*Fleet, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("make a fleet: %w", err)
	}
	f := &Fleet{cfg: cfg, actors: make([]actor, cfg.Accounts), now: cfg.Start.UnixNano(), dead: make([]bool, cfg.Workers)}
	f.rng.rng = *rand.NewPCG(cfg.Seed, 1<<63)
	for _, pool := range []string{"eu", "us", "apac"} {
		for _, tier := range []string{"gold", "basic"} {
			f.labels = append(f.labels, map[string]string{"pool": pool, "tier": tier})
		}
	}
	for i := range cfg.Workers {
		f.names = append(f.names, "sim-worker-"+strconv.Itoa(i+1))
	}
	f.agenda.grow(cfg.Accounts + 2)
	for i := range f.actors {
		f.born(int32(i))
	}
	f.planIncident(outage, cfg.CalmFor, cfg.Profile.Outage)
	f.planIncident(outdated, cfg.CalmFor, cfg.Profile.Outdated)
	return f, nil
}

// born gives an account its nature and its first plans.
func (f *Fleet) born(i int32) {
	a := &f.actors[i]
	a.rng = *rand.NewPCG(f.cfg.Seed, uint64(i))
	a.id = domain.AccountID(fmt.Sprintf("sim-%05d", i+1))
	a.worker = int32(int(i) % f.cfg.Workers)
	a.told = a.chance(0.6)
	a.kind = f.kind(a)
	begin := after(f.now, a.between(0, f.cfg.Profile.Ramp))
	switch a.kind {
	case wecom:
		a.login(begin)
	case instance:
		a.say(begin, "online")
		a.decide(after(begin, a.about(f.cfg.Profile.Episode)))
		a.up = true
	default:
		a.onboard(begin, &f.cfg.Profile)
	}
	f.meet(a, begin, writes, f.cfg.Profile.Message)
	f.meet(a, begin, customers, f.cfg.Profile.Customer)
	f.agenda.push(a.plan[0].at, i)
}

// meet plans the account's next message, or its customers'.
func (f *Fleet) meet(a *actor, at int64, what uint8, mean time.Duration) {
	if mean > 0 {
		a.add(step{at: after(at, a.about(mean)), what: what})
	}
}

// kind chooses an account's machine.
func (f *Fleet) kind(a *actor) uint8 {
	x := a.float() // drawn always, so that a fleet of one machine lives as the mixed one does
	for i, m := range Machines() {
		if m == f.cfg.Machine {
			return uint8(i)
		}
	}
	switch {
	case x < 0.84:
		return whatsapp2
	case x < 0.94:
		return wecom
	default:
		return instance
	}
}

// Now is the virtual clock, unix ns.
func (f *Fleet) Now() int64 { return f.now }

// Workers lists the names of the workers: the sources of their accounts' triggers.
func (f *Fleet) Workers() []string { return f.names }

// Next returns what happens next, and moves the virtual clock there. A fleet
// never comes to an end.
func (f *Fleet) Next() Item {
	for {
		if len(f.queue) > 0 {
			item := f.queue[0]
			f.queue = f.queue[1:]
			return item
		}
		at, i := f.agenda.pop()
		if i < 0 {
			f.now = at
			f.befall(-i)
			continue
		}
		a := &f.actors[i]
		if len(a.plan) == 0 || a.plan[0].at != at {
			continue // planned anew since
		}
		f.now = at
		s := a.plan[0]
		n := copy(a.plan, a.plan[1:])
		a.plan[n] = step{} // what it held is not kept
		a.plan = a.plan[:n]
		item, ok := f.take(a, &s)
		if len(a.plan) > 0 {
			f.agenda.push(a.plan[0].at, i)
		}
		if ok {
			return item
		}
	}
}

// Items are what Next returns, until the virtual clock has passed so much time
// since its begin.
func (f *Fleet) Items(within time.Duration) iter.Seq[Item] {
	end := after(f.cfg.Start.UnixNano(), within)
	return func(yield func(Item) bool) {
		for {
			item := f.Next()
			if item.Virtual > end || !yield(item) {
				return
			}
		}
	}
}

// take does one step. It gives a trigger, or only plans further steps.
func (f *Fleet) take(a *actor, s *step) (Item, bool) {
	switch s.what {
	case decides:
		f.episode(a, s.at)
		return Item{}, false
	case writes:
		if a.up && !a.limited && a.kind != wecom {
			a.message(s.at)
		}
		f.meet(a, s.at, writes, f.cfg.Profile.Message)
		return Item{}, false
	case customers:
		if a.up && a.kind != wecom {
			a.customer(s.at)
		}
		f.meet(a, s.at, customers, f.cfg.Profile.Customer)
		return Item{}, false
	case beats:
		if f.dead[a.worker] {
			return Item{}, false
		}
		a.add(step{at: after(s.at, time.Duration(f.cfg.Speed*float64(a.between(170*time.Second, 190*time.Second)))), what: beats})
		s.trigger = "heartbeat"
	case says:
		a.follow(s)
	}
	return Item{Virtual: s.at, Trigger: f.trigger(a, s)}, true
}

// The shares of deliveries that come again, and of episodes with a stray callback.
const (
	comesAgain = 0.004
	strayScan  = 0.02
)

// trigger makes the words of a step.
func (f *Fleet) trigger(a *actor, s *step) domain.Trigger {
	t := domain.Trigger{
		ID: s.id, Account: a.id, Name: s.trigger, Key: s.key, At: f.cfg.Stamp(s.at), HasAt: true, By: s.by,
		Reason: domain.Reason{Code: s.code}, Data: s.data, Expect: domain.NoExpect,
	}
	if s.by == domain.ByUser {
		t.Source = "ops"
	} else {
		t.Source = f.names[a.worker]
		f.number(a, s, &t)
	}
	if f.cfg.IDs != "" && t.ID == "" {
		f.ids++
		t.ID = name(f.cfg.IDs, f.ids)
	}
	f.times(s, &t)
	if !a.known {
		a.known = true
		t.Machine = Machines()[a.kind]
		t.Labels = f.labels[int(a.rng.Uint64()%uint64(len(f.labels)))]
		if a.chance(0.3) {
			t.Mode = domain.ModeSupervise
		}
	}
	if !s.again && s.by != domain.ByUser && a.chance(comesAgain) {
		twin := *s
		twin.again, twin.what, twin.epoch, twin.seq, twin.id = true, talks, t.Epoch, t.Seq, t.ID
		twin.at = after(s.at, a.between(time.Second, 30*time.Second))
		a.add(twin)
	}
	return t
}

// number stamps the connection's epoch and seq.
func (f *Fleet) number(a *actor, s *step, t *domain.Trigger) {
	switch {
	case s.again:
		t.Epoch, t.Seq = s.epoch, s.seq
		return
	case a.kind == instance:
		return // as a source that knows only on and off
	case s.fresh:
		a.epoch, a.seq = max(a.epoch+1, t.At/int64(time.Millisecond)), 0
	}
	a.seq++
	t.Epoch, t.Seq = a.epoch, a.seq
}

// times fills in the times of the data.
func (f *Fleet) times(s *step, t *domain.Trigger) {
	if s.until[0].field == "" {
		return
	}
	d := domain.Data{}
	for k, v := range t.Data {
		d[k] = v
	}
	for _, u := range s.until {
		if u.field != "" {
			d[u.field] = domain.FormatTime(f.cfg.Stamp(after(s.at, u.in)))
		}
	}
	t.Data = d
}
