package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

// PlayConfig says how a fleet is played to a server. Fleet is required.
type PlayConfig struct {
	Fleet Config // Start, Stamp, Speed and IDs are set by NewPlay
	// Rate is how many triggers are sent each second; 0: as many as a real
	// fleet of this size would send.
	Rate float64
	Past time.Duration // how much of its life the fleet has behind it; see Play.Past
}

// Play is a fleet whose clock is set to ours.
type Play struct {
	fleet *Fleet
	begin time.Time
	speed float64
	next  *Item // taken from the fleet, and not yet said
}

// NewPlay makes a fleet that lives now.
func NewPlay(cfg PlayConfig) (*Play, error) {
	p := &Play{begin: time.Now(), speed: 1}
	if cfg.Rate > 0 {
		natural, err := naturalRate(cfg.Fleet)
		if err != nil {
			return nil, err
		}
		p.speed = cfg.Rate / natural
	}
	now := p.begin.UnixNano()
	c := cfg.Fleet
	c.Start, c.Speed, c.CalmFor = p.begin.Add(-cfg.Past), p.speed, cfg.Past
	c.IDs = name("sim-", p.begin.UnixMilli()) + "-"
	c.Stamp = func(virtual int64) int64 {
		if virtual <= now {
			return virtual
		}
		return now + int64(float64(virtual-now)/p.speed)
	}
	var err error
	p.fleet, err = New(c)
	return p, err
}

// Begin is when the past ends.
func (p *Play) Begin() time.Time { return p.begin }

// Fleet is the fleet that is played.
func (p *Play) Fleet() *Fleet { return p.fleet }

// Past judges what the fleet has behind it, and others' triggers, sorted by time,
// in between, and gives the events; see WriteHistory. It can be called once,
// before Live.
func (p *Play) Past(others []domain.Trigger) iter.Seq[*domain.Event] {
	j := judged(p.fleet, len(p.fleet.actors))
	return func(yield func(*domain.Event) bool) {
		for {
			item := p.fleet.Next()
			end := min(item.Virtual, p.begin.UnixNano())
			for ; len(others) > 0 && others[0].At <= end; others = others[1:] {
				if !j.say(&Item{Virtual: others[0].At, Trigger: others[0]}, yield) {
					return
				}
			}
			if item.Virtual > p.begin.UnixNano() {
				p.next = &item
				j.fire(p.begin.UnixNano(), yield)
				return
			}
			if !j.say(&item, yield) {
				return
			}
		}
	}
}

// LiveConfig says how a fleet is sent to a server. Client and Host are required.
type LiveConfig struct {
	For time.Duration // ends after that; 0 = when the context does
	// Client sends. It should try again for as long as its context lasts.
	Client *bus.Client
	Window int // triggers under way at once; 0: bus.DefaultWindow
	// Host starts a worker's run; it returns when Muster has heard it.
	Host func(ctx context.Context, name string) (Host, error)
	// Begun, when set, is called when all workers have been heard.
	Begun func()
	// Progress, when set, is called about every ten seconds.
	Progress func(Report)
}

// Host is one run of a worker: it has said hello and beats.
type Host interface {
	Die()                            // ends it without a word
	Leave(ctx context.Context) error // says goodbye and ends it
}

// Report says what became of what was sent.
type Report struct {
	Sent     int            `json:"sent"`
	Outcomes map[string]int `json:"outcomes"`
	Failed   int            `json:"failed"` // got no verdict
	Seconds  float64        `json:"seconds"`
	Rate     float64        `json:"rate"`  // verdicts per second
	Speed    float64        `json:"speed"` // seconds of the fleet's life in one of ours
	Failure  string         `json:"failure,omitempty"`
}

const (
	progressEvery = 10 * time.Second
	sendGrace     = 10 * time.Second // for what is under way at the end
	leaveGrace    = 5 * time.Second
)

// live is one run of Live.
type live struct {
	*Play
	cfg   LiveConfig
	since time.Time
	hosts map[string]Host
	err   error // why the words ended early

	mu     sync.Mutex // guards what follows
	report Report
	said   time.Time
}

