package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
)

// Connector is what the author of a connector writes. Only Connect is required.
type Connector struct {
	// Connect makes the account's connection, tells with [Account.Say] what
	// happens to it, and returns when it is over, with the reason if it was lost.
	// Each call is a new connection with a new epoch. When ctx ends it must hang
	// up and return: the account is to be stopped, or the worker ends.
	Connect func(ctx context.Context, a *Account) error
	// Logout logs the account out at its vendor. It is called when an operator
	// says logout, and at the end if Kit says so; no Connect runs then.
	Logout func(ctx context.Context, a *Account) error
	// Report tells what the account really is, after Muster had taken the worker
	// for dead. Without it the connection is made anew.
	Report func(ctx context.Context, a *Account) error
}

// KitConfig is what a Kit needs. Config.Name and Connector.Connect are required.
type KitConfig struct {
	Config
	Connector
	Accounts []string // that it hosts from the start; see Kit.Manage
	// Pace is the least time between two connections that are begun, so that a
	// start with many accounts is no stampede (default 20 ms).
	Pace time.Duration
	// Resync is how often each account's desired state is asked for, in case
	// that an intent was missed (default 1 min).
	Resync time.Duration
	// Backoff is the pause before the n-th try in a row (from 1). Default: that
	// of Muster, min(60, 2ⁿ) s with a jitter of a fifth.
	Backoff func(n int) time.Duration
	// LogoutAtEnd logs all accounts out at the end.
	LogoutAtEnd bool
	// Phase bounds each phase of the end (default 10 s): the words under way,
	// the logouts, the connections, the goodbye.
	Phase time.Duration
}

func (c KitConfig) withDefaults() (KitConfig, error) {
	var err error
	if c.Config, err = c.Config.withDefaults(); err != nil {
		return c, err
	}
	if c.Connect == nil {
		return c, errors.New("a connector needs Connect")
	}
	if c.Pace == 0 {
		c.Pace = 20 * time.Millisecond
	}
	if c.Resync == 0 {
		c.Resync = time.Minute
	}
	if c.Backoff == nil {
		c.Backoff = backoff
	}
	if c.Phase == 0 {
		c.Phase = 10 * time.Second
	}
	return c, nil
}

// Kit hosts the connections of accounts. It beats, stamps what is said with epoch
// and seq, and follows what is wanted of its accounts: an operator's start, stop
// and logout, and Muster's own retries. Its methods may be called from any
// goroutine.
type Kit struct {
	cfg    KitConfig
	nc     *nats.Conn
	client *bus.Client
	worker *Worker

	ctx    context.Context // ends when no connection may live any more
	cancel context.CancelFunc
	taking context.Context // ends when nothing new is begun
	refuse context.CancelFunc
	wg     sync.WaitGroup // all goroutines of the kit
	said   atomic.Int64   // numbers the ids

	mu       sync.Mutex // guards what follows
	accounts map[string]*Account
	nextGo   time.Time // when the next connection may be begun
	closed   bool
}

// Open says hello for the worker and begins to host the accounts of cfg. The
// connection stays the caller's and must outlive the kit. Close ends it.
func Open(ctx context.Context, nc *nats.Conn, cfg KitConfig) (*Kit, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open worker: %w", err)
	}
	k := &Kit{cfg: cfg, nc: nc, client: bus.NewClient(nc, bus.ClientConfig{Tries: 1 << 30, BySource: true}), accounts: map[string]*Account{}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.taking, k.refuse = context.WithCancel(k.ctx)
	own := cfg.Config
	own.Lapsed = func(ctx context.Context) {
		k.reportAll(ctx)
		cfg.Lapsed(ctx)
	}
	if k.worker, err = Start(ctx, nc, own); err != nil {
		k.cancel()
		return nil, err
	}
	for _, id := range cfg.Accounts {
		if err := k.Manage(id); err != nil {
			return nil, errors.Join(err, k.Close(ctx))
		}
	}
	k.wg.Go(k.resync)
	return k, nil
}

// Serve opens a kit, hosts until ctx ends, and closes it, each phase bounded.
func Serve(ctx context.Context, nc *nats.Conn, cfg KitConfig) error {
	k, err := Open(ctx, nc, cfg)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return k.Close(context.WithoutCancel(ctx))
}

// Worker is the kit's worker.
func (k *Kit) Worker() *Worker { return k.worker }

// Manage makes the kit host an account, too. If Muster wants it to run, it is
// connected; else that is done when an operator says start.
func (k *Kit) Manage(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return fmt.Errorf("manage %q: the worker has ended", id)
	}
	if k.accounts[id] != nil {
		return nil
	}
	a := &Account{kit: k, id: id, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancel(k.taking)
	var err error
	if a.sub, err = k.nc.Subscribe(bus.FeedSubject(id), a.hear); err != nil {
		a.cancel()
		return fmt.Errorf("manage %q: %w", id, err)
	}
	k.accounts[id] = a
	k.wg.Go(a.run)
	k.wg.Go(func() { a.ask(a.ctx) })
	return nil
}

