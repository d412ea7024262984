package natslog

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
)

// guardHeader asks the server to store the record only if the account's last
// one has this sequence. It always means the subject that is published to: two
// writers that named the guard's subject differently could both win.
const guardHeader = "Nats-Expected-Last-Subject-Sequence"

// writer appends to one partition. Acks come to one subscription; each reply
// subject ends in the group's number and the entry's, so that a late ack of an
// earlier group is told apart.
type writer struct {
	log       *Log
	partition int
	ackWait   time.Duration
	subjects  string // prefix of the accounts' subjects
	replies   string // prefix of the reply subjects
	sub       *nats.Subscription

	stream      jetstream.Stream
	incarnation string // of the stream when the log was opened

	appending sync.Mutex // held for a whole Append: the contract forbids two at a time, this makes it safe

	mu       sync.Mutex // guards what follows
	number   uint64     // of the group in flight
	group    []eventlog.Entry
	results  []eventlog.Result
	answered []bool
	next     []int32 // the next entry of the same account in the group, or -1
	open     int     // entries without a result
	done     chan struct{}
}

// Append stores a group; see eventlog.Log.
func (l *Log) Append(ctx context.Context, partition int, group []eventlog.Entry) []eventlog.Result {
	results := make([]eventlog.Result, len(group))
	eventlog.CheckGroup(len(l.writers), partition, group, results)
	if partition < 0 || partition >= len(l.writers) || len(group) == 0 {
		return results
	}
	l.writers[partition].append(ctx, group, results)
	return results
}

func newWriter(ctx context.Context, l *Log, partition int, ackWait time.Duration) (*writer, error) {
	stream, err := l.js.Stream(ctx, eventlog.StreamName(partition))
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", eventlog.StreamName(partition), err)
	}
	w := &writer{
		log: l, partition: partition, ackWait: ackWait, stream: stream, incarnation: incarnation(stream.CachedInfo()),
		subjects: fmt.Sprintf("%s%02d.", eventlog.SubjectPrefix, partition),
		replies:  l.nc.NewInbox() + ".",
	}
	sub, err := l.nc.Subscribe(w.replies+"*.*", w.ack)
	if err != nil {
		return nil, fmt.Errorf("subscribe to acks: %w", err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil { // a group bounds them
		return nil, fmt.Errorf("subscribe to acks: %w", err)
	}
	w.sub = sub
	return w, nil
}

func (w *writer) close() error {
	if err := w.sub.Unsubscribe(); err != nil && !w.log.nc.IsClosed() {
		return fmt.Errorf("unsubscribe from acks: %w", err)
	}
	return nil
}

// append fills the results that are still open.
func (w *writer) append(ctx context.Context, group []eventlog.Entry, results []eventlog.Result) {
	w.appending.Lock()
	defer w.appending.Unlock()
	if err := w.ready(group); err != nil {
		settle(results, err)
		return
	}
	broken, err := w.log.watch.breaks()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		settle(results, fmt.Errorf("append: %w: %w", eventlog.ErrUnknown, err))
		return
	}
	heads := w.begin(group, results)
	for _, i := range heads {
		if err := w.publish(w.number, i, &group[i], group[i].Expect); err != nil {
			w.settleOne(w.number, i, answer{err: err})
		}
	}
	cause := w.wait(ctx, broken)
	w.end(cause)
	w.passAfter(results)
}

// ready says why nothing may be appended now.
func (w *writer) ready(group []eventlog.Entry) error {
	if err := w.log.Failed(); err != nil {
		return err
	}
	if r, ok := w.log.barrier.(Roomer); ok {
		bytes := 0
		for i := range group {
			bytes += len(group[i].Data)
		}
		if err := r.Room(bytes); err != nil {
			return fmt.Errorf("%w: %w", eventlog.ErrRefused, err)
		}
	}
	return nil
}

