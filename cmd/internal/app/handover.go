package app

import (
	"context"
	"iter"
	"sync"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections"
)

// handover is where the views' records come from: during the start, the records
// that the writers read anyway, so that the history is read once and not twice;
// then a Tee.
type handover struct {
	log   eventlog.Log
	tee   *projections.Tee
	parts []handoverPart
}

// handoverPart is one partition's way from its writer's replay to the views.
type handoverPart struct {
	chunks chan []eventlog.Record
	over   chan struct{} // closed when the replay is over, or never was
	once   sync.Once
}

var _ projections.Source = (*handover)(nil)

func newHandover(log eventlog.Log) *handover {
	h := &handover{log: log, tee: projections.NewTee(log, log.Partitions(), 0), parts: make([]handoverPart, log.Partitions())}
	for i := range h.parts {
		h.parts[i].chunks, h.parts[i].over = make(chan []eventlog.Record, 4), make(chan struct{})
	}
	return h
}

// replayed takes records that a writer's replay has read. It waits for the views
// to take them; once the replay was called over it does nothing.
func (h *handover) replayed(partition int, records []eventlog.Record) {
	p := &h.parts[partition]
	select {
	case <-p.over:
		return
	default:
	}
	select {
	case p.chunks <- records:
	case <-p.over:
	}
}

// end says that nothing more comes from the partition's replay.
func (h *handover) end(partition int) {
	p := &h.parts[partition]
	p.once.Do(func() { close(p.over) })
}

// endAll is end for all partitions.
func (h *handover) endAll() {
	for i := range h.parts {
		h.end(i)
	}
}

// Follow gives the partition's records behind after as projections.Source says.
func (h *handover) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		f := follower{h: h, partition: partition, after: after, yield: yield}
		if f.replay(ctx) && ctx.Err() == nil {
			h.tee.Follow(ctx, partition, f.after)(yield)
		}
	}
}

// follower is one run of Follow.
type follower struct {
	h         *handover
	partition int
	after     uint64
	yield     func(eventlog.Record, error) bool
}

// replay gives what the writer's replay reads and says whether to go on.
func (f *follower) replay(ctx context.Context) bool {
	p := &f.h.parts[f.partition]
	for {
		select {
		case chunk := <-p.chunks:
			if !f.chunk(ctx, chunk) {
				return false
			}
			continue
		case <-ctx.Done():
			return false
		case <-p.over:
		}
		select {
		case chunk := <-p.chunks: // sent before the end was called
			if !f.chunk(ctx, chunk) {
				return false
			}
		default:
			return true
		}
	}
}

func (f *follower) chunk(ctx context.Context, chunk []eventlog.Record) bool {
	for _, rec := range chunk {
		if rec.Seq > f.after+1 && !f.between(ctx, rec.Seq) {
			return false
		}
		if rec.Seq > f.after && !f.give(rec) {
			return false
		}
	}
	return true
}

func (f *follower) give(rec eventlog.Record) bool {
	f.after = rec.Seq
	return f.yield(rec, nil)
}

// between gives what lies before a record: the writer may have begun at a
// snapshot that the views do not reach, or records may be missing.
func (f *follower) between(ctx context.Context, seq uint64) bool {
	for rec, err := range f.h.log.Read(ctx, f.partition, f.after) {
		switch {
		case err != nil:
			f.yield(eventlog.Record{}, err)
			return false
		case rec.Seq >= seq:
			return true
		case !f.give(rec):
			return false
		}
	}
	return ctx.Err() == nil
}
