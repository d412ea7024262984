package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

// Account is one account that a Kit hosts.
type Account struct {
	kit    *Kit
	id     string
	sub    *nats.Subscription // of what is decided about it
	ctx    context.Context    // ends when it is to be hosted no more
	cancel context.CancelFunc
	wake   chan struct{} // gets a value when something is wanted
	gone   chan struct{} // closed when its goroutine has ended

	saying sync.Mutex // held while something is said, so that it arrives in order

	mu      sync.Mutex // guards what follows
	want    bool       // it shall be connected
	logsOut bool       // it shall be logged out
	epoch   int64
	seq     int64
	try     int
	last    string             // what was said last on this connection
	end     context.CancelFunc // of the connection, while there is one
	over    chan struct{}      // closed when that connection has ended
}

// ID is the account's id.
func (a *Account) ID() string { return a.id }

// Try counts the connections begun since the last one that held, from 1.
func (a *Account) Try() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.try
}

// Option adds to what is said.
type Option func(*domain.Trigger)

// Key names the message or contact that a trigger is about.
func Key(key string) Option { return func(t *domain.Trigger) { t.Key = key } }

// Data is a trigger's data.
func Data(d domain.Data) Option { return func(t *domain.Trigger) { t.Data = d } }

// Reason is why something happened, as the vendor says it.
func Reason(code, text string) Option {
	return func(t *domain.Trigger) { t.Reason = domain.Reason{Code: code, Text: text} }
}

// At is when it happened; without it, it happened now.
func At(when time.Time) Option {
	return func(t *domain.Trigger) { t.At, t.HasAt = when.UnixNano(), true }
}

// Say tells Muster what happened to the account and returns the verdict. It
// stamps source, epoch, seq, id and time, keeps the order of an account's words,
// and tries again for as long as ctx lasts when Muster is away. The error is that
// of bus.Client.Send.
func (a *Account) Say(ctx context.Context, trigger string, more ...Option) (bus.Reply, error) {
	t := domain.Trigger{
		Account: domain.AccountID(a.id), Name: trigger, Source: a.kit.cfg.Name, By: domain.ByRemote,
		At: time.Now().UnixNano(), HasAt: true, Expect: domain.NoExpect,
	}
	for _, o := range more {
		o(&t)
	}
	a.saying.Lock()
	defer a.saying.Unlock()
	a.mu.Lock()
	a.seq++
	t.Epoch, t.Seq, a.last = a.epoch, a.seq, trigger
	a.mu.Unlock()
	t.ID = a.kit.worker.Boot() + "-" + strconv.FormatInt(a.kit.said.Add(1), 10)
	return a.kit.client.Send(ctx, t)
}

// run is the account's goroutine: it connects when that is wanted.
func (a *Account) run() {
	defer close(a.gone)
	for a.ctx.Err() == nil {
		switch want, out := a.wanted(); {
		case out:
			if err := a.logout(a.ctx); err != nil {
				a.kit.cfg.Logger.Warn("logout failed", "account", a.id, "error", err)
			}
		case want && a.kit.turn(a.ctx):
			a.connectOnce()
		default:
			pause(a.ctx, time.Hour, a.wake)
		}
	}
}

// wanted says what shall happen now. A logout is to be done once.
func (a *Account) wanted() (connect, logout bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	logout, a.logsOut = a.logsOut, false
	return a.want, logout
}

// held is how long a connection lives that counts as one that held.
const held = 10 * time.Minute

// connectOnce runs one connection, and waits before the next try if it was lost.
func (a *Account) connectOnce() {
	select {
	case <-a.wake: // what it told is seen by now
	default:
	}
	ctx, end := context.WithCancel(a.kit.ctx)
	over := make(chan struct{})
	a.mu.Lock()
	a.epoch, a.seq, a.last = max(a.epoch+1, time.Now().UnixMilli()), 0, ""
	a.end, a.over = end, over
	a.try++
	n := a.try
	a.mu.Unlock()
	if !a.stillWanted() { // it was taken back in this moment
		end()
	}
	begin := time.Now()
	err := a.kit.cfg.Connect(ctx, a)
	ended := ctx.Err() != nil
	end()
	a.mu.Lock()
	a.end = nil
	close(over)
	if ended || time.Since(begin) > held {
		a.try = 0
	}
	last := a.last
	if last == "logout" { // only an operator's start brings it back
		a.want = false
	}
	want := a.want
	a.mu.Unlock()
	if ended {
		return
	}
	if err != nil && !down(last) {
		if _, err := a.Say(a.ctx, "connection_lost", Reason("", err.Error())); err != nil {
			a.kit.cfg.Logger.Warn("a lost connection could not be told", "account", a.id, "error", err)
		}
	}
	if want {
		pause(a.ctx, a.kit.cfg.Backoff(n), a.wake)
	}
}