// settle gives err to every entry that has no error yet.
func settle(results []eventlog.Result, err error) {
	for i := range results {
		if results[i].Err == nil {
			results[i].Err = err
		}
	}
}

// begin sets up a group and returns the entries that wait for no other: the
// first of each account. An account's entry after a refused one fails with it.
func (w *writer) begin(group []eventlog.Entry, results []eventlog.Result) []int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	w.group, w.results, w.done = group, results, make(chan struct{})
	w.answered, w.next, w.open = make([]bool, len(group)), make([]int32, len(group)), 0
	var heads []int32
	last := make(map[string]int32, len(group))
	for i := range group {
		w.next[i] = -1
		before, follows := last[group[i].Account]
		last[group[i].Account] = int32(i)
		if follows && results[i].Err == nil && results[before].Err != nil {
			results[i] = eventlog.FollowsFailure(group[i].Account, results[before].Err)
		}
		if results[i].Err != nil {
			w.answered[i] = true
			continue
		}
		w.open++
		if follows {
			w.next[before] = int32(i)
		} else {
			heads = append(heads, int32(i))
		}
	}
	if w.open == 0 {
		close(w.done)
	}
	return heads
}

// headRoom is more than the bytes of a record's headers.
const headRoom = 256

// MaxRecord is the largest record in bytes that the server takes.
func (l *Log) MaxRecord() int { return int(l.nc.MaxPayload()) - headRoom }

// publish sends one entry.
func (w *writer) publish(number uint64, i int32, e *eventlog.Entry, expect uint64) error {
	reply := make([]byte, 0, len(w.replies)+24)
	reply = append(reply, w.replies...)
	reply = strconv.AppendUint(reply, number, 36)
	reply = append(reply, '.')
	reply = strconv.AppendUint(reply, uint64(i), 36)
	return w.log.nc.PublishMsg(&nats.Msg{
		Subject: w.subjects + eventlog.Token(e.Account),
		Reply:   string(reply),
		Header:  nats.Header{guardHeader: {strconv.FormatUint(expect, 10)}},
		Data:    e.Data,
	})
}

// wait returns when every entry has a result, or with the cause why it waits
// no longer.
func (w *writer) wait(ctx context.Context, broken <-chan struct{}) error {
	timer := time.NewTimer(w.ackWait)
	defer timer.Stop()
	open := len(w.group) + 1
	for {
		select {
		case <-w.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-broken:
			return errLost
		case <-timer.C:
			w.mu.Lock()
			now := w.open
			w.mu.Unlock()
			if now == open {
				return fmt.Errorf("no ack within %v: %w", w.ackWait, nats.ErrTimeout)
			}
			open = now
			timer.Reset(w.ackWait)
		}
	}
}

// end closes the group: what has no result is unknown, and acks that come
// later find no group.
func (w *writer) end(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	if w.open > 0 {
		for i := range w.results {
			if !w.answered[i] {
				_, w.results[i].Err = outcome(w.group[i].Account, answer{err: cause})
			}
		}
	}
	w.group, w.results = nil, nil
}

// passAfter passes the barrier for a group's stored records. When it fails,
// none of them is acknowledged and the log has failed.
func (w *writer) passAfter(results []eventlog.Result) {
	acked, last := 0, uint64(0)
	for _, r := range results {
		if r.Err == nil {
			acked++
			last = max(last, r.Seq)
		}
	}
	if acked == 0 {
		return
	}
	if err := w.pass(acked, last); err != nil {
		for i := range results {
			if results[i].Err == nil {
				results[i] = eventlog.Result{Err: err}
			}
		}
	}
}

func (w *writer) pass(acked int, last uint64) error {
	if err := w.log.Failed(); err != nil {
		return err
	}
	if w.log.barrier == nil {
		return nil
	}
	if err := w.log.barrier.Pass(w.partition, acked, last); err != nil {
		return w.log.fail(fmt.Errorf("partition %d: %w", w.partition, err))
	}
	return nil
}
