// Package natslog is the log on NATS JetStream: one file stream per partition,
// one literal subject per account, and on every append the server's guard
// Nats-Expected-Last-Subject-Sequence on that subject.
//
// Authoritative are the streams. The package keeps nothing that could
// disagree with them: sequences come with each ack, and a reader's position is
// the caller's.
//
// When it fails: an append whose ack does not come is ErrUnknown, never a
// guess. When the barrier fails, which makes acked records durable, nothing of
// the group is acknowledged and the log takes no more appends (ErrFailed);
// reading goes on. A lost connection ends the appends in flight as unknown;
// readers that follow go on by themselves where they stood.
package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/natslog/blockscan"
)

var _ eventlog.Log = (*Log)(nil)

// DefaultPartitions is the partition count of a new log that names none.
const DefaultPartitions = 4

// RecordLayout is the layout of records that a new log's metadata names.
const RecordLayout = "1"

// SealedLayout is the layout of records whose personal parts are encrypted, under
// accounts that are aliases. Who only copies records reads both.
const SealedLayout = "1-sealed"

// DefaultAckWait is how long an append waits without any ack.
const DefaultAckWait = 5 * time.Second

// Barrier makes what a partition's stream has acked durable. Pass is called
// after all acks of a group, before any result is given, with the number of
// records that were just acked (0: for records that were found by reading) and
// the highest sequence among them. Calls for one partition do not overlap.
type Barrier interface {
	Pass(partition int, acked int, last uint64) error
}

// Roomer is a Barrier that can say before an append of so many bytes that there
// is no room left for it; the append is then refused with that error.
type Roomer interface {
	Room(bytes int) error
}

// Config is how a log is opened.
type Config struct {
	// Partitions is the number of partitions. 0: that of the log that is
	// there, DefaultPartitions for a new one.
	Partitions int
	// Replicas is how many servers keep each stream, for a new log. 0: 1.
	Replicas int
	// Barrier is passed before an append is acknowledged. nil: the server's
	// ack is all.
	Barrier Barrier
	// AckWait is how long an append waits without any ack before the rest of
	// it is ErrUnknown. 0: DefaultAckWait.
	AckWait time.Duration
	// Blocks reads records from the server's files, for those who go back along
	// an account's. nil: the server is asked for each.
	Blocks *blockscan.Reader
	// RecordLayout stands in a new log's metadata. "": RecordLayout.
	RecordLayout string
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Partitions < 0 || c.Partitions > eventlog.MaxPartitions:
		return c, fmt.Errorf("partitions must be 1 to %d, not %d", eventlog.MaxPartitions, c.Partitions)
	case c.Replicas < 0 || c.Replicas > 5:
		return c, fmt.Errorf("replicas must be 1 to 5, not %d", c.Replicas)
	case c.AckWait < 0:
		return c, fmt.Errorf("the wait for an ack must not be negative: %v", c.AckWait)
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.AckWait == 0 {
		c.AckWait = DefaultAckWait
	}
	if c.RecordLayout == "" {
		c.RecordLayout = RecordLayout
	}
	return c, nil
}

// Log is a log on JetStream. Use Open.
type Log struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	barrier  Barrier
	replicas int
	writers  []*writer
	watch    *connWatch
	blocks   *blockscan.Reader // nil: the files are not at hand

	mu     sync.Mutex
	failed error // why the log takes no more appends
}

// Open opens the log that the server keeps, or creates it. It fails when what
// is there does not fit cfg, with a sentence that says what to do. The
// connection stays the caller's; Close does not close it. It is best made with
// nats.ReconnectBufSize(-1): what the client keeps while it is not connected
// may be stored long after it was reported unknown. (The guard makes that
// harmless: of two sends of one record the server stores one.)
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	layout, err := openStreams(ctx, js, cfg)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{nc: nc, js: js, barrier: cfg.Barrier, replicas: layout.replicas, watch: watchConn(nc), blocks: cfg.Blocks}
	for p := range layout.partitions {
		w, err := newWriter(ctx, l, p, cfg.AckWait)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open log: %w", err), l.Close())
		}
		l.writers = append(l.writers, w)
		err = w.awaitReady(ctx)
		if err == nil {
			err = w.pass(0, 0) // what an earlier run left behind
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open log: %w", err), l.Close())
		}
	}
	return l, nil
}

// Partitions is the number of partitions.
func (l *Log) Partitions() int { return len(l.writers) }

// Replicas is how many servers keep each stream.
func (l *Log) Replicas() int { return l.replicas }

// Sync passes the barrier.
func (l *Log) Sync(ctx context.Context, partition int) error {
	w, err := l.writer(partition)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sync partition %d: %w", partition, err)
	}
	return w.pass(0, 0)
}

// Failed is nil while the log takes appends, else an ErrFailed with the cause.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// fail makes the log refuse all further appends. The first cause stays.
func (l *Log) fail(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = fmt.Errorf("%w: %w", eventlog.ErrFailed, cause)
	}
	return l.failed
}

// Info reports a partition's state.
func (l *Log) Info(ctx context.Context, partition int) (eventlog.Info, error) {
	if _, err := l.writer(partition); err != nil {
		return eventlog.Info{}, fmt.Errorf("info: %w", err)
	}
	s, err := l.js.Stream(ctx, eventlog.StreamName(partition))
	if err != nil {
		return eventlog.Info{}, fmt.Errorf("info of partition %d: %w", partition, err)
	}
	info := s.CachedInfo()
	return eventlog.Info{
		First: info.State.FirstSeq, Last: info.State.LastSeq, Messages: info.State.Msgs,
		Incarnation: incarnation(info),
	}, nil
}

// incarnation tells a stream from another one of the same name.
func incarnation(info *jetstream.StreamInfo) string { return Incarnation(info.Created) }

// Incarnation is what Info calls a stream that was created at this time.
func Incarnation(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }

// Created is the time at which the stream of an incarnation was created.
func Created(incarnation string) (time.Time, error) {
	ns, err := strconv.ParseInt(incarnation, 36, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("incarnation %q names no time", incarnation)
	}
	return time.Unix(0, ns).UTC(), nil
}

// StoredHeader is the header with which a stream keeps a record that was
// appended with this Expect.
func StoredHeader(expect uint64) []byte {
	return fmt.Appendf(nil, "NATS/1.0\r\n%s: %d\r\n\r\n", guardHeader, expect)
}

func (l *Log) writer(partition int) (*writer, error) {
	if partition < 0 || partition >= len(l.writers) {
		return nil, fmt.Errorf("there is no partition %d of %d", partition, len(l.writers))
	}
	return l.writers[partition], nil
}

// Close ends the log's subscriptions. Appends in flight end as unknown. A
// second Close does nothing.
func (l *Log) Close() error {
	if !l.watch.close() {
		return nil
	}
	var errs []error
	for _, w := range l.writers {
		errs = append(errs, w.close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close log: %w", err)
	}
	return nil
}