func (a *Account) stillWanted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.want && a.ctx.Err() == nil
}

// down says whether a trigger has told already that the connection is gone.
func down(trigger string) bool {
	switch trigger {
	case "connection_lost", "connection_replaced", "connect_refused", "banned", "logout", "stop", "reconnect_failed", "qr_expired",
		"pair_failed", "login_failed", "offline":
		return true
	}
	return false
}

// backoff is min(60, 2ⁿ) s with a jitter of a fifth.
func backoff(n int) time.Duration {
	base := time.Minute
	if n < 6 {
		base = time.Second << n
	}
	return time.Duration(float64(base) * (0.8 + 0.4*rand.Float64()))
}

// connected says whether a connection is there, or being made.
func (a *Account) connected() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.end != nil
}

// hangUp ends the connection, if there is one, and returns what closes when it
// has ended.
func (a *Account) hangUp() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	a.end()
	return a.over
}

// logout ends the connection and logs the account out.
func (a *Account) logout(ctx context.Context) error {
	select {
	case <-a.hangUp():
	case <-ctx.Done():
		return fmt.Errorf("log %q out: its connection has not ended: %w", a.id, context.Cause(ctx))
	}
	if a.kit.cfg.Logout == nil {
		return nil
	}
	if err := a.kit.cfg.Logout(ctx, a); err != nil {
		return fmt.Errorf("log %q out: %w", a.id, err)
	}
	return nil
}

// report tells what the account is, if it is connected.
func (a *Account) report(ctx context.Context) {
	switch {
	case !a.connected():
	case a.kit.cfg.Report == nil:
		a.hangUp() // run makes it anew
	default:
		if err := a.kit.cfg.Report(ctx, a); err != nil {
			a.kit.cfg.Logger.Warn("an account could not be reported", "account", a.id, "error", err)
		}
	}
}

// hear follows what was decided about the account.
func (a *Account) hear(m *nats.Msg) {
	var e bus.PlacedEvent
	if json.Unmarshal(m.Data, &e) != nil || e.Account != a.id {
		return
	}
	judged := e.Outcome == domain.Applied.String() || e.Outcome == domain.Noop.String()
	if !judged {
		return
	}
	user, muster := e.By == string(domain.ByUser), e.Source == domain.SourceMuster
	switch {
	case (user || muster) && (e.Trigger == "start" || e.Trigger == "login_started" || e.Trigger == "retry"):
		a.intend(true, false)
	case user && e.Trigger == "stop":
		a.intend(false, false)
	case user && e.Trigger == "logout":
		a.intend(false, true)
	}
}

// intend takes over what is wanted.
func (a *Account) intend(connect, logout bool) {
	a.mu.Lock()
	a.want = connect
	a.logsOut = a.logsOut || logout
	if !connect && a.end != nil {
		a.end()
	}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// ask asks Muster what is wanted, in case that it was not heard.
func (a *Account) ask(ctx context.Context) {
	var is struct{ State, Class, Desired string }
	err := a.kit.client.Query(ctx, "accounts.get", map[string]string{"account": a.id}, &is)
	switch {
	case errors.Is(err, bus.ErrNotFound), ctx.Err() != nil:
		return // nobody has started it yet
	case err != nil:
		a.kit.cfg.Logger.Warn("what is wanted of an account could not be asked", "account", a.id, "error", err)
		return
	}
	waits := is.Class == "idle" || is.Class == "stopped" || is.State == "LOGGED_OUT"
	switch {
	case is.Desired == domain.DesiredStop && a.stillWanted():
		a.intend(false, false)
	case is.Desired == domain.DesiredRun && !waits && !a.stillWanted():
		a.intend(true, false)
	}
}
