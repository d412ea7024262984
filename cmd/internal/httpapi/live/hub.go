package live

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/musterhq/muster/eventlog"
)

// Why a reader gets no more events.
var (
	// ErrClosed: the hub was closed; go on from the position elsewhere.
	ErrClosed = errors.New("the server is shutting down")
	// ErrTooSlow: more events came than are kept for a reader that lags behind.
	ErrTooSlow = errors.New("read too slowly: more events came than are kept for a reader that lags behind")
	// ErrFailed: the log can not be followed any more.
	ErrFailed = errors.New("the history cannot be followed")
	// ErrPosition is wrapped by the error of a position that this history does not have.
	ErrPosition = errors.New("this history has no such position")
	// ErrTooMany: there are as many readers as there may be.
	ErrTooMany = errors.New("there are too many readers; come again later")
)

// Log is what a Hub needs of an eventlog.Log.
type Log interface {
	Follower
	Partitions() int
	Info(ctx context.Context, partition int) (eventlog.Info, error)
	Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error]
}

// Follower gives a partition's records as they come; an eventlog.Log is one.
type Follower interface {
	Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error]
}

// Config is what a Hub is made of. Log is required.
type Config struct {
	Log Log
	// Follow is where new events come from; nil: Log.
	Follow Follower
	// Keep is the number of events kept for each partition (default 8192): how
	// far a reader may lag behind.
	Keep int
	// Readers is the most there can be at once (default 2000).
	Readers int
	Logger  *slog.Logger // default: discarded
}

// Hub hands events to readers. Make one with New; Close ends it.
type Hub struct {
	cfg   Config
	rings []*ring
	reads chan struct{} // a token for each read of the log that may go on at once

	start  sync.Once
	life   context.Context // of the followers
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	readers int
	changed chan struct{} // closed and replaced when something was put, if anybody waits
	waiting bool
	err     error // why it has ended
}

// The bounds of what is done at once.
const (
	batchMost = 256  // events of a partition that Next takes
	chunkMost = 1024 // records that are read from the log in one go
	readsMost = 4    // reads of the log side by side
)

// New returns a Hub. It asks nothing of the log before the first reader comes.
func New(cfg Config) *Hub {
	if cfg.Follow == nil {
		cfg.Follow = cfg.Log
	}
	if cfg.Keep <= 0 {
		cfg.Keep = 8192
	}
	if cfg.Readers <= 0 {
		cfg.Readers = 2000
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Hub{cfg: cfg, reads: make(chan struct{}, readsMost), changed: make(chan struct{})}
	h.life, h.cancel = context.WithCancel(context.Background())
	return h
}

// Close ends all readers with ErrClosed and waits for the followers.
func (h *Hub) Close() {
	h.end(ErrClosed)
	h.start.Do(func() {}) // nobody starts them any more
	h.wg.Wait()
}

// end tells all readers that there is no more.
func (h *Hub) end(why error) {
	h.mu.Lock()
	if h.err == nil {
		h.err = why
		close(h.changed)
		h.changed = make(chan struct{})
	}
	h.mu.Unlock()
	h.cancel()
}

// Readers is the number of readers there are.
func (h *Hub) Readers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readers
}

// follow starts the followers, each some events back, so that readers who come
// back after a restart find what they need in memory.
func (h *Hub) follow() {
	for p := range h.cfg.Log.Partitions() {
		r := &ring{keep: h.cfg.Keep}
		h.rings = append(h.rings, r)
		h.wg.Go(func() {
			if err := h.fill(p, r); err != nil && h.life.Err() == nil {
				h.cfg.Logger.Error("the live stream has ended", "partition", p, "error", err)
				h.end(ErrFailed)
			}
		})
	}
}

// fill puts a partition's events into its ring.
func (h *Hub) fill(p int, r *ring) error {
	info, err := h.cfg.Log.Info(h.life, p)
	if err != nil {
		return fmt.Errorf("where partition %d ends: %w", p, err)
	}
	after := uint64(0)
	if back := uint64(h.cfg.Keep / 2); info.Last > back {
		after = info.Last - back
	}
	r.begin(after)
	for rec, err := range h.cfg.Follow.Follow(h.life, p, after) {
		if err != nil {
			return fmt.Errorf("follow partition %d: %w", p, err)
		}
		r.put(newEvent(&rec))
		h.wake()
	}
	return nil
}

