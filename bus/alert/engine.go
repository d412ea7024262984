package alert

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/explain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// Config is what an Engine needs; all fields but the last three are required.
type Config struct {
	Settings Settings
	NC       *nats.Conn // for the journal; stays the caller's
	Replicas int        // of the journal, when it is new (0: 1)
	Log      eventlog.Log
	Source   Source // gives the records of Log
	Judge    *domain.Judge
	Look     LookFunc
	// Accounts calls f with all folded accounts and returns the sequences up to
	// which they are folded, by partition.
	Accounts func(ctx context.Context, f func(*domain.Account)) (map[int]uint64, error)
	Actions  Actions

	// Damaged are accounts whose history is known not to be whole.
	Damaged []domain.AccountID
	Version string       // of the program, for receivers
	Logger  *slog.Logger // default: discarded

	// Tried, when set, is called after each try with the time at which it began,
	// from the goroutine that made it. It must not change the delivery.
	Tried func(d *Delivery, began time.Time, r Result)
}

// Actions are what operators did: an operator.Log.
type Actions interface {
	Last(ctx context.Context) (uint64, error)
	Follow(ctx context.Context, after uint64) iter.Seq2[operator.Entry, error]
}

var _ Actions = (*operator.Log)(nil)

// Engine runs a Core: it feeds it, stores what it decides, and sends. Make one
// with Open; Run does everything.
type Engine struct {
	cfg     Config
	log     *slog.Logger
	journal journal
	sender  Sender
	hang    func() // ends the sender's idle connections

	seen chan Seen
	work chan func(now time.Time)
	wg   sync.WaitGroup

	core   *Core
	after  []func() // once what was decided is stored
	flying int
	placed time.Time // when the positions were stored last
	loaded chan struct{}
	ended  chan struct{}
}

// Open opens the journal and returns an Engine that has done nothing yet.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	j, err := openJournal(ctx, cfg.NC, cfg.Replicas)
	if err != nil {
		return nil, err
	}
	sender, hang := newHTTPSender(cfg.Version)
	return newEngine(cfg, j, sender, hang), nil
}

func newEngine(cfg Config, j journal, s Sender, hang func()) *Engine {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		cfg: cfg, log: cfg.Logger, journal: j, sender: s, hang: hang,
		seen: make(chan Seen, 1024), work: make(chan func(time.Time), 64), loaded: make(chan struct{}), ended: make(chan struct{}),
	}
}

// drainWithin is how long the end waits for tries that are under way.
const drainWithin = 3 * time.Second

// Run makes and sends alerts until ctx ends. The error is ErrSuperseded when
// another process has taken over, or says what could not be loaded.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.ended)
	defer e.hang()
	work, cancel := context.WithCancel(ctx)
	defer e.wg.Wait()
	defer cancel()
	if err := e.load(work); err != nil {
		return fmt.Errorf("load the alerts: %w", err)
	}
	close(e.loaded)
	if len(e.cfg.Settings.Endpoints) > 0 {
		for p := range e.cfg.Log.Partitions() {
			after := e.core.st.positions[p]
			e.wg.Go(func() { e.follow(work, p, after) })
		}
	}
	// Tries outlive ctx a little: what has reached a receiver is better known.
	sends, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	err := e.loop(work, sends)
	if err == nil {
		e.drain(ctx)
	}
	return err
}

// Loaded is closed once everything is loaded: what begins to need somebody from
// then on is told.
func (e *Engine) Loaded() <-chan struct{} { return e.loaded }

// Ended is closed when Run has ended.
func (e *Engine) Ended() <-chan struct{} { return e.ended }

// loop does what comes in and what comes due, stores what was decided, and sends.
func (e *Engine) loop(ctx, sends context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-e.seen:
			e.takeIn(&s)
		case f := <-e.work:
			f(time.Now())
		case <-timer.C:
		}
		e.gather()
		now := time.Now()
		e.core.advance(now)
		if err := e.store(ctx, now); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for _, d := range e.core.start(now) {
			e.send(sends, *d)
		}
		pause := time.Hour
		if e.core.behind() {
			pause = placesEvery
		}
		if at, ok := e.core.next(); ok {
			pause = max(0, min(pause, time.Until(at)))
		}
		timer.Reset(pause)
	}
}

// maxStep is how much is taken in at once before it is stored.
const maxStep = 1000

// gather takes in what waits already.
func (e *Engine) gather() {
	for range maxStep {
		select {
		case s := <-e.seen:
			e.takeIn(&s)
		case f := <-e.work:
			f(time.Now())
		default:
			return
		}
	}
}

