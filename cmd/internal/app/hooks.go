package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/connector/all"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

// startHooks opens the way in for webhooks, behind everything that they need.
// Without connectors there is none: every path is unknown.
func (a *App) startHooks(ctx context.Context) error {
	cfg := hub.Config{Memory: &hub.MapMemory{}, Logger: a.log.With("component", "hooks")}
	live := &hub.Live{Writers: a.judged(), Fold: a.foldAccount}
	cfg.Ledger = live
	if len(a.cfg.Connectors) > 0 {
		nc, err := a.Connect("muster hooks")
		if err != nil {
			return fmt.Errorf("open the webhooks: %w", err)
		}
		a.onEnd("webhooks' connection", time.Second, func(context.Context) error { nc.Close(); return nil })
		memory, err := hub.OpenMemory(ctx, nc, a.events.Replicas())
		if err != nil {
			return fmt.Errorf("open the webhooks: %w", err)
		}
		a.onEnd("connectors' memory", 5*time.Second, func(context.Context) error { memory.Close(); return nil })
		client := bus.NewClient(nc, bus.ClientConfig{})
		live.Send = func(ctx context.Context, t domain.Trigger) (domain.Verdict, error) {
			r, err := client.Send(ctx, t)
			return r.Verdict, err
		}
		cfg.Memory = memory
	}
	h, err := hub.New(cfg, a.hookEntries())
	if err != nil {
		return fmt.Errorf("open the webhooks: %w", err)
	}
	if err := a.startPolls(live); err != nil {
		return err
	}
	a.hooks.Store(h)
	a.onEnd("webhooks", 5*time.Second, h.Close)
	return nil
}

// hookEntries are the configured sources with their connectors, one for each kind.
func (a *App) hookEntries() []hub.Entry {
	var entries []hub.Entry
	for _, k := range all.Kinds() {
		c := k.New(a.judge)
		for i := range a.cfg.Connectors {
			if s := a.cfg.Connectors[i].Source; s.Kind == k.Name {
				entries = append(entries, hub.Entry{Connector: c, Source: s})
			}
		}
	}
	return entries
}

// foldAccount folds an account that another process writes from the log.
func (a *App) foldAccount(ctx context.Context, id domain.AccountID) (*domain.Account, error) {
	l, _, err := a.foldLog(ctx, id)
	return l.Account, err
}

// serveHooks gives a webhook to the hub as soon as there is one.
func (a *App) serveHooks(w http.ResponseWriter, r *http.Request) {
	if h := a.hooks.Load(); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	hub.NotYet(w, r)
}

// listConnectors answers with the configured sources and their counters.
func (a *App) listConnectors(_ context.Context, r api.ConnectorsRequest) (any, error) {
	out := api.Connectors{Connectors: []api.Connector{}}
	h := a.hooks.Load()
	if h == nil {
		return out, nil
	}
	polls := a.polled()
	for _, s := range h.Stats() {
		c := api.Connector{
			Kind: s.Kind, Name: s.Name, Path: hookPath(s.Kind, s.Name), Requests: s.Requests, Facts: s.Facts, Duplicates: s.Duplicates,
			Ignored: s.Ignored, Unmapped: s.Unmapped, Outcomes: s.Outcomes, Unauthenticated: s.Unauthenticated, Malformed: s.Malformed,
			TooLarge: s.TooLarge, Aborted: s.Aborted, Unavailable: s.Unavailable, LastRefusal: s.LastRefusal,
		}
		if !s.Last.IsZero() {
			c.Last = domain.FormatTime(s.Last.UnixNano())
		}
		if samples, _ := h.Samples(s.Name); r.Samples {
			for _, one := range samples {
				c.Samples = append(c.Samples, api.HookSample{At: domain.FormatTime(one.At.UnixNano()), What: one.What, Kept: one.Kept})
			}
		}
		c.Poll = polls[s.Name]
		out.Connectors = append(out.Connectors, c)
	}
	return out, nil
}

// hookPath is where a source's webhooks are taken.
func hookPath(kind, name string) string {
	if kind == name {
		return hub.Prefix + kind
	}
	return hub.Prefix + kind + "/" + name
}
