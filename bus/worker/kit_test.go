package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus/presence"
	"github.com/musterhq/muster/bus/worker"
	"github.com/musterhq/muster/domain"
)

// host is a Muster, and a kit whose connections a test controls.
type host struct {
	t *testing.T
	*whole
	nc  *nats.Conn
	kit *worker.Kit
	cfg worker.KitConfig

	mu     sync.Mutex
	events []string              // what the connector was asked to do
	loses  map[string]chan error // by account: what ends its connection
}

func newHost(t *testing.T, change func(*worker.KitConfig)) *host {
	t.Helper()
	w, err := startWhole(100 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, whole: w, loses: map[string]chan error{}}
	t.Cleanup(func() {
		if h.kit != nil {
			_ = h.kit.Close(context.WithoutCancel(t.Context()))
		}
		h.nc.Close()
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
	if h.nc, err = nats.Connect(w.srv.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	h.cfg = worker.KitConfig{
		Config: worker.Config{Name: "w1"}, Pace: time.Millisecond, Backoff: func(int) time.Duration { return time.Millisecond },
		Connector: worker.Connector{Connect: h.connect, Logout: func(_ context.Context, a *worker.Account) error { h.note("logout " + a.ID()); return nil }},
	}
	if change != nil {
		change(&h.cfg)
	}
	return h
}

// open opens the kit with accounts.
func (h *host) open(accounts ...string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), within)
	defer cancel()
	h.cfg.Accounts = accounts
	var err error
	if h.kit, err = worker.Open(ctx, h.nc, h.cfg); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, what)
}

// connect is up at once, and lives until it is lost or ended.
func (h *host) connect(ctx context.Context, a *worker.Account) error {
	h.note(fmt.Sprintf("connect %s %d", a.ID(), a.Try()))
	lose := make(chan error, 1)
	h.mu.Lock()
	h.loses[a.ID()] = lose
	h.mu.Unlock()
	for _, said := range []string{"qr_received", "connection_ready"} {
		if _, err := a.Say(ctx, said); err != nil && ctx.Err() == nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		h.note("hang up " + a.ID())
		return nil
	case err := <-lose:
		return err
	}
}

func (h *host) lose(account string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loses[account] <- err
}

// count is how often something was asked of the connector.
func (h *host) count(what string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if strings.HasPrefix(e, what) {
			n++
		}
	}
	return n
}

func (h *host) until(what string, ok func() bool) {
	h.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	bound := time.NewTimer(within)
	defer bound.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-bound.C:
			h.mu.Lock()
			defer h.mu.Unlock()
			h.t.Fatalf("not within %v: %s; the connector was asked: %v", within, what, h.events)
		}
	}
}

func (h *host) is(account, state string) {
	h.t.Helper()
	h.until(account+" is "+state, func() bool { return h.state(account) == state })
}

func (h *host) ask(account, trigger string) {
	h.t.Helper()
	if err := h.user(account, trigger); err != nil {
		h.t.Fatal(err)
	}
}

