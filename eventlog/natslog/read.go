package natslog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
)

// The waits of a reader between two tries to get a consumer.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// Last returns the account's last record. With replicas it asks the stream's
// leader, since another server may be behind.
func (l *Log) Last(ctx context.Context, account string) (eventlog.Record, error) {
	p := eventlog.Partition(account, len(l.writers))
	r, err := l.last(ctx, p, eventlog.Subject(p, account))
	if err != nil {
		return eventlog.Record{}, fmt.Errorf("last of %q: %w", account, err)
	}
	return r, nil
}

// last returns the last record of a partition whose subject matches.
func (l *Log) last(ctx context.Context, partition int, subject string) (eventlog.Record, error) {
	if err := ctx.Err(); err != nil {
		return eventlog.Record{}, context.Cause(ctx)
	}
	msg, err := l.writers[partition].stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return eventlog.Record{}, eventlog.ErrNotFound
	}
	if err != nil {
		return eventlog.Record{}, fmt.Errorf("get the last message: %w", err)
	}
	_, account, err := eventlog.ParseSubject(msg.Subject)
	if err != nil {
		return eventlog.Record{}, err
	}
	return eventlog.Record{
		Partition: partition, Seq: msg.Sequence, Account: account, Data: msg.Data, Time: msg.Time.UnixNano(),
	}, nil
}

// Account yields the account's records with Seq >= from.
func (l *Log) Account(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		p := eventlog.Partition(account, len(l.writers))
		subject := eventlog.Subject(p, account)
		last, err := l.last(ctx, p, subject)
		switch {
		case errors.Is(err, eventlog.ErrNotFound) || err == nil && last.Seq < from:
		case err != nil:
			yield(eventlog.Record{}, fmt.Errorf("records of %q: %w", account, err))
		case last.Seq == from: // the usual case of one who looks for his own last append
			yield(last, nil)
		default:
			if err := l.deliver(ctx, reading{p, subject, max(from, 1), last.Seq}, yield); err != nil {
				yield(eventlog.Record{}, fmt.Errorf("records of %q: %w", account, err))
			}
		}
	}
}

// Read yields the records after a sequence, up to the last one that exists now.
func (l *Log) Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		if _, err := l.writer(partition); err != nil {
			yield(eventlog.Record{}, fmt.Errorf("read: %w", err))
			return
		}
		last, err := l.last(ctx, partition, eventlog.PartitionSubjects(partition))
		if errors.Is(err, eventlog.ErrNotFound) || err == nil && last.Seq <= after {
			return
		}
		if err == nil {
			err = l.deliver(ctx, reading{partition, "", after + 1, last.Seq}, yield)
		}
		if err != nil {
			yield(eventlog.Record{}, fmt.Errorf("read partition %d: %w", partition, err))
		}
	}
}

// Follow yields the records after a sequence, and new ones, until ctx ends.
func (l *Log) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		if _, err := l.writer(partition); err != nil {
			yield(eventlog.Record{}, fmt.Errorf("follow: %w", err))
			return
		}
		err := l.deliver(ctx, reading{partition, "", after + 1, 0}, yield)
		if err != nil && ctx.Err() == nil {
			yield(eventlog.Record{}, fmt.Errorf("follow partition %d: %w", partition, err))
		}
	}
}

// reading is a stretch of one partition.
type reading struct {
	partition int
	filter    string // subject; "" = all
	next      uint64 // sequence to go on with
	end       uint64 // the last sequence wanted, which exists; 0 = without end
}

// deliver yields a stretch, with as many consumers after each other as it
// takes. It returns nil when the stretch has ended or the caller wants no more.
func (l *Log) deliver(ctx context.Context, r reading, yield func(eventlog.Record, error) bool) error {
	retry := firstRetry
	for again := false; ; again = true {
		begin := r.next
		more, err := l.deliverFrom(ctx, &r, again, yield)
		if !more {
			return nil
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !goesOn(err):
			return err
		case r.next > begin:
			retry = firstRetry
		}
		if l.allDelivered(ctx, r) {
			return nil
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		retry = min(2*retry, lastRetry)
	}
}

// goesOn says whether a new consumer may mend what ended the last one.
func goesOn(err error) bool {
	var refusal jetstream.JetStreamError
	switch {
	case errors.Is(err, eventlog.ErrToken), errors.Is(err, errClosed), errors.Is(err, errAnew):
		return false
	case errors.As(err, &refusal) && refusal.APIError() != nil:
		return unsettled(int(refusal.APIError().ErrorCode))
	}
	return true
}

// allDelivered says whether a stretch with an end has no records left to
// deliver: a server that was started again may have lost the last ones.
func (l *Log) allDelivered(ctx context.Context, r reading) bool {
	if r.end == 0 {
		return false
	}
	subject := r.filter
	if subject == "" {
		subject = eventlog.PartitionSubjects(r.partition)
	}
	last, err := l.last(ctx, r.partition, subject)
	return errors.Is(err, eventlog.ErrNotFound) || err == nil && last.Seq < r.next
}

// errAnew ends readers of a stream that is not the one the log was opened with.
var errAnew = errors.New("the stream was created anew: open the log again and read it from its beginning")

// sameStream fails when the stream is not the one that the log was opened with.
func (l *Log) sameStream(ctx context.Context, partition int) error {
	info, err := l.Info(ctx, partition)
	if err == nil && info.Incarnation != l.writers[partition].incarnation {
		err = errAnew
	}
	return err
}

// deliverFrom yields what one consumer brings. more is false when the stretch
// has ended or the caller wants no more; otherwise err says what ended the
// consumer. again says that it is not the first of its stretch.
func (l *Log) deliverFrom(ctx context.Context, r *reading, again bool, yield func(eventlog.Record, error) bool) (more bool, err error) {
	broken, err := l.watch.breaks()
	if err != nil {
		return true, err
	}
	t, name, err := l.newTail(ctx, r.partition, r.filter, r.next)
	if err != nil {
		return true, err
	}
	defer t.close(eventlog.StreamName(r.partition), name)
	if again || r.end == 0 { // asked once the consumer is there: it dies with its stream
		if err := l.sameStream(ctx, r.partition); err != nil {
			return true, err
		}
	}
	var batch []eventlog.Record
	for {
		if batch, err = t.wait(ctx, broken, batch); err != nil {
			return true, err
		}
		for i := range batch {
			if ctx.Err() != nil {
				return true, context.Cause(ctx)
			}
			if !yield(batch[i], nil) {
				return false, nil
			}
			if r.next = batch[i].Seq + 1; r.end != 0 && batch[i].Seq >= r.end {
				return false, nil
			}
		}
		clear(batch) // the caller may keep what it got, this slice must not
	}
}
