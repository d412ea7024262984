package app

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// timeline answers with an account's events, the last one first.
func (a *App) timeline(ctx context.Context, r api.TimelineRequest) (any, error) {
	id, err := accountID(r.Account)
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(r.Limit)
	if err != nil {
		return nil, err
	}
	before := uint64(0)
	if r.Before != "" {
		if before, err = strconv.ParseUint(r.Before, 10, 64); err != nil || before == 0 {
			return nil, invalid("%q is not the next of a page", r.Before)
		}
	}
	l, err := a.look(ctx, id)
	if err != nil {
		return nil, err
	}
	records, whole, err := tail(ctx, a.events, l, before, limit)
	if err != nil {
		return nil, err
	}
	answer := api.Timeline{Account: r.Account, Events: make([]api.Event, 0, len(records)), AsOf: api.AsOf{l.Partition: l.Seq}}
	for i := range records {
		answer.Events = append(answer.Events, bus.RecordView(&records[i]))
	}
	if n := len(records); n > 0 && !whole {
		answer.Next = strconv.FormatUint(records[n-1].Seq, 10)
	}
	return answer, nil
}

// accountLog is what a timeline needs of the log.
type accountLog interface {
	Account(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error]
}

// tail reads the last n records of an account that lie before a sequence (0: the
// end), the last one first. whole says that there are none before those. What is
// known of the account says about how far back to begin: the log is read
// forwards, in stretches that grow as they go back.
func tail(ctx context.Context, log accountLog, l command.Look, before uint64, n int) (records []eventlog.Record, whole bool, err error) {
	version, last := l.Account.Version, l.Seq
	end := last + 1
	if before != 0 {
		end = min(before, end)
	}
	apart := max(1, last/max(1, version)) // between two events of the account, on average
	stretch := max(256, 2*apart*uint64(n+1))
	if version <= uint64(n) {
		stretch = end // it has no more than that
	}
	for end > 1 && len(records) <= n {
		from := uint64(1)
		if end > stretch {
			from = end - stretch
		}
		found, err := between(ctx, log, l.Account.ID, from, end)
		if err != nil {
			return nil, false, err
		}
		slices.Reverse(found)
		records = append(records, found...)
		end, stretch = from, 4*stretch
	}
	if len(records) <= n {
		return records, true, nil
	}
	return records[:n], false, nil
}

// between reads an account's records from one sequence up to before another.
func between(ctx context.Context, log accountLog, id domain.AccountID, from, end uint64) (found []eventlog.Record, err error) {
	for rec, err := range log.Account(ctx, string(id), from) {
		if err != nil {
			return nil, fmt.Errorf("read the events of account %q: %w", id, err)
		}
		if rec.Seq >= end {
			break
		}
		found = append(found, rec)
	}
	return found, nil
}
