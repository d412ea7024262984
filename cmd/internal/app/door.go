package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/auth"
)

// door decides who comes in, over HTTP and over the embedded NATS server.
type door struct {
	tokens  *auth.Tokens
	guard   *auth.Guard
	tls     *tls.Config   // nil = the listeners do without
	changed chan struct{} // gets a value when a token was made or ended
}

func (d *door) make(a *App) {
	changed := make(chan struct{}, 1) // and not d.changed: a server that ends keeps the tokens for a while, and must not keep the App
	d.changed = changed
	d.tokens = auth.New(auth.Config{
		User: a.cfg.User, Password: a.cfg.Password, Closed: a.reachable(), Logger: a.log.With("component", "tokens"),
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default: // it will be looked at anyway
			}
		},
	})
	d.guard = auth.NewGuard(d.tokens, auth.GuardConfig{
		Rate: a.cfg.TokenRate, BusRate: a.cfg.BusRate, Body: int64(a.cfg.BodyMiB) << 20, Foreign: !a.cfg.Embedded(),
	})
}

// reachable says whether a listener can be reached from other machines.
func (a *App) reachable() bool {
	open := func(addr string) bool {
		host, _, err := net.SplitHostPort(addr)
		return err == nil && !bus.Loopback(host)
	}
	return open(a.cfg.HTTP) || a.cfg.Embedded() && open(a.cfg.NATSListen)
}

func (d *door) openTLS(a *App) error {
	if a.cfg.TLSCert == "" {
		return nil
	}
	pair, err := auth.OpenKeypair(a.cfg.TLSCert, a.cfg.TLSKey, a.log.With("component", "tls"))
	if err != nil {
		return err
	}
	d.tls = pair.Config()
	return nil
}

// openTokens reads who may come in, and refuses to go on when that is nobody.
func (a *App) openTokens(ctx context.Context) error {
	if err := a.door.tokens.Load(ctx, a.nc, a.events.Replicas(), a.events.Partitions()); err != nil {
		return err
	}
	a.onEnd("tokens", 2*time.Second, func(context.Context) error { a.door.tokens.Close(); return nil })
	if err := a.door.tokens.Check(); err != nil {
		return fmt.Errorf("open the tokens: %w", err)
	}
	if a.server == nil {
		return nil // who may connect to another server is that server's business
	}
	work, cancel := context.WithCancel(context.Background())
	a.wg.Go(func() { a.sweep(work) })
	a.onEnd("sweeper", time.Second, func(context.Context) error { cancel(); return nil })
	return nil
}

// sweepAfter is how long connections that may not stay are left, so that who has
// made or ended a token is still answered.
const sweepAfter = 250 * time.Millisecond

// sweep closes the connections to the NATS server that may not stay, after each
// change of the tokens.
func (a *App) sweep(ctx context.Context) {
	for {
		select {
		case <-a.door.changed:
		case <-ctx.Done():
			return
		}
		wait(ctx, sweepAfter)
		if err := a.server.Drop(a.door.tokens.Keeps); err != nil {
			a.log.Error("connections of ended tokens may still be open", "error", err)
		}
	}
}