// An operator's words reach the connector.
func TestIntents(t *testing.T) {
	h := newHost(t, nil)
	h.open("a", "b")
	h.ask("a", "start")
	h.is("a", "RUNNING")
	h.ask("a", "stop")
	h.until("a is hung up", func() bool { return h.count("hang up a") == 1 })
	h.is("a", "STOPPED")
	h.ask("a", "start")
	h.is("a", "RUNNING")
	h.ask("a", "logout")
	h.until("a is logged out", func() bool { return h.count("logout a") == 1 })
	h.is("a", "LOGGED_OUT")
	if h.count("connect b") != 0 || h.count("connect a") != 2 || h.count("hang up a") != 2 {
		t.Errorf("%v", h.events)
	}
	h.ask("a", "start")
	h.is("a", "RUNNING")
	if err := h.kit.Release(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if h.count("hang up a") != 3 {
		t.Errorf("%v", h.events)
	}
}

// A connection that is lost is told and made anew, each with a newer epoch and
// seq from 1; a logout that the connector tells is not.
func TestALostConnectionComesBack(t *testing.T) {
	h := newHost(t, nil)
	h.open("a")
	h.ask("a", "start")
	h.is("a", "RUNNING")
	first, _, _ := h.set.Look("a")
	if first.Account.Source != "w1" || first.Account.Epoch == 0 || first.Account.Seq != 2 {
		t.Errorf("source %q, epoch %d, seq %d", first.Account.Source, first.Account.Epoch, first.Account.Seq)
	}
	h.lose("a", errors.New("reset by peer"))
	h.until("it is connected again", func() bool { return h.count("connect a 2") == 1 })
	h.is("a", "RUNNING")
	h.until("its epoch is newer", func() bool {
		l, _, _ := h.set.Look("a")
		return l.Account.Epoch > first.Account.Epoch && l.Account.Seq == 2
	})
	// start, qr_received, connection_ready, connection_lost, and again: the lost
	// one is told by the kit.
	if l, _, _ := h.set.Look("a"); l.Account.Version != 6 {
		t.Errorf("version %d, want 6", l.Account.Version)
	}
}

// What was wanted while the worker was away is asked for at its start.
func TestAStartFindsWhatIsWanted(t *testing.T) {
	h := newHost(t, nil)
	h.ask("run", "start")
	h.ask("stopped", "start")
	h.ask("stopped", "stop")
	h.open("run", "stopped", "unknown")
	h.is("run", "RUNNING")
	if h.count("connect stopped") != 0 || h.count("connect unknown") != 0 {
		t.Errorf("%v", h.events)
	}
}

// An intent that was not heard is found by asking.
func TestAMissedIntentIsFound(t *testing.T) {
	h := newHost(t, func(c *worker.KitConfig) { c.Resync = 20 * time.Millisecond })
	h.open("a")
	h.ends[0](t.Context()) // the feed is gone
	h.ask("a", "start")
	h.is("a", "RUNNING")
	h.ask("a", "stop")
	h.until("a is hung up", func() bool { return h.count("hang up a") == 1 })
}

// Muster's own retry ends a pause.
func TestARetryOfMusterEndsAPause(t *testing.T) {
	h := newHost(t, func(c *worker.KitConfig) { c.Backoff = func(int) time.Duration { return time.Hour } })
	a := h.set.Do(t.Context(), domain.Trigger{Account: "a", Name: "start", By: domain.ByUser, Expect: domain.NoExpect, Mode: domain.ModeSupervise})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	h.open("a")
	h.is("a", "RUNNING")
	h.lose("a", errors.New("reset"))
	h.until("it is connected again", func() bool { return h.count("connect a 2") == 1 })
}

// A worker that was taken for dead tells what its accounts really are: by making
// the connections anew, or by Report.
func TestALapsedWorkerReports(t *testing.T) {
	for _, reports := range []bool{false, true} {
		t.Run(fmt.Sprintf("report=%v", reports), func(t *testing.T) {
			var h *host
			h = newHost(t, func(c *worker.KitConfig) {
				if reports {
					c.Report = func(ctx context.Context, a *worker.Account) error {
						h.note("report " + a.ID())
						_, err := a.Say(ctx, "connection_ready")
						return err
					}
				}
			})
			h.open("a")
			h.ask("a", "start")
			h.is("a", "RUNNING")
			h.p.Workers()
			if err := h.nc.Publish("muster.worker.goodbye.w1", []byte(`{"worker":"w1","boot":"`+h.kit.Worker().Boot()+`"}`)); err != nil {
				t.Fatal(err) // as if it were taken for dead: it beats on, and is told
			}
			h.until("it is taken for dead", func() bool { return h.p.Workers()[0].State != presence.Live })
			if reports {
				h.until("it reports", func() bool { return h.count("report a") > 0 })
			} else {
				h.until("it connects anew", func() bool { return h.count("connect a") > 1 })
			}
			h.is("a", "RUNNING")
		})
	}
}

// The end goes through its phases, and none of them hangs.
func TestTheEndIsBounded(t *testing.T) {
	hang := make(chan struct{})
	h := newHost(t, func(c *worker.KitConfig) {
		c.Phase, c.LogoutAtEnd = 300*time.Millisecond, true
		c.Logout = func(ctx context.Context, a *worker.Account) error {
			if a.ID() == "stubborn" {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}
		connect := c.Connect
		c.Connect = func(ctx context.Context, a *worker.Account) error {
			err := connect(ctx, a)
			if a.ID() == "hangs" {
				<-hang
			}
			return err
		}
	})
	h.open("good", "stubborn", "hangs")
	for _, id := range []string{"good", "stubborn", "hangs"} {
		h.ask(id, "start")
		h.is(id, "RUNNING")
	}
	err := h.kit.Close(t.Context())
	close(hang)
	if err == nil || !strings.Contains(err.Error(), "log out: ") || !strings.Contains(err.Error(), "close: not done within 300ms: the connections of hangs") {
		t.Errorf("the end says %v", err)
	}
	for _, id := range []string{"good", "stubborn", "hangs"} {
		if h.count("hang up "+id) != 1 {
			t.Errorf("%s was hung up %d times", id, h.count("hang up "+id))
		}
	}
	h.until("it said goodbye", func() bool {
		return slices.ContainsFunc(h.p.Workers(), func(w presence.Worker) bool { return w.Name == "w1" && w.State == presence.Left })
	})
	if err := h.kit.Manage("late"); err == nil {
		t.Error("an ended kit takes an account")
	}
}

func TestAConnectorNeedsConnect(t *testing.T) {
	h := newHost(t, func(c *worker.KitConfig) { c.Connect = nil })
	if k, err := worker.Open(t.Context(), h.nc, h.cfg); err == nil {
		h.kit = k
		t.Error("a kit without Connect is opened")
	}
}
