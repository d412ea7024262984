package subscribe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/natslog"
)

// ErrClosed is what Next returns once the subscription was closed.
var ErrClosed = errors.New("the subscription is closed")

// Event is one judged trigger and its place in the history.
type Event struct {
	domain.Event
	Partition int
	Seq       uint64    // in the partition's stream
	Stored    time.Time // when the stream stored it
	// Err, when set, says why the record cannot be read: then only Account and
	// the place are known.
	Err error

	record eventlog.Record
}

// View is the event in the form in which users see it.
func (e *Event) View() bus.PlacedEvent {
	view := bus.PlacedEvent{Account: string(e.Account), Partition: e.Partition}
	if e.Err != nil {
		view.Event = bus.Event{Seq: e.Seq, Error: e.Err.Error()}
		return view
	}
	view.Event = bus.EventView(&e.Event, e.Seq)
	return view
}

// Record is the event as it is stored.
func (e *Event) Record() eventlog.Record { return e.record }

// decode makes an Event of a record.
func decode(rec *eventlog.Record) Event {
	e := Event{Partition: rec.Partition, Seq: rec.Seq, Stored: time.Unix(0, rec.Time).UTC(), record: *rec}
	if e.Event, e.Err = codec.Decode(rec.Data); e.Err != nil {
		e.Event = domain.Event{Account: domain.AccountID(rec.Account)}
	}
	return e
}

// Start says where a partition begins of which no position is known.
type Start int

// The starts.
const (
	FromBeginning Start = iota // with the first event there is
	FromNow                    // with the first one stored after Open
)

// Config says what a subscription gives. The zero value gives everything.
type Config struct {
	Account    string // only this account's events; "" = all
	Partitions []int  // only these; nil = all. Not together with Account
	// After is, by partition, the sequence of the last event that was handled:
	// its events go on behind that. For partitions that it does not name,
	// First counts, without that Since, and without that Start.
	After map[int]uint64
	First uint64 // begin with this sequence in each partition; 0 = not said
	Start Start
	Since time.Time // begin with what was stored at or after this, and with what is stored from now on
}

// Subscription gives events. Next must not be called by two goroutines at a time.
type Subscription struct {
	reader *natslog.Reader
	events chan Event
	cancel context.CancelCauseFunc
	ctx    context.Context // ends with the subscription, with the reason as its cause
	wg     sync.WaitGroup
}

// Open begins to read on a connection, which stays the caller's and should
// restore itself for ever, as one of bus.Connect does. The error wraps
// eventlog.ErrNotFound when the server has no event streams.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Subscription, error) {
	reader, err := natslog.OpenReader(ctx, nc)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	after, err := positions(ctx, reader, cfg)
	if err != nil {
		reader.Close()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	s := &Subscription{reader: reader, events: make(chan Event, 64)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.wg.Go(func() { watchClosed(s.ctx, nc, s.cancel) })
	for p, seq := range after {
		s.wg.Go(func() { s.read(p, cfg.Account, seq) })
	}
	return s, nil
}

// positions returns the sequence after which each wanted partition begins.
func positions(ctx context.Context, r *natslog.Reader, cfg Config) (map[int]uint64, error) {
	wanted, err := partitions(r.Partitions(), cfg.Account, cfg.Partitions)
	if err != nil {
		return nil, err
	}
	after := map[int]uint64{}
	for _, p := range wanted {
		seq, known := cfg.After[p]
		switch {
		case known:
		case cfg.First != 0:
			seq = cfg.First - 1
		case !cfg.Since.IsZero():
			seq, err = r.Before(ctx, p, cfg.Since)
		case cfg.Start == FromNow:
			var info eventlog.Info
			info, err = r.Info(ctx, p)
			seq = info.Last
		}
		if err != nil {
			return nil, err
		}
		after[p] = seq
	}
	for _, p := range slices.Sorted(maps.Keys(cfg.After)) {
		if p < 0 || p >= r.Partitions() {
			return nil, fmt.Errorf("there is no partition %d: the log has %d", p, r.Partitions())
		}
	}
	return after, nil
}

// partitions returns those that are wanted of n.
func partitions(n int, account string, only []int) ([]int, error) {
	switch {
	case account != "" && only != nil:
		return nil, errors.New("an account lies in one partition: name the account or partitions, not both")
	case account != "":
		return []int{eventlog.Partition(account, n)}, nil
	case only == nil:
		for p := range n {
			only = append(only, p)
		}
	}
	for _, p := range only {
		if p < 0 || p >= n {
			return nil, fmt.Errorf("there is no partition %d: the log has %d", p, n)
		}
	}
	return only, nil
}

// watchClosed ends a subscription whose connection was closed.
func watchClosed(ctx context.Context, nc *nats.Conn, cancel context.CancelCauseFunc) {
	closed := nc.StatusChanged(nats.CLOSED)
	defer nc.RemoveStatusListener(closed)
	if nc.IsClosed() {
		cancel(nats.ErrConnectionClosed)
		return
	}
	select {
	case <-closed:
		cancel(nats.ErrConnectionClosed)
	case <-ctx.Done():
	}
}

// read is the goroutine of one partition.
func (s *Subscription) read(partition int, account string, after uint64) {
	records := s.reader.Follow(s.ctx, partition, after)
	if account != "" {
		records = s.reader.FollowAccount(s.ctx, account, after)
	}
	for rec, err := range records {
		if err != nil {
			s.cancel(err)
			return
		}
		select {
		case s.events <- decode(&rec):
		case <-s.ctx.Done():
			return
		}
	}
}

// Next returns the next event, waiting for it. The error is ctx's, ErrClosed,
// or why the subscription has ended.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	select {
	case e := <-s.events:
		return e, nil
	default:
	}
	select {
	case e := <-s.events:
		return e, nil
	case <-ctx.Done():
		return Event{}, context.Cause(ctx)
	case <-s.ctx.Done():
		return Event{}, fmt.Errorf("subscribe: %w", context.Cause(s.ctx))
	}
}

// Events is Next as a loop. It ends with ctx, and with the error that ended
// the subscription.
func (s *Subscription) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := s.Next(ctx)
			if ctx.Err() != nil {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the subscription and waits for what it has started.
func (s *Subscription) Close() {
	s.cancel(ErrClosed)
	s.reader.Close()
	s.wg.Wait()
}
