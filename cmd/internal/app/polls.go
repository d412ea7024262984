package app

import (
	"context"
	"fmt"
	"time"

	"github.com/musterhq/muster/bus/connector/reconcile"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

// startPolls asks the servers of sources that have a poll for their sessions,
// from now on until the end.
func (a *App) startPolls(ledger reconcile.Ledger) error {
	cfg := reconcile.Config{Ledger: ledger, Judge: a.judge, RecoverAfter: a.cfg.RecoverAfter, Logger: a.log.With("component", "polls")}
	for i := range a.cfg.Connectors {
		cfg.Sources = append(cfg.Sources, a.cfg.Connectors[i].Source)
	}
	polls, err := reconcile.New(cfg)
	if err != nil {
		return fmt.Errorf("poll the sources: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		polls.Run(ctx)
	}()
	a.polls = polls
	a.onEnd("polls", 5*time.Second, func(ctx context.Context) error {
		cancel()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return nil
}

// polled is what came of the polls, by the source's name.
func (a *App) polled() map[string]*api.Poll {
	out := map[string]*api.Poll{}
	for _, s := range a.polls.Stats() {
		p := &api.Poll{
			Polls: int64(s.Polls), Failures: int64(s.Failures), Published: int64(s.Published), Vanished: int64(s.Vanished),
			Sessions: s.Last.Sessions, LastError: s.LastError,
		}
		if !s.LastAt.IsZero() {
			p.Last = domain.FormatTime(s.LastAt.UnixNano())
		}
		out[s.Source] = p
	}
	return out
}
