package app

import (
	"context"
	"time"

	"github.com/musterhq/muster/bus/alert"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/bus/feed"
	"github.com/musterhq/muster/bus/inbox"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/telemetry"
	"github.com/musterhq/muster/eventlog/natslog/barrier"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/readytime"
	"github.com/musterhq/muster/projections/transitions"
)

// askWithin bounds what a scrape asks of parts that answer over a connection.
const askWithin = 2 * time.Second

// isReady says whether the start is done; only then may the parts be touched from
// outside.
func (a *App) isReady() bool {
	select {
	case <-a.ready:
		return true
	default:
		return false
	}
}

// whenReady gives what get returns when the start is done, and the zero value before.
func whenReady[T any](a *App, get func() T) func() T {
	return func() (zero T) {
		if !a.isReady() {
			return zero
		}
		return get()
	}
}

// sources are the parts that the metrics are read from.
func (a *App) sources() telemetry.Sources {
	return telemetry.Sources{
		Ready:        a.isReady,
		Sync:         a.syncName,
		Replay:       whenReady(a, func() time.Duration { return a.replayed }),
		Distribution: whenReady(a, func() distribution.Counts { return a.views.distribution.Now() }),
		ClassOf: func(machine, state string) string {
			if m, ok := a.opts.Machines.Get(machine); ok {
				return m.Class(state)
			}
			return ""
		},
		Transitions: whenReady(a, func() transitions.Numbers { return a.views.transitions.Numbers(time.Now().UnixNano()) }),
		ReadyTime:   whenReady(a, func() *readytime.View { return a.views.readytime }),
		Attention:   whenReady(a, func() map[string]int { return a.views.attention.Size() }),
		Views: func() (projections.Status, map[int]uint64) {
			if !a.isReady() {
				return projections.Status{}, nil
			}
			return a.views.runner.Status(), a.views.runner.AsOf()
		},
		Connectors: whenReady(a, func() []hub.Stats {
			if h := a.hooks.Load(); h != nil {
				return h.Stats()
			}
			return nil
		}),
		Inbox:    a.inboxNumbers,
		Alerts:   a.alertNumbers,
		Feed:     whenReady(a, func() feed.Stats { return a.feed.Stats() }),
		Workers:  whenReady(a, a.workerNumbers),
		Tokens:   whenReady(a, a.tokenNumbers),
		DiskFree: a.diskNumbers,
	}
}

// syncName is how acknowledged events are brought to disk.
func (a *App) syncName() string {
	if !a.cfg.Embedded() {
		return "external"
	}
	if b := a.barrier.Load(); b != nil {
		return string(b.Mode())
	}
	return a.cfg.Sync
}

// measured is a barrier whose passes are measured, when they take time.
func (a *App) measured(b *barrier.Barrier) interface {
	Pass(partition, acked int, last uint64) error
} {
	a.barrier.Store(b)
	if b.Mode() != barrier.SyncGroup {
		return b
	}
	return a.metrics.Writers.Barrier(b)
}

func (a *App) inboxNumbers() (s inbox.Stats, parked uint64, ok bool) {
	if !a.isReady() {
		return s, 0, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	page, err := a.inbox.store.List(ctx, 0, 0)
	return a.inbox.reader.Stats(), page.Total, err == nil
}

func (a *App) alertNumbers() (c alert.Counts, ok bool) {
	e := a.alerts.engine.Load()
	if e == nil {
		return c, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	c, err := e.Counts(ctx)
	return c, err == nil
}

func (a *App) workerNumbers() map[string]int {
	n := map[string]int{}
	for _, w := range a.workers.Workers() {
		n[string(w.State)]++
	}
	return n
}

func (a *App) tokenNumbers() map[string]int {
	n, now := map[string]int{}, time.Now()
	for _, k := range a.door.tokens.List() {
		n[auth.View(&k, now).Status]++
	}
	return n
}

func (a *App) diskNumbers() (bytes uint64, ok bool) {
	if !a.isReady() || a.server == nil {
		return 0, false
	}
	bytes, err := a.diskFree()
	return bytes, err == nil
}
