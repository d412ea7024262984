package natslog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
)

// firstStretch is how many sequences are read at once where a record does not
// say which one is before it; each further stretch is four times as long.
const firstStretch = 1024

// Back yields the account's records with Seq <= from, the last one first. Each is
// stored with its guard, which is the sequence of the one before: so it is gone
// back from record to record, each read from its block's file, or got from the
// server as one message. Where that leads nowhere (from is not a record of the account's, or one is
// missing), the log is read forwards in stretches that lie further and further back.
func (l *Log) Back(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		fail := func(err error) { yield(eventlog.Record{}, fmt.Errorf("back along %q: %w", account, err)) }
		for from != 0 {
			r, before, err := l.linked(ctx, account, from)
			if errors.Is(err, errNoLink) {
				if err = l.backThrough(ctx, account, from+1, yield); err != nil {
					fail(err)
				}
				return
			}
			if err != nil {
				fail(err)
				return
			}
			if !yield(r, nil) {
				return
			}
			from = before
		}
	}
}

// errNoLink: a sequence does not hold a record of the account that says which one
// is before it.
var errNoLink = errors.New("the record before is not known")

// linked returns the account's record at a sequence and the sequence of the one
// before, 0 when it is the first.
func (l *Log) linked(ctx context.Context, account string, seq uint64) (r eventlog.Record, before uint64, err error) {
	if ctx.Err() != nil {
		return r, 0, context.Cause(ctx)
	}
	p := eventlog.Partition(account, len(l.writers))
	if l.blocks != nil {
		if s, err := l.blocks.Record(p, seq); err == nil && s.Account == account {
			header, err := nats.DecodeHeadersMsg(s.Header)
			if before, ok := link(header, seq); err == nil && ok {
				return eventlog.Record{Partition: p, Seq: seq, Account: account, Data: s.Data, Time: s.Time}, before, nil
			}
		}
	}
	msg, err := l.writers[p].stream.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return r, 0, errNoLink
	}
	if err != nil {
		return r, 0, fmt.Errorf("get message %d: %w", seq, err)
	}
	before, ok := link(msg.Header, seq)
	if !ok || msg.Subject != eventlog.Subject(p, account) {
		return r, 0, errNoLink
	}
	return eventlog.Record{Partition: p, Seq: seq, Account: account, Data: msg.Data, Time: msg.Time.UnixNano()}, before, nil
}

// link reads the sequence of the record before the one at seq out of a header.
func link(h nats.Header, seq uint64) (before uint64, ok bool) {
	before, err := strconv.ParseUint(h.Get(guardHeader), 10, 64)
	return before, err == nil && before < seq
}

// backThrough yields the account's records before a sequence, the last one first.
func (l *Log) backThrough(ctx context.Context, account string, end uint64, yield func(eventlog.Record, error) bool) error {
	for stretch := uint64(firstStretch); end > 1; stretch *= 4 {
		first := max(1, end-min(stretch, end))
		var found []eventlog.Record
		for r, err := range l.Account(ctx, account, first) {
			if err != nil {
				return err
			}
			if r.Seq >= end {
				break
			}
			found = append(found, r)
		}
		for _, r := range slices.Backward(found) {
			if !yield(r, nil) {
				return nil
			}
		}
		end = first
	}
	return nil
}
