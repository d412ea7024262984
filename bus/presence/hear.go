package presence

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/musterhq/muster/bus"
)

// Hello hears a worker's hello, and returns when what the worker says of its
// accounts from now on can no longer be mistaken for what was known before. The
// error is a [*bus.Error] for the worker, or ctx's.
func (p *Presence) Hello(ctx context.Context, m bus.WorkerMessage) (bus.WorkerWelcome, error) {
	finish, err := p.hello(m)
	if err != nil {
		return bus.WorkerWelcome{}, err
	}
	return finish(ctx)
}

// hello notes the hello; finish does what takes time.
func (p *Presence) hello(m bus.WorkerMessage) (finish func(context.Context) (bus.WorkerWelcome, error), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.roster.bootOf(m.Worker)
	todo, lapsed, err := p.roster.hello(m.Worker, m.Boot, m.Again, time.Now())
	if err != nil {
		return nil, err
	}
	if before.live && before.boot != m.Boot {
		p.log.Warn("a worker says hello in place of one that lives: it was killed a moment ago, or two processes use one name",
			"worker", m.Worker, "boot", m.Boot, "instead_of", before.boot)
	}
	j := p.act(todo)
	return func(ctx context.Context) (bus.WorkerWelcome, error) {
		p.storeSoon(ctx)
		if j != nil {
			select {
			case <-j.listed:
			case <-ctx.Done():
				return bus.WorkerWelcome{}, context.Cause(ctx)
			}
		}
		return p.welcome(lapsed), nil
	}, nil
}

func (p *Presence) welcome(lapsed bool) bus.WorkerWelcome {
	return bus.WorkerWelcome{BeatMS: p.cfg.Beat.Milliseconds(), Lapsed: lapsed}
}

// Beat hears a beat. tell says that the worker should be told the welcome: it
// had been taken for dead.
func (p *Presence) Beat(m bus.WorkerMessage) (w bus.WorkerWelcome, tell bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	todo, lapsed, counts := p.roster.beats(m.Worker, m.Boot, time.Duration(m.EveryMS)*time.Millisecond, time.Now())
	if !counts {
		p.log.Debug("a beat of a run that another one has followed", "worker", m.Worker, "boot", m.Boot)
		return w, false
	}
	p.act(todo)
	return p.welcome(lapsed), lapsed
}

// Goodbye hears a worker that ends by itself.
func (p *Presence) Goodbye(m bus.WorkerMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.act(p.roster.goodbye(m.Worker, m.Boot, time.Now()))
}

// Worker is what is known of one worker.
type Worker struct {
	Name  string
	Boot  string // of its last run; "" = not known
	State State
	Seen  time.Time     // its last sign of life
	Every time.Duration // between two beats, as it promised
}

// Workers returns all workers that are known, by name.
func (p *Presence) Workers() []Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Worker, 0, len(p.roster.workers))
	for _, w := range p.roster.workers {
		out = append(out, Worker{Name: w.name, Boot: w.boot, State: w.state, Seen: w.seen, Every: w.every})
	}
	slices.SortFunc(out, func(a, b Worker) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