// Release ends an account's connection and hosts it no more. It returns when
// Connect has, or ctx ends.
func (k *Kit) Release(ctx context.Context, id string) error {
	k.mu.Lock()
	a := k.accounts[id]
	delete(k.accounts, id)
	k.mu.Unlock()
	if a == nil {
		return nil
	}
	_ = a.sub.Unsubscribe() // fails only on a closed connection
	a.cancel()
	a.hangUp()
	select {
	case <-a.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("release %q: its connection has not ended: %w", id, context.Cause(ctx))
	}
}

// all are the accounts of now.
func (k *Kit) all() []*Account {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]*Account, 0, len(k.accounts))
	for _, a := range k.accounts {
		list = append(list, a)
	}
	return list
}

// resync asks again and again what is wanted, and at once after a lost
// connection: what was heard live may have been missed.
func (k *Kit) resync() {
	up := k.nc.StatusChanged(nats.CONNECTED)
	defer k.nc.RemoveStatusListener(up)
	tick := time.NewTicker(k.cfg.Resync)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-up:
		case <-k.taking.Done():
			return
		}
		for _, a := range k.all() {
			a.ask(k.taking)
		}
	}
}

// reportAll tells Muster what the accounts are, after it took the worker for dead.
func (k *Kit) reportAll(ctx context.Context) {
	for _, a := range k.all() {
		if k.taking.Err() != nil || ctx.Err() != nil {
			return
		}
		a.report(ctx)
	}
}

// turn waits for the account's turn to begin a connection.
func (k *Kit) turn(ctx context.Context) bool {
	k.mu.Lock()
	now := time.Now()
	at := k.nextGo
	if at.Before(now) {
		at = now
	}
	k.nextGo = at.Add(k.cfg.Pace)
	k.mu.Unlock()
	return pause(ctx, at.Sub(now), nil)
}

// pause waits; false when ctx ends. A value on wake ends the wait early.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// Close ends the worker in phases, each bounded by KitConfig.Phase and by ctx:
// nothing new is begun; what is being said is said; accounts are logged out if
// that was asked for; connections are closed; goodbye. The error says what did
// not end in time; it has been left behind then.
func (k *Kit) Close(ctx context.Context) error {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil
	}
	k.closed = true
	k.mu.Unlock()
	k.refuse()
	accounts := k.all()
	for _, a := range accounts {
		_ = a.sub.Unsubscribe() // fails only on a closed connection
	}
	var errs []error
	phase := func(name string, do func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeoutCause(ctx, k.cfg.Phase, fmt.Errorf("not done within %v", k.cfg.Phase))
		defer cancel()
		if err := do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	phase("drain", func(ctx context.Context) error { return k.drain(ctx, accounts) })
	if k.cfg.LogoutAtEnd && k.cfg.Logout != nil {
		phase("log out", func(ctx context.Context) error { return k.logoutAll(ctx, accounts) })
	}
	k.cancel()
	phase("close", func(ctx context.Context) error { return k.closeAll(ctx, accounts) })
	phase("release", k.worker.Stop)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close worker %s: %w", k.cfg.Name, err)
	}
	return nil
}

// wait calls a function that waits, at most until ctx ends; then the function is
// left behind.
func wait(ctx context.Context, done func()) error {
	over := make(chan struct{})
	go func() { done(); close(over) }()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drain waits for what is being said.
func (k *Kit) drain(ctx context.Context, accounts []*Account) error {
	return wait(ctx, func() {
		for _, a := range accounts {
			a.saying.Lock()
			a.saying.Unlock() //nolint:staticcheck // it was only waited for
		}
	})
}

// logoutAll logs accounts out, all at once.
func (k *Kit) logoutAll(ctx context.Context, accounts []*Account) error {
	errs := make([]error, len(accounts))
	err := wait(ctx, func() {
		var wg sync.WaitGroup
		for i, a := range accounts {
			if a.connected() {
				wg.Go(func() { errs[i] = a.logout(ctx) })
			}
		}
		wg.Wait()
	})
	if err != nil {
		return err // some are still at it: their errors are not looked at
	}
	return errors.Join(errs...)
}

// closeAll waits for the connections to end.
func (k *Kit) closeAll(ctx context.Context, accounts []*Account) error {
	if err := wait(ctx, k.wg.Wait); err == nil {
		return nil
	}
	var left []string
	for _, a := range accounts {
		select {
		case <-a.gone:
		default:
			left = append(left, a.id)
		}
	}
	return fmt.Errorf("%w: the connections of %s", context.Cause(ctx), strings.Join(left, ", "))
}
