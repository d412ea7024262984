package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/dispatch"
	"github.com/musterhq/muster/eventlog/natslog"
)

// leaseTTL is how long a partition stays with an instance that has gone silent.
const leaseTTL = 10 * time.Second

// firstWait is how long the start waits for partitions that another instance
// holds before it goes on as a stand-by for them.
const firstWait = 2 * time.Second

// owners takes partitions over, one goroutine for each: acquire the lease, fold
// the history, write, and give it all up when the lease is lost. Leases keep
// instances out of each other's way; that no event is stored twice or lost
// rests on the guard of every append alone.
type owners struct {
	set       *command.Set
	leases    *natslog.Leases
	name      string
	log       *slog.Logger
	damaged   func(partition int) map[string]string
	report    func(command.LoadReport)
	revisions []atomic.Uint64 // of the lease, by partition; stands in every record

	mu       sync.Mutex
	owned    map[int]bool
	commands *dispatch.Endpoint // nil until the bus is open
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

// instanceName tells this instance from others, and is the same after a restart.
func (a *App) instanceName() string {
	if a.cfg.Embedded() {
		return "embedded" // the lock on the data directory makes it the only one
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "/" + a.cfg.HTTP
}

// start begins to own each of n partitions and returns when each was either
// taken over or found to be held by another instance.
func (o *owners) start(ctx context.Context, n int) error {
	work, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	first := make(chan error, n)
	for p := range n {
		o.wg.Go(func() { o.own(work, p, first) })
	}
	for range n {
		select {
		case err := <-first:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// own is the life of one partition in this process.
func (o *owners) own(ctx context.Context, p int, first chan<- error) {
	told := false
	tell := func(err error) {
		if !told {
			told = true
			first <- err
		}
	}
	for ctx.Err() == nil {
		lease, err := o.acquire(ctx, p, tell)
		switch {
		case err != nil && told: // a server that is away for a while, or cannot write
			o.log.Warn("the partition's lease cannot be acquired; trying on", "partition", p, "error", err)
			wait(ctx, leaseTTL/4)
			continue
		case err != nil:
			tell(err)
			return
		}
		if lease == nil {
			return // ctx has ended
		}
		switch err := o.serve(ctx, p, lease, tell); {
		case err != nil && told:
			o.log.Error("the partition cannot be taken over; trying on", "partition", p, "error", err)
			wait(ctx, leaseTTL/4)
		case err != nil:
			tell(err)
			return
		}
	}
}

// wait waits, but no longer than until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// acquire waits for the lease, however long another instance holds it; nil
// without an error means that ctx has ended.
func (o *owners) acquire(ctx context.Context, p int, tell func(error)) (*natslog.Lease, error) {
	for wait := firstWait; ; wait = time.Hour {
		try, cancel := context.WithTimeout(ctx, wait)
		lease, err := o.leases.Acquire(try, p, o.name, leaseTTL)
		cancel()
		switch {
		case err == nil:
			return lease, nil
		case ctx.Err() != nil:
			return nil, nil
		case !errors.Is(err, natslog.ErrHeld):
			return nil, err
		}
		if wait == firstWait {
			o.log.Info("another instance owns the partition; standing by for it", "partition", p)
			tell(nil)
		}
	}
}

// serve owns the partition until the lease is lost or ctx ends.
func (o *owners) serve(ctx context.Context, p int, lease *natslog.Lease, tell func(error)) error {
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := lease.Release(bounded); err != nil {
			o.log.Warn("the partition's lease was not given back; it ends by itself", "partition", p, "error", err)
		}
	}()
	o.revisions[p].Store(lease.Revision())
	rep, err := o.set.Open(ctx, p, o.damaged(p))
	if err != nil {
		if errors.Is(err, command.ErrShuttingDown) || ctx.Err() != nil {
			return nil
		}
		return err
	}
	o.report(rep)
	if err := o.change(p, true); err != nil {
		return err
	}
	tell(nil)
	select {
	case <-ctx.Done():
		return nil // the set is closed by who ends the process
	case <-lease.Lost():
	}
	o.log.Warn("the partition's lease is lost; another instance may have it", "partition", p)
	if err := o.change(p, false); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, leaseTTL, errors.New("the lease was lost"))
	defer cancel()
	if err := o.set.Release(bounded, p); err != nil {
		o.log.Warn("the partition was not given up in order", "partition", p, "error", err)
	}
	return nil
}

// change notes whether this process owns the partition, and takes what others
// send on for it if so.
func (o *owners) change(p int, owned bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owned[p] = owned
	switch {
	case o.commands == nil:
		return nil
	case owned:
		return o.commands.Serve(p)
	default:
		return o.commands.Leave(p)
	}
}

// bind gives the owners the endpoint on which others send triggers on.
func (o *owners) bind(commands *dispatch.Endpoint) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.commands = commands
	for p, owned := range o.owned {
		if owned {
			if err := commands.Serve(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// end stops owning: leases are given back. The set must have been closed.
func (o *owners) end(ctx context.Context) error {
	o.cancel()
	done := make(chan struct{})
	go func() { o.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("give the partitions up: %w", context.Cause(ctx))
	}
}
