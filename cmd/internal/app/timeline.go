package app

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/cmd/internal/api"
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
	Back(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error]
}

// tail reads the last n records of an account that lie before a sequence (0: the
// end), the last one first. whole says that there are none before those.
func tail(ctx context.Context, log accountLog, l command.Look, before uint64, n int) (records []eventlog.Record, whole bool, err error) {
	from := l.Seq
	if before != 0 {
		from = min(before, from)
	}
	for rec, err := range log.Back(ctx, string(l.Account.ID), from) {
		switch {
		case err != nil:
			return nil, false, fmt.Errorf("read the events of account %q: %w", l.Account.ID, err)
		case rec.Seq == before: // the last one of the page before
			continue
		case len(records) == n:
			return records, false, nil
		}
		records = append(records, rec)
	}
	return records, true, nil
}
