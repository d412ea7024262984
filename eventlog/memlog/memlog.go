// Package memlog is the log and its blobs in memory, for simulation and fast
// tests. It keeps every promise of eventlog.Log except that it dies with the
// process; the suite in eventlogtest holds it to them. It starts no goroutine.
//
// Drop and Overwrite damage it on purpose, so that readers can be tried
// against missing and altered records.
package memlog

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/musterhq/muster/eventlog"
)

var _ eventlog.Log = (*Log)(nil)

// incarnations makes the incarnation of every Log of the process different.
var incarnations atomic.Uint64

// Log is a log in memory. Use New.
type Log struct {
	now         func() time.Time
	incarnation string
	parts       []*partition
}

// partition is one stream. Its records are never changed in place: readers
// hold the slice they have seen.
type partition struct {
	mu      sync.Mutex
	records []eventlog.Record // gaps where Drop took one out
	first   uint64            // sequence of the first record that was ever stored and not dropped from the front
	last    uint64            // highest sequence ever given
	latest  map[string]uint64 // account -> sequence of its last record
	grown   chan struct{}     // closed and replaced by every append
}

// New returns an empty log. It panics on a partition count outside
// 1..eventlog.MaxPartitions, which is a mistake of the program.
func New(partitions int) *Log { return NewAt(partitions, time.Now) }

// NewAt is New with a clock that gives the records their time.
func NewAt(partitions int, now func() time.Time) *Log {
	if partitions < 1 || partitions > eventlog.MaxPartitions {
		panic("memlog: partitions must be 1 to " + strconv.Itoa(eventlog.MaxPartitions))
	}
	l := &Log{now: now, incarnation: "mem-" + strconv.FormatUint(incarnations.Add(1), 10)}
	for range partitions {
		l.parts = append(l.parts, &partition{first: 1, latest: map[string]uint64{}, grown: make(chan struct{})})
	}
	return l
}

// Partitions is the number of partitions.
func (l *Log) Partitions() int { return len(l.parts) }

// Append stores the group; all of it happens at one instant.
func (l *Log) Append(ctx context.Context, partition int, group []eventlog.Entry) []eventlog.Result {
	results := make([]eventlog.Result, len(group))
	eventlog.CheckGroup(len(l.parts), partition, group, results)
	if partition < 0 || partition >= len(l.parts) {
		return results
	}
	p := l.parts[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	failed := map[string]error{}
	for i, e := range group {
		if results[i].Err == nil {
			if err := failed[e.Account]; err != nil {
				results[i] = eventlog.FollowsFailure(e.Account, err)
			} else if ctx.Err() != nil {
				results[i].Err = fmt.Errorf("append: %w: %w", eventlog.ErrUnknown, context.Cause(ctx))
			} else {
				results[i] = p.store(e, partition, l.now())
			}
		}
		if results[i].Err != nil {
			failed[e.Account] = results[i].Err
		}
	}
	close(p.grown)
	p.grown = make(chan struct{})
	return results
}

// store appends one entry; the caller holds mu.
func (p *partition) store(e eventlog.Entry, partition int, now time.Time) eventlog.Result {
	last := p.latest[e.Account]
	if e.Expect != eventlog.ExpectPrevious && e.Expect != last {
		return eventlog.Result{Err: &eventlog.ConflictError{Account: e.Account, Last: last}}
	}
	p.last++
	p.records = append(p.records, eventlog.Record{
		Partition: partition, Seq: p.last, Account: e.Account, Data: append([]byte{}, e.Data...), Time: now.UnixNano(),
	})
	p.latest[e.Account] = p.last
	return eventlog.Result{Seq: p.last}
}

// Sync has nothing to do: what is stored is as durable as it will ever be.
func (l *Log) Sync(_ context.Context, partition int) error {
	if _, err := l.partition(partition); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// Last returns the account's last record.
func (l *Log) Last(ctx context.Context, account string) (eventlog.Record, error) {
	if err := ctx.Err(); err != nil {
		return eventlog.Record{}, fmt.Errorf("last of %q: %w", account, err)
	}
	p := l.parts[eventlog.Partition(account, len(l.parts))]
	p.mu.Lock()
	defer p.mu.Unlock()
	if seq := p.latest[account]; seq > 0 {
		if i := p.index(seq); i < len(p.records) && p.records[i].Seq == seq {
			return p.records[i], nil
		}
	}
	return eventlog.Record{}, fmt.Errorf("last of %q: %w", account, eventlog.ErrNotFound)
}

// Account yields the account's records with Seq >= from.
func (l *Log) Account(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range l.Read(ctx, eventlog.Partition(account, len(l.parts)), max(from, 1)-1) {
			if (err != nil || r.Account == account) && !yield(r, err) {
				return
			}
		}
	}
}

// Back yields the account's records with Seq <= from, the last one first.
func (l *Log) Back(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		p := l.parts[eventlog.Partition(account, len(l.parts))]
		records, _ := p.after(0)
		for _, r := range slices.Backward(records) {
			if ctx.Err() != nil {
				yield(eventlog.Record{}, fmt.Errorf("back along %q: %w", account, context.Cause(ctx)))
				return
			}
			if r.Seq <= from && r.Account == account && !yield(r, nil) {
				return
			}
		}
	}
}

// Read yields the records after a sequence that are there when it begins.
func (l *Log) Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		p, err := l.partition(partition)
		if err != nil {
			yield(eventlog.Record{}, fmt.Errorf("read: %w", err))
			return
		}
		records, _ := p.after(after)
		for _, r := range records {
			if ctx.Err() != nil {
				yield(eventlog.Record{}, fmt.Errorf("read partition %d: %w", partition, context.Cause(ctx)))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Follow yields the records after a sequence, and new ones, until ctx ends.
func (l *Log) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		p, err := l.partition(partition)
		if err != nil {
			yield(eventlog.Record{}, fmt.Errorf("follow: %w", err))
			return
		}
		for {
			records, grown := p.after(after)
			for _, r := range records {
				if ctx.Err() != nil || !yield(r, nil) {
					return
				}
				after = r.Seq
			}
			if len(records) > 0 {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-grown:
			}
		}
	}
}

// Info reports a partition's state.
func (l *Log) Info(_ context.Context, partition int) (eventlog.Info, error) {
	p, err := l.partition(partition)
	if err != nil {
		return eventlog.Info{}, fmt.Errorf("info: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return eventlog.Info{First: p.first, Last: p.last, Messages: uint64(len(p.records)), Incarnation: l.incarnation}, nil
}

// Close does nothing: the log stays readable.
func (l *Log) Close() error { return nil }

func (l *Log) partition(i int) (*partition, error) {
	if i < 0 || i >= len(l.parts) {
		return nil, fmt.Errorf("there is no partition %d of %d", i, len(l.parts))
	}
	return l.parts[i], nil
}

// after returns the records with Seq > seq, and the channel that the next append closes.
func (p *partition) after(seq uint64) ([]eventlog.Record, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.index(seq + 1)
	return p.records[i:len(p.records):len(p.records)], p.grown
}
