package natslog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
)

// Reader reads a log that another process writes. It creates and appends
// nothing.
type Reader struct{ log *Log }

// OpenReader opens the log that the server keeps for reading only. The error
// wraps eventlog.ErrNotFound when there is none. The connection stays the caller's.
func OpenReader(ctx context.Context, nc *nats.Conn) (*Reader, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	found, err := findStreams(ctx, js)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	zero := found[eventlog.StreamName(0)]
	if zero == nil {
		return nil, fmt.Errorf("open log: %w: the server has no stream %s; has a Muster ever run on it?", eventlog.ErrNotFound, eventlog.StreamName(0))
	}
	records := RecordLayout
	if zero.Config.Metadata[metaRecord] == SealedLayout {
		records = SealedLayout // they are given as they are stored
	}
	layout, err := checkStreams(zero, found, Config{RecordLayout: records})
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{nc: nc, js: js, replicas: layout.replicas}
	for p := range layout.partitions {
		stream, err := js.Stream(ctx, eventlog.StreamName(p))
		if err != nil {
			return nil, fmt.Errorf("open log: stream %s: %w", eventlog.StreamName(p), err)
		}
		l.writers = append(l.writers, &writer{log: l, partition: p, stream: stream, incarnation: incarnation(stream.CachedInfo())})
	}
	l.watch = watchConn(nc)
	return &Reader{l}, nil
}

// Partitions is the number of partitions.
func (r *Reader) Partitions() int { return r.log.Partitions() }

// Info reports a partition's state.
func (r *Reader) Info(ctx context.Context, partition int) (eventlog.Info, error) {
	return r.log.Info(ctx, partition)
}

// Read yields the records after a sequence, up to the last one that exists now.
func (r *Reader) Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return r.log.Read(ctx, partition, after)
}

// Follow yields the records after a sequence, and new ones, until ctx ends. It
// survives a lost connection and a server that is started again by itself.
func (r *Reader) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return r.log.Follow(ctx, partition, after)
}

// FollowAccount is Follow for the records of one account; the sequence is that
// of its partition.
func (r *Reader) FollowAccount(ctx context.Context, account string, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		p := eventlog.Partition(account, r.Partitions())
		err := r.log.deliver(ctx, reading{p, eventlog.Subject(p, account), after + 1, 0}, yield)
		if err != nil && ctx.Err() == nil {
			yield(eventlog.Record{}, fmt.Errorf("follow account %q: %w", account, err))
		}
	}
}

// Before returns the sequence of the partition's last record that was stored
// before a time, 0 when there is none: Read and Follow after it begin there.
func (r *Reader) Before(ctx context.Context, partition int, at time.Time) (uint64, error) {
	w, err := r.log.writer(partition)
	if err != nil {
		return 0, fmt.Errorf("find a time: %w", err)
	}
	info, err := r.log.Info(ctx, partition)
	if err != nil {
		return 0, fmt.Errorf("find a time: %w", err)
	}
	low, high := info.First, info.Last+1 // what is stored at or after the time begins in [low, high]
	for low < high {
		mid := low + (high-low)/2
		m, err := w.stream.GetMsg(ctx, mid)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound): // missing: as if it were old
			low = mid + 1
		case err != nil:
			return 0, fmt.Errorf("find a time in partition %d: %w", partition, err)
		case m.Time.Before(at):
			low = mid + 1
		default:
			high = mid
		}
	}
	if low == 0 {
		return 0, nil
	}
	return low - 1, nil
}

// Close ends what the reader has started. A second Close does nothing.
func (r *Reader) Close() { r.log.watch.close() }
