package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/domain"
)

// fleetConfig is that of a server which does not mark the fleet's accounts as
// unverified when half a minute has passed since the start: their sources are no
// workers, so it would be a million events at once that are measured.
func fleetConfig(dir, sync string) config.Config {
	cfg := configOf(dir, sync)
	cfg.RecoverAfter = 24 * time.Hour
	return cfg
}

// fleetTrigger is a trigger of the i-th account.
func fleetTrigger(i int, name string) domain.Trigger {
	return domain.Trigger{Account: domain.AccountID(fleetID(i)), Name: name, Source: fmt.Sprint("bench-worker-", i%50), Expect: domain.NoExpect}
}

// fillFleet writes a history: accounts taken over as running, one in ten limited, one in seven
// restricted; then losses and returns, until there are so many events. At its end
// one in fifty is lost, and one in a hundred logged out.
func fillFleet(ctx context.Context, dir string, cfg QueryConfig) (events int, err error) {
	s, err := run(ctx, fleetConfig(dir, "interval"), "")
	if err != nil {
		return 0, err
	}
	asOf, err := s.app.Writers().Accounts(ctx, func(*domain.Account) {})
	for _, seq := range asOf {
		events += int(seq)
	}
	if events > 0 || err != nil { // a directory that was kept
		return events, errors.Join(err, s.stop())
	}
	f := newFeeder(s.app.Writers())
	populate(ctx, f, cfg.Accounts)
	at := func(name string, i int) {
		t := fleetTrigger(i, name)
		if name == "logout" {
			t.Reason.Code = "401"
		}
		f.send(ctx, t)
	}
	for i := 0; f.sent < cfg.Events-cfg.Accounts/30-1 && ctx.Err() == nil; i++ {
		at("connection_lost", i%cfg.Accounts)
		at("connection_ready", i%cfg.Accounts)
	}
	for i := range cfg.Accounts {
		switch {
		case i%50 == 0:
			at("connection_lost", i)
		case i%100 == 1:
			at("logout", i)
		}
	}
	return f.sent, errors.Join(f.wait(), ctx.Err(), s.stop())
}

// populate takes accounts over as running; one in ten is limited, and one in
// seven restricted.
func populate(ctx context.Context, f *feeder, accounts int) {
	for i := range accounts {
		t := fleetTrigger(i, "adopt")
		t.Data = domain.Data{"state": "RUNNING"}
		t.Labels = map[string]string{"pool": pools[i%len(pools)], "tier": fmt.Sprint("t", i%3)}
		f.send(ctx, t)
		switch {
		case i%10 == 0:
			f.send(ctx, fleetTrigger(i, "rate_limited"))
		case i%7 == 0:
			t := fleetTrigger(i, "restricted")
			t.Data = domain.Data{"scope": "new_chats"}
			f.send(ctx, t)
		}
	}
}

// feeder gives triggers to the writers, so many at a time.
type feeder struct {
	set    *command.Set
	window chan struct{}
	wg     sync.WaitGroup
	sent   int // by the goroutine that sends
	done   atomic.Int64
	failed atomic.Pointer[error]
}

func newFeeder(set *command.Set) *feeder { return &feeder{set: set, window: make(chan struct{}, 4000)} }

func (f *feeder) send(ctx context.Context, t domain.Trigger) {
	select {
	case f.window <- struct{}{}:
	case <-ctx.Done():
		return
	}
	f.sent++
	f.wg.Add(1)
	answered := func(a command.Answer) {
		if a.Err != nil || !a.Verdict.Outcome.Appended() {
			f.fail(fmt.Errorf("trigger %s of %s: %v %s: %w", t.Name, t.Account, a.Verdict.Outcome, a.Verdict.Reason, a.Err))
		}
		f.done.Add(1)
		<-f.window
		f.wg.Done()
	}
	err := f.set.Submit(t, answered)
	for command.Retryable(err) && ctx.Err() == nil { // a full queue, or a change of owner
		time.Sleep(10 * time.Millisecond)
		err = f.set.Submit(t, answered)
	}
	if err != nil {
		f.fail(fmt.Errorf("trigger %s of %s: %w", t.Name, t.Account, err))
		<-f.window
		f.wg.Done()
	}
}

func (f *feeder) fail(err error) { f.failed.CompareAndSwap(nil, &err) }

// wait returns when all answers are there, with the first failure.
func (f *feeder) wait() error {
	f.wg.Wait()
	if err := f.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// traffic is the triggers that come in while questions are asked.
type traffic struct {
	feeder *feeder
	began  time.Time
	ended  chan struct{}
}

// startTraffic sends triggers at a rate: messages mostly, and now and then a
// limit or its end, until ctx ends.
func startTraffic(ctx context.Context, set *command.Set, cfg QueryConfig) *traffic {
	t := &traffic{feeder: newFeeder(set), began: time.Now(), ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		rnd := rand.New(rand.NewPCG(1, 2))
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for sent := 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for due := int(time.Since(t.began).Seconds() * float64(cfg.Rate)); sent < due; sent++ {
				t.feeder.send(ctx, trafficTrigger(rnd, cfg.Accounts, sent))
			}
		}
	}()
	return t
}

func trafficTrigger(rnd *rand.Rand, accounts, n int) domain.Trigger {
	account := rnd.IntN(accounts)
	switch n % 10 {
	case 0:
		return fleetTrigger(account, "rate_limited")
	case 1:
		return fleetTrigger(account, "connection_ready")
	}
	t := fleetTrigger(account, "message_pending")
	if n%2 == 0 {
		t.Name = "message_sent"
	}
	t.Key = fmt.Sprint("m-", n/2)
	return t
}

// rate is triggers per second so far.
func (t *traffic) rate() float64 {
	return float64(t.feeder.done.Load()) / time.Since(t.began).Seconds()
}

// wait returns when the traffic has ended.
func (t *traffic) wait() error {
	<-t.ended
	return t.feeder.wait()
}
