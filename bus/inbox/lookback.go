package inbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// History is the part of the log in which it is looked up what was judged
// before; eventlog.Log has it.
type History interface {
	Partitions() int
	Info(ctx context.Context, partition int) (eventlog.Info, error)
	Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error]
}

// clocks is how far the clocks of the servers that store messages and events may
// be apart.
const clocks = time.Minute

// mostJudged bounds what is remembered of the history. It is more than the inbox
// can have delivered since anything in it was last synced.
const mostJudged = 4 << 20

// judgedBefore are the triggers that were judged since the oldest message was
// stored that still waits. A message that waited when the reader began may be
// among them: its removal can have been lost.
type judgedBefore struct {
	upTo uint64 // sequence of the last message that waited then
	ids  map[judgedID]struct{}
}

type judgedID struct {
	account domain.AccountID
	id      string
}

// has says whether the trigger of the message at seq was judged before.
func (j *judgedBefore) has(seq uint64, t *domain.Trigger) bool {
	if seq > j.upTo || len(j.ids) == 0 {
		return false
	}
	_, ok := j.ids[judgedID{t.Account, t.ID}]
	return ok
}

// lookBack reads what was judged since the oldest waiting message was stored.
// When Muster was down all that time, that is nothing.
func (r *Reader) lookBack(ctx context.Context) (*judgedBefore, error) {
	j := &judgedBefore{ids: map[judgedID]struct{}{}}
	info, err := r.cfg.Store.in.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the inbox: %w", err)
	}
	if info.State.Msgs == 0 {
		return j, nil
	}
	oldest, err := r.cfg.Store.in.GetMsg(ctx, info.State.FirstSeq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return j, nil // settled by an earlier reader: its acks still come in
	}
	if err != nil {
		return nil, fmt.Errorf("read the oldest message of the inbox: %w", err)
	}
	j.upTo = info.State.LastSeq
	begin := time.Now()
	for p := range r.cfg.History.Partitions() {
		if err := j.read(ctx, r.cfg.History, p, oldest.Time.Add(-clocks).UnixNano()); err != nil {
			return nil, err
		}
	}
	r.cfg.Logger.Info("the inbox is taken over", "waiting", info.State.Msgs, "oldest", oldest.Time.UTC(),
		"judged_since", len(j.ids), "took", time.Since(begin).Round(time.Millisecond))
	return j, nil
}

// read takes in the ids of a partition's events that were stored at or after
// since.
func (j *judgedBefore) read(ctx context.Context, h History, partition int, since int64) error {
	from, err := firstSince(ctx, h, partition, since)
	if err != nil || from == 0 {
		return err
	}
	for rec, err := range h.Read(ctx, partition, from-1) {
		if err != nil {
			return fmt.Errorf("look back in partition %d: %w", partition, err)
		}
		if rec.Time < since || len(j.ids) >= mostJudged {
			continue
		}
		e, err := codec.Decode(rec.Data)
		if err != nil {
			continue // a damaged account takes no more triggers anyway
		}
		if e.ID != "" {
			j.ids[judgedID{e.Account, e.ID}] = struct{}{}
		}
	}
	return nil
}

// firstSince returns a sequence at or before the partition's first event that
// was stored at or after since; 0 when there is none.
func firstSince(ctx context.Context, h History, partition int, since int64) (uint64, error) {
	info, err := h.Info(ctx, partition)
	if err != nil {
		return 0, fmt.Errorf("look back in partition %d: %w", partition, err)
	}
	if info.Last == 0 {
		return 0, nil
	}
	for step := uint64(0); ; step = max(1024, 4*step) {
		from := max(info.First, 1)
		if info.Last > from+step {
			from = info.Last - step
		}
		older, err := storedBefore(ctx, h, partition, from, since)
		switch {
		case err != nil:
			return 0, err
		case older && step == 0:
			return 0, nil // the last one is older
		case older || from <= max(info.First, 1):
			return from, nil
		}
	}
}

// storedBefore says whether the first record from a sequence on is older than
// since.
func storedBefore(ctx context.Context, h History, partition int, from uint64, since int64) (bool, error) {
	for rec, err := range h.Read(ctx, partition, from-1) {
		if err != nil {
			return false, fmt.Errorf("look back in partition %d: %w", partition, err)
		}
		return rec.Time < since, nil
	}
	return false, nil
}
