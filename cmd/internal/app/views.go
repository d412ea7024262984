package app

import (
	"context"
	"fmt"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/accounts"
	"github.com/musterhq/muster/projections/attention"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/readytime"
	"github.com/musterhq/muster/projections/route"
	"github.com/musterhq/muster/projections/stays"
	"github.com/musterhq/muster/projections/talk"
	"github.com/musterhq/muster/projections/transitions"
)

// views are the read models and what keeps them up to date.
type views struct {
	accounts     *accounts.View
	distribution *distribution.View
	transitions  *transitions.View
	readytime    *readytime.View
	attention    *attention.View
	route        *route.View
	stays        *stays.View
	talk         *talk.View
	roster       *projections.Roster
	history      *handover
	tee          *projections.Tee
	runner       *projections.Runner
	work         context.Context // ends with the views
}

// offer hands committed records to the views without a way through the server.
func (v *views) offer(partition int, records []eventlog.Record) {
	v.tee.Offer(partition, records)
}

func (a *App) openViews(context.Context) error {
	n, machines := a.events.Partitions(), a.opts.Machines
	roster := projections.NewRoster(n)
	v := &views{
		roster:       roster,
		accounts:     accounts.New(roster, a.judge),
		distribution: distribution.New(n, machines),
		transitions:  transitions.New(n),
		readytime:    readytime.New(n, machines),
		attention:    attention.New(roster, machines),
		route:        route.New(roster, machines),
		stays:        stays.New(roster, machines),
		talk:         talk.New(roster),
		history:      newHandover(a.events),
		tee:          projections.NewTee(a.events, n, 0),
	}
	log := a.log.With("component", "views")
	poison, poisonOf, err := projections.ParsePoisonRules(a.cfg.Poison)
	if err != nil {
		return fmt.Errorf("open the views: poison: %w", err)
	}
	runner, err := projections.New(projections.Config{
		History: v.history, Source: a.tracer.Source(v.tee, a.isReady), Roster: roster,
		Views:  []projections.View{v.accounts, v.distribution, v.transitions, v.readytime, v.attention, v.route, v.stays, v.talk},
		Blobs:  a.blobs,
		Poison: poison, PoisonOf: poisonOf,
		OnAlarm: func(alarm projections.Alarm) {
			if alarm.Kind == projections.Poisoned {
				log.Error("a view cannot take an event", "alarm", alarm.String(), "stack", string(alarm.Stack))
				return
			}
			log.Error("the history is not whole", "alarm", alarm.String())
		},
		OnNotice: func(err error) { log.Warn("views", "notice", err) },
	})
	if err != nil {
		return fmt.Errorf("open the views: %w", err)
	}
	v.runner, a.views = runner, v
	return nil
}

// startViews begins to follow the history, before the writers read it.
func (a *App) startViews(context.Context) error {
	work, cancel := context.WithCancel(context.Background())
	a.views.work = work
	a.wg.Go(func() {
		err := a.views.runner.Run(work)
		a.views.history.endAll() // nobody waits for the views any more
		if err != nil {
			a.fail(fmt.Errorf("follow the history: %w", err))
		}
	})
	a.onEnd("views", 30*time.Second, func(ctx context.Context) error {
		cancel()
		select {
		case <-a.views.runner.Ended():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return nil
}

// awaitViews waits until the views have caught up.
func (a *App) awaitViews(ctx context.Context) error {
	a.views.history.endAll()
	select {
	case <-a.views.runner.CaughtUp():
		return nil
	case err := <-a.failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readiness is the body of a good /readyz.
func (a *App) readiness() any {
	s := a.views.runner.Status()
	ready := map[string]any{
		"status": "ready", "accounts": a.views.accounts.Len(), "as_of": a.views.runner.AsOf(),
		"sync": a.cfg.Sync, "replay_ms": a.replayed.Milliseconds(), "alarms": len(s.FirstAlarms), "discarded_snapshots": s.Discarded,
	}
	if sick := unsound(s.Views); sick != nil {
		ready["views"] = sick
	}
	if s, ok := a.ArchiveStats(); ok {
		ready["archive"] = s
	}
	return ready
}
