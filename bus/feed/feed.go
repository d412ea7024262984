// Package feed republishes every judged event, live, as JSON: on
// muster.feed.<account>, after it is durable.
//
// It owns the bounded queue between the partitions' writers and the
// connection, and nothing else. Authoritative are the event streams: the feed is
// core NATS, at most once, for dashboards, for people and for programs that can
// do with what they hear. Who must not miss an event reads the streams
// (package subscribe).
//
// What happens when something fails: a writer is never held back. When the
// queue is full, the connection is lost for longer than its buffer holds, or the
// server is slow, events are dropped from the feed, counted ([Stats]) and
// reported in the log; their version, which has no gaps within an account,
// tells a subscriber that some are missing.
package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/eventlog"
)

// Config is what a Feed needs. Conn is required and the feed's own from then on.
type Config struct {
	Conn *nats.Conn
	// Interest, when set, says whether anybody subscribes to a subject. What
	// nobody hears is not even encoded.
	Interest func(subject string) bool
	// Queue is the number of events that may wait (default 65 536).
	Queue  int
	Logger *slog.Logger // default: discarded
}

// Stats is what became of the events since the start.
type Stats struct {
	Published uint64
	Unheard   uint64 // nobody subscribed
	Dropped   uint64 // the queue was full, or the connection did not take them
}

// Feed republishes events. Its methods may be called from any goroutine.
type Feed struct {
	cfg     Config
	batches chan []eventlog.Record
	waiting atomic.Int64 // records in batches and in the goroutine's hands
	ended   chan struct{}

	mu     sync.RWMutex // held for reading while something is put into batches
	closed bool

	published, unheard, dropped atomic.Uint64
	told                        uint64 // of dropped, in the log
}

// sayEvery is the least time between two lines about dropped events.
const sayEvery = 10 * time.Second

// New starts a feed. Close ends it.
func New(cfg Config) *Feed {
	if cfg.Queue == 0 {
		cfg.Queue = 1 << 16
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	// A batch holds a record at least, so there are never more batches than records.
	f := &Feed{cfg: cfg, batches: make(chan []eventlog.Record, min(cfg.Queue, 4096)), ended: make(chan struct{})}
	go f.run() // Close waits for it
	return f
}

// Offer takes stored records, in the order of their partition, and returns at
// once; the feed keeps the slice. It has the form of command.Config.OnCommit.
func (f *Feed) Offer(_ int, records []eventlog.Record) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := int64(len(records))
	if n == 0 || f.closed {
		return
	}
	if f.waiting.Add(n) <= int64(f.cfg.Queue) {
		select {
		case f.batches <- records:
			return
		default:
		}
	}
	f.waiting.Add(-n)
	f.dropped.Add(uint64(n))
}

// Stats returns the counts so far.
func (f *Feed) Stats() Stats {
	return Stats{Published: f.published.Load(), Unheard: f.unheard.Load(), Dropped: f.dropped.Load()}
}

// Close publishes what waits, at most until ctx ends, and closes the connection.
func (f *Feed) Close(ctx context.Context) error {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.batches)
	}
	f.mu.Unlock()
	defer f.cfg.Conn.Close()
	select {
	case <-f.ended:
	case <-ctx.Done():
		f.cfg.Conn.Close() // what is left is refused at once
		<-f.ended
		return fmt.Errorf("close the feed: %w", context.Cause(ctx))
	}
	if err := f.cfg.Conn.FlushWithContext(ctx); err != nil && !f.cfg.Conn.IsClosed() {
		return fmt.Errorf("close the feed: %w", err)
	}
	return nil
}

// run is the feed's goroutine.
func (f *Feed) run() {
	defer close(f.ended)
	var said time.Time
	for batch := range f.batches {
		for i := range batch {
			f.publish(&batch[i])
		}
		f.waiting.Add(-int64(len(batch)))
		if f.dropped.Load() > f.told && time.Since(said) > sayEvery {
			said = time.Now()
			f.say()
		}
	}
	f.say()
}

// say tells the operator about events that were dropped since it last did.
func (f *Feed) say() {
	if n := f.dropped.Load(); n > f.told {
		f.cfg.Logger.Warn("the feed has dropped events; the event streams have them", "events", n-f.told, "in_all", n)
		f.told = n
	}
}

// publish sends one record's event, if anybody hears it.
func (f *Feed) publish(rec *eventlog.Record) {
	subject := bus.FeedSubject(rec.Account)
	if f.cfg.Interest != nil && !f.cfg.Interest(subject) {
		f.unheard.Add(1)
		return
	}
	body, err := json.Marshal(bus.PlacedEvent{Account: rec.Account, Partition: rec.Partition, Event: bus.RecordView(rec)})
	if err == nil {
		err = f.cfg.Conn.Publish(subject, body)
	}
	if err != nil {
		f.dropped.Add(1)
		return
	}
	f.published.Add(1)
}