// wake lets everybody look who waits.
func (h *Hub) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting {
		h.waiting = false
		close(h.changed)
		h.changed = make(chan struct{})
	}
}

// signal is closed by the next wake or end. It must be asked for before the rings
// are looked at.
func (h *Hub) signal() (<-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	h.waiting = true
	return h.changed, nil
}

// Read adds a reader that gets every event behind a position. A partition that
// the position leaves out begins where it ends now. The error wraps ErrPosition,
// or is ErrTooMany, ErrClosed, ErrFailed, or the log's.
func (h *Hub) Read(ctx context.Context, from Position) (*Reader, error) {
	n := h.cfg.Log.Partitions()
	at := make([]uint64, n)
	for p := range from {
		if p >= n {
			return nil, fmt.Errorf("%w: there is no partition %d, only 0 to %d", ErrPosition, p, n-1)
		}
	}
	for p := range at {
		info, err := h.cfg.Log.Info(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("where partition %d ends: %w", p, err)
		}
		seq, named := from[p]
		switch {
		case !named:
			seq = info.Last
		case seq > info.Last:
			return nil, fmt.Errorf("%w: partition %d ends at %d, before %d", ErrPosition, p, info.Last, seq)
		}
		at[p] = seq
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.err != nil:
		return nil, h.err
	case h.readers >= h.cfg.Readers:
		return nil, ErrTooMany
	}
	h.readers++
	h.start.Do(h.follow)
	return &Reader{hub: h, at: at, live: make([]bool, n)}, nil
}

// Reader is one reader's place. It is for one goroutine; Close it.
type Reader struct {
	hub    *Hub
	at     []uint64 // sequence of the last event of each partition that was handed out
	live   []bool   // the partition was read up to its ring
	turn   int      // the partition that is looked at first
	buf    []*Event
	closed bool
}

// Close gives the reader's place up.
func (r *Reader) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.hub.mu.Lock()
	r.hub.readers--
	r.hub.mu.Unlock()
}

// Position is behind the last event that Next has returned.
func (r *Reader) Position() Position {
	p := make(Position, len(r.at))
	for i, seq := range r.at {
		p[i] = seq
	}
	return p
}

// Next returns the events that come next, those of one partition; none when
// nothing has come for a while (idle). They are in the order of their sequence.
// The slice is good until the next call. The error is ErrTooSlow, ErrClosed,
// ErrFailed, ctx's, or the log's.
func (r *Reader) Next(ctx context.Context, idle time.Duration) ([]*Event, error) {
	var timeout <-chan time.Time
	for {
		signal, err := r.hub.signal()
		if err != nil {
			return nil, err
		}
		for range r.at {
			p := r.turn
			r.turn = (r.turn + 1) % len(r.at)
			events, err := r.take(ctx, p)
			if err != nil || len(events) > 0 {
				return events, err
			}
		}
		if timeout == nil {
			timer := time.NewTimer(idle)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-signal:
		case <-timeout:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take takes what comes next of one partition, from the ring or, until the
// reader has come so far, from the log.
func (r *Reader) take(ctx context.Context, p int) ([]*Event, error) {
	events, ok := r.hub.rings[p].take(r.at[p], batchMost, r.buf[:0])
	switch {
	case ok:
		r.live[p] = true
	case r.live[p]:
		return nil, ErrTooSlow
	default:
		var err error
		if events, err = r.chunk(ctx, p); err != nil {
			return nil, err
		}
	}
	r.buf = events
	if n := len(events); n > 0 {
		r.at[p] = events[n-1].Seq
	}
	return events, nil
}

// chunk reads some records from the log. So many at once that the log's work for
// a read counts for little, and so few that no read waits for a slow reader.
func (r *Reader) chunk(ctx context.Context, p int) ([]*Event, error) {
	select {
	case r.hub.reads <- struct{}{}:
		defer func() { <-r.hub.reads }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-r.hub.life.Done():
		return nil, ErrClosed
	}
	events := r.buf[:0]
	for rec, err := range r.hub.cfg.Log.Read(ctx, p, r.at[p]) {
		if err != nil {
			return nil, fmt.Errorf("read partition %d: %w", p, err)
		}
		if events = append(events, newEvent(&rec)); len(events) == chunkMost {
			break
		}
	}
	return events, nil
}