// Live sends what the fleet says to a server until ctx ends, which is no error,
// or For has passed. The error says why it could not begin or go on.
func (p *Play) Live(ctx context.Context, cfg LiveConfig) (Report, error) {
	l := &live{Play: p, cfg: cfg, since: time.Now(), hosts: map[string]Host{}, report: Report{Outcomes: map[string]int{}}}
	defer l.leave(ctx)
	for _, w := range l.fleet.Workers() {
		if err := l.raise(ctx, w); err != nil {
			return l.report, err
		}
	}
	if cfg.Begun != nil {
		cfg.Begun()
	}
	sending, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	defer context.AfterFunc(ctx, func() {
		late := time.AfterFunc(sendGrace, func() { stop(errors.New("what was under way was not answered in time")) })
		context.AfterFunc(sending, func() { late.Stop() })
	})()
	err := l.cfg.Client.SendMany(sending, l.words(ctx), l.cfg.Window, l.landed)
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		err = nil // asked to end
	}
	return l.figures(), errors.Join(l.err, err)
}

// naturalRate is how many triggers a fleet sends in a second of its life, once
// its accounts are up.
func naturalRate(cfg Config) (float64, error) {
	size := cfg.Accounts
	cfg.Accounts = min(size, 200)
	cfg.Stamp, cfg.IDs = nil, ""
	f, err := New(cfg)
	if err != nil {
		return 0, err
	}
	settle, measure := max(cfg.Profile.Ramp, 20*time.Minute), 2*time.Hour
	n, from := 0, after(f.Now(), settle)
	for item := range f.Items(settle + measure) {
		if item.Virtual >= from && item.Signal == NoSignal {
			n++
		}
	}
	return max(float64(n), 1) / measure.Seconds() * float64(size) / float64(cfg.Accounts), nil
}

// raise starts a worker.
func (l *live) raise(ctx context.Context, worker string) error {
	h, err := l.cfg.Host(ctx, worker)
	if err != nil {
		return fmt.Errorf("start %s: %w", worker, err)
	}
	l.hosts[worker] = h
	return nil
}

// leave ends all workers.
func (l *live) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveGrace)
	defer cancel()
	var wg sync.WaitGroup
	for _, h := range l.hosts {
		wg.Go(func() { _ = h.Leave(ctx) }) // not heard is not lost: Muster notices the silence
	}
	wg.Wait()
}

// words are what the fleet says, each at its time.
func (l *live) words(ctx context.Context) iter.Seq[domain.Trigger] {
	return func(yield func(domain.Trigger) bool) {
		for {
			item := l.following()
			at := time.Unix(0, l.fleet.cfg.Stamp(item.Virtual))
			if l.cfg.For > 0 && at.Sub(l.since) > l.cfg.For || !waitUntil(ctx, at) {
				return
			}
			if item.Signal != NoSignal {
				if l.err = l.signal(ctx, &item); l.err != nil {
					return
				}
				continue
			}
			if !yield(item.Trigger) {
				return
			}
		}
	}
}

// following is what happens next.
func (l *live) following() Item {
	if l.next == nil {
		return l.fleet.Next()
	}
	item := *l.next
	l.next = nil
	return item
}

// signal ends a worker, or starts it again.
func (l *live) signal(ctx context.Context, item *Item) error {
	if item.Signal == WorkerDies {
		l.hosts[item.Worker].Die()
		delete(l.hosts, item.Worker)
		return nil
	}
	err := l.raise(ctx, item.Worker)
	if ctx.Err() != nil {
		return nil // asked to end; the words end, too
	}
	return err
}

// waitUntil waits for a time; false when ctx ends first.
func waitUntil(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// landed counts what became of a trigger.
func (l *live) landed(s bus.Sent) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Sent++
	if s.Err != nil {
		l.report.Failed++
		l.report.Failure = s.Err.Error()
	} else {
		l.report.Outcomes[s.Reply.Verdict.Outcome.String()]++
	}
	if l.cfg.Progress != nil && time.Since(l.said) > progressEvery {
		if !l.said.IsZero() {
			l.cfg.Progress(l.figures())
		}
		l.said = time.Now()
	}
	return true
}

// figures are the report so far; the lock is held.
func (l *live) figures() Report {
	r := l.report
	r.Seconds, r.Speed = time.Since(l.since).Seconds(), l.speed
	r.Rate = float64(r.Sent-r.Failed) / r.Seconds
	r.Outcomes = map[string]int{}
	for o, n := range l.report.Outcomes {
		r.Outcomes[o] = n
	}
	return r
}