func (e *Engine) takeIn(s *Seen) {
	e.core.place(s.Partition, s.Seq)
	if s.Account != "" {
		e.core.observe(s, time.Now())
	}
}

// placesEvery is how often positions alone are stored. One that is behind only
// costs that some events are looked at again after a start.
const placesEvery = 5 * time.Second

// store brings what was decided into the journal and then answers who waits for it.
func (e *Engine) store(ctx context.Context, now time.Time) error {
	if e.core.decided() || (e.core.behind() && now.Sub(e.placed) >= placesEvery) {
		if err := e.journal.append(ctx, e.core.take(), e.core.st); err != nil {
			return err
		}
		e.placed = now
	}
	for _, f := range e.after {
		f()
	}
	e.after = nil
	return nil
}

// send makes one try in a goroutine of its own.
func (e *Engine) send(ctx context.Context, d Delivery) {
	endpoint := e.core.byName[d.Endpoint]
	e.flying++
	e.wg.Go(func() {
		began := time.Now()
		r := e.sender.Send(ctx, endpoint, &d)
		if e.cfg.Tried != nil {
			e.cfg.Tried(&d, began, r)
		}
		if ctx.Err() != nil {
			return // it was broken off: nothing is known, and it is tried again after the start
		}
		select {
		case e.work <- func(now time.Time) { e.flying--; e.result(&d, r, now) }:
		case <-ctx.Done():
		}
	})
}

func (e *Engine) result(d *Delivery, r Result, now time.Time) {
	disabled := e.core.result(d.ID, r, now)
	log := e.log.With("endpoint", d.Endpoint, "alert", d.ID, "type", string(d.Type))
	now1 := e.core.st.deliveries[d.ID]
	switch {
	case disabled:
		log.Error("the endpoint answered 410 Gone and is disabled; `muster alerts test` enables it when it answers again", "host", e.core.byName[d.Endpoint].host())
	case now1 != nil && now1.Status == Dead:
		log.Error("an alert was not delivered and is given up; `muster alerts resend` tries it again", "attempts", now1.Attempts, "error", r.Err)
	case now1 != nil && now1.Status == Pending:
		log.Warn("an alert was not delivered and is tried again", "attempt", now1.Attempts, "next", time.Unix(0, now1.Next).UTC(), "error", r.Err)
	}
}

// drain waits for tries that are under way, for a moment, and stores what came of them.
func (e *Engine) drain(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
	defer cancel()
	for e.flying > 0 {
		select {
		case f := <-e.work:
			f(time.Now())
		case <-bounded.Done():
			return
		}
	}
	e.placed = time.Time{}
	if err := e.store(bounded, time.Now()); err != nil {
		e.log.Warn("the last tries of alerts could not be noted; they are repeated under the same ids", "error", err)
	}
}

// restFor is the pause before something that failed is tried again.
const restFor = time.Second

func rest(ctx context.Context) {
	select {
	case <-time.After(restFor):
	case <-ctx.Done():
	}
}

// follow feeds one partition's events until ctx ends, whatever fails meanwhile.
func (e *Engine) follow(ctx context.Context, partition int, after uint64) {
	f := feed{partition: partition, source: e.cfg.Source, look: e.cfg.Look, judge: e.cfg.Judge, out: e.seen, reader: codec.NewReader()}
	for ctx.Err() == nil {
		done, err := f.run(ctx, after)
		if err != nil && ctx.Err() == nil {
			e.log.Warn("events cannot be followed for alerts; trying on", "partition", partition, "after", done, "error", err)
		}
		after = done
		rest(ctx)
	}
}

// describe explains an account in a sentence. The reason is why it came into its
// state, when it is the state that asks for somebody.
func (e *Engine) describe(id domain.AccountID, kind, reason string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a, damage, err := e.cfg.Look(ctx, id)
	if err != nil || a == nil {
		return fmt.Sprintf("The account %s: %s.", id, domain.AttentionNamed(kind).About)
	}
	for i := range a.Conditions {
		if a.Conditions[i].Name == kind {
			reason = ""
		}
	}
	return explain.Account(explain.Facts{Judge: e.cfg.Judge, Account: a, Reason: reason, Damage: damage, Now: time.Now().UnixNano()}).Sentence
}

// ErrEnded says that the Engine does not run any more, or not yet.
var ErrEnded = errors.New("alerts are not being made by this process now")

// do runs f with the Core and returns its error, once what it decided is stored.
func (e *Engine) do(ctx context.Context, f func(c *Core, now time.Time) error) error {
	done := make(chan error, 1)
	task := func(now time.Time) {
		err := f(e.core, now)
		e.after = append(e.after, func() { done <- err })
	}
	select {
	case e.work <- task:
	case <-e.ended:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-e.ended:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
