package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus/alert"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections"
)

// alerts are what tells others who needs a human.
type alerts struct {
	actions *operator.Log
	nc      *nats.Conn
	tee     *projections.Tee // nil: nobody is to be told
	engine  atomic.Pointer[alert.Engine]

	mu      sync.Mutex
	damaged map[domain.AccountID]bool // found when partitions were taken over
}

// alertPartition is the partition whose owner makes the alerts for all.
const alertPartition = 0

// alertTee is how many records of a partition may wait for the alerts in memory;
// beyond that they are read from the log.
const alertTee = 4096

// prepareAlerts is done before the writers commit anything.
func (a *App) prepareAlerts(context.Context) error {
	known := map[string]bool{}
	for _, k := range domain.AttentionKinds() {
		known[k.Name] = true
	}
	for _, m := range a.opts.Machines.List() {
		for _, s := range m.Definition().States {
			known[s.Attention] = true
		}
	}
	if err := a.cfg.Alerts.CheckKinds(slices.Sorted(maps.Keys(known))); err != nil {
		return err
	}
	a.alerts.damaged = map[domain.AccountID]bool{}
	if len(a.cfg.Alerts.Endpoints) > 0 {
		a.alerts.tee = projections.NewTee(a.events, a.events.Partitions(), alertTee)
	}
	return nil
}

// offer hands committed records to the alerts.
func (p *alerts) offer(partition int, records []eventlog.Record) {
	if p.tee != nil {
		p.tee.Offer(partition, records)
	}
}

// found notes accounts whose history is not whole.
func (p *alerts) found(damaged map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range damaged {
		p.damaged[domain.AccountID(id)] = true
	}
}

func (p *alerts) hurt() []domain.AccountID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.damaged))
}

// startAlerts opens the operators' log and begins to make alerts, in the process
// that owns the first partition. It returns when they are being made.
func (a *App) startAlerts(ctx context.Context) error {
	nc, err := a.Connect("muster alerts")
	if err != nil {
		return fmt.Errorf("start the alerts: %w", err)
	}
	a.onEnd("alerts' connection", time.Second, func(context.Context) error { nc.Close(); return nil })
	a.alerts.nc = nc
	if a.alerts.actions, err = operator.Open(ctx, nc, a.events.Replicas()); err != nil {
		return err
	}
	work, cancel := context.WithCancel(context.Background())
	begun, ended := make(chan struct{}), make(chan struct{})
	a.wg.Go(func() {
		defer close(ended)
		a.makeAlerts(work, begun)
	})
	a.onEnd("alerts", 10*time.Second, func(ctx context.Context) error {
		cancel()
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	select {
	case <-begun:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// alertRest is the pause before alerts are begun again.
const alertRest = time.Second

// makeAlerts makes alerts while this process owns the first partition. begun is
// closed when the first attempt has come to something.
func (a *App) makeAlerts(ctx context.Context, begun chan<- struct{}) {
	log := a.log.With("component", "alerts")
	once := sync.OnceFunc(func() { close(begun) })
	defer once()
	for ctx.Err() == nil {
		if a.set.Owns(alertPartition) {
			if err := a.runAlerts(ctx, once); err != nil && ctx.Err() == nil {
				log.Error("alerts are not made at the moment; trying on", "error", err)
			}
		}
		once()
		wait(ctx, alertRest)
	}
}

// runAlerts makes alerts until ctx ends, the partition is lost, or something fails.
func (a *App) runAlerts(ctx context.Context, begun func()) error {
	owned, cancel := context.WithCancel(ctx)
	defer cancel()
	source := alert.Source(a.events)
	if a.alerts.tee != nil {
		source = a.alerts.tee
	}
	engine, err := alert.Open(owned, alert.Config{
		Settings: a.cfg.Alerts.Settings, NC: a.alerts.nc, Replicas: a.events.Replicas(), Log: a.events, Source: source,
		Judge: a.judge, Look: a.lookForAlerts, Accounts: a.set.Accounts, Actions: a.alerts.actions,
		Damaged: a.alerts.hurt(), Version: a.opts.Version, Logger: a.log.With("component", "alerts"), Tried: a.triedAlert(),
	})
	if err != nil {
		return err
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() {
		defer cancel()
		select {
		case <-engine.Loaded():
			a.alerts.engine.Store(engine)
			begun()
		case <-engine.Ended():
		}
		for owned.Err() == nil && a.set.Owns(alertPartition) {
			wait(owned, alertRest)
		}
	})
	defer cancel()
	defer a.alerts.engine.Store(nil)
	return engine.Run(owned)
}

// lookForAlerts is an account as its writer holds it, or as the log has it when
// another process writes it.
func (a *App) lookForAlerts(ctx context.Context, id domain.AccountID) (*domain.Account, string, error) {
	l, ok, err := a.set.Look(id)
	if errors.Is(err, command.ErrNotOwner) {
		l, ok, err = a.foldLog(ctx, id)
	}
	if err != nil || !ok {
		return nil, l.Damage, err
	}
	return l.Account, l.Damage, nil
}
