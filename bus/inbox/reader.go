package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/dispatch"
	"github.com/musterhq/muster/domain"
)

// Sender has a trigger judged by whoever owns its account's partition;
// [bus.Client] is one.
type Sender interface {
	Send(ctx context.Context, t domain.Trigger) (bus.Reply, error)
}

var _ Sender = (*bus.Client)(nil)

// Config is what a Reader needs. Store, Judge and History are required.
type Config struct {
	Store   *Store
	Judge   dispatch.Judge
	History History // where it is found what was judged before
	// Owner judges what the Judge refuses with ErrNotOwner; nil: it waits until
	// the Judge takes it.
	Owner Sender
	// Reads says whether this process is to read the inbox; it is asked again
	// and again. One process of all is (nil: this one).
	Reads func() bool
	// InFlight is how many messages may be in this process, in judging or
	// behind one of their account (default 2048).
	InFlight int
	// Admit decides about messages whose subject names who has published them;
	// see [bus.Admit] for nil.
	Admit  bus.Admit
	Logger *slog.Logger // default: discarded
}

func (c Config) withDefaults() (Config, error) {
	if c.Store == nil || c.Judge == nil || c.History == nil {
		return c, errors.New("inbox: Store, Judge and History are required")
	}
	if c.InFlight < 0 {
		return c, fmt.Errorf("inbox: %d messages in flight", c.InFlight)
	}
	if c.InFlight == 0 {
		c.InFlight = 2048
	}
	if c.Reads == nil {
		c.Reads = func() bool { return true }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Reader reads the inbox and has everything in it judged.
type Reader struct {
	cfg        Config
	counts     counts
	complained atomic.Int64 // when a message that waits was last logged, unix ns
}

// NewReader returns a Reader that has not begun; see [Reader.Run].
func NewReader(cfg Config) (*Reader, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Reader{cfg: cfg}, nil
}

// Stats are the figures since the Reader was made.
func (r *Reader) Stats() Stats { return r.counts.stats() }

// The pauses of Run.
const (
	lookAgain  = 100 * time.Millisecond // between two looks at whether this process reads
	afterFault = time.Second            // after a reading that a fault has ended
)

// Run reads until ctx ends, and returns when everything under way has its
// verdict. What goes wrong meanwhile is logged; reading goes on.
func (r *Reader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if !r.cfg.Reads() {
			pause(ctx, lookAgain)
			continue
		}
		err := r.session(ctx)
		if err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("the inbox is read anew", "reason", err)
			pause(ctx, afterFault)
		}
	}
}

// pause waits, but no longer than until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// errNotReader ends a session when another process is to read.
var errNotReader = errors.New("another process reads the inbox now")

// session takes the inbox over and reads it until ctx or something else ends it.
func (r *Reader) session(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end(nil)
	group, err := r.cfg.Store.takeOver(ctx)
	if err != nil {
		return err
	}
	judged, err := r.lookBack(ctx)
	if err != nil {
		return err
	}
	s, err := r.newSession(ctx, group, judged)
	if err != nil {
		return err
	}
	r.counts.reading.Store(true)
	defer r.counts.reading.Store(false)
	wg.Go(func() { r.watch(ctx, end) })
	return s.run(ctx, end)
}

// watch ends a session when its messages may have been lost on the way, or when
// another process is to read.
func (r *Reader) watch(ctx context.Context, end context.CancelCauseFunc) {
	nc := r.cfg.Store.nc
	lost := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer nc.RemoveStatusListener(lost)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-lost:
			end(errors.New("the connection was lost"))
			return
		case <-tick.C:
			if !r.cfg.Reads() {
				end(errNotReader)
				return
			}
		}
	}
}
