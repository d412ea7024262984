package app

import (
	"context"
	"fmt"
	"time"

	"github.com/musterhq/muster/bus/presence"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

// startWorkers begins to hear workers. It has a connection of its own: a beat
// must not wait behind a flood of triggers.
func (a *App) startWorkers(ctx context.Context) error {
	nc, err := a.Connect("muster workers")
	if err != nil {
		return fmt.Errorf("listen for workers: %w", err)
	}
	a.onEnd("workers' connection", time.Second, func(context.Context) error { nc.Close(); return nil })
	a.workers, err = presence.New(presence.Config{
		Fleet: a.set, Machines: a.opts.Machines, Partitions: a.events.Partitions(), Blobs: a.blobs,
		Beat: a.cfg.Beat, RecoverAfter: a.cfg.RecoverAfter, Hearing: nc.IsConnected,
		Logger: a.log.With("component", "workers"),
	})
	if err != nil {
		return err
	}
	if a.cfg.RecoverAfter < a.cfg.Beat {
		a.log.Warn("--recover-after is shorter than --beat: after a start, accounts may be taken for lost before their worker could say that it lives")
	}
	if err := a.workers.Start(ctx); err != nil {
		return err
	}
	a.onEnd("workers", 5*time.Second, a.workers.Stop)
	listener, err := presence.Listen(nc, a.workers)
	if err != nil {
		return err
	}
	a.onEnd("hearing of workers", 5*time.Second, listener.Close)
	return nil
}

// listWorkers answers with all workers that are known.
func (a *App) listWorkers(ctx context.Context, r api.WorkersRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	known := a.workers.Workers()
	accounts := map[string]int{}
	asOf, err := a.set.Accounts(ctx, func(acct *domain.Account) {
		if !acct.Forgotten {
			accounts[acct.Source]++
		}
	})
	if err != nil {
		return nil, fmt.Errorf("count the workers' accounts: %w", err)
	}
	now := time.Now()
	out := api.Workers{Workers: make([]api.Worker, 0, len(known)), AsOf: asOf}
	for _, w := range known {
		out.Workers = append(out.Workers, api.Worker{
			Name: w.Name, Boot: w.Boot, State: string(w.State), LastBeat: domain.FormatTime(w.Seen.UnixNano()),
			BeatAge: now.Sub(w.Seen).Seconds(), BeatEvery: w.Every.Seconds(), Accounts: accounts[w.Name],
		})
	}
	return out, nil
}
