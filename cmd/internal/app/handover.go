package app

import (
	"context"
	"iter"
	"sync"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections"
)

// handover is the history as the views read it: while they catch up, the
// records that the writers' replay reads anyway, so that a start reads the log
// once and not twice. What the replay does not bring, the log does.
type handover struct {
	eventlog.Log
	parts []handoverPart
}

// handoverPart is one partition's way from its writer's replay to the views.
type handoverPart struct {
	chunks chan []eventlog.Record
	over   chan struct{} // closed when the replay is over, or never was
	once   sync.Once
}

var _ projections.History = (*handover)(nil)

func newHandover(log eventlog.Log) *handover {
	h := &handover{Log: log, parts: make([]handoverPart, log.Partitions())}
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

// Read yields the partition's records behind after, as eventlog.Log says. It
// lasts at least as long as the writer's replay.
func (h *handover) Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		r := reader{h: h, partition: partition, after: after, yield: yield}
		if r.replay(ctx) {
			h.Log.Read(ctx, partition, r.after)(yield)
		}
	}
}

// reader is one run of Read.
type reader struct {
	h         *handover
	partition int
	after     uint64
	yield     func(eventlog.Record, error) bool
}

// replay gives what the writer's replay reads and says whether to go on.
func (r *reader) replay(ctx context.Context) bool {
	p := &r.h.parts[r.partition]
	for {
		select {
		case chunk := <-p.chunks:
			if !r.chunk(ctx, chunk) {
				return false
			}
			continue
		case <-ctx.Done():
			return false
		case <-p.over:
		}
		select {
		case chunk := <-p.chunks: // sent before the end was called
			if !r.chunk(ctx, chunk) {
				return false
			}
		default:
			return true
		}
	}
}

func (r *reader) chunk(ctx context.Context, chunk []eventlog.Record) bool {
	for _, rec := range chunk {
		if rec.Seq > r.after+1 && !r.between(ctx, rec.Seq) {
			return false
		}
		if rec.Seq > r.after && !r.give(rec) {
			return false
		}
	}
	return true
}

func (r *reader) give(rec eventlog.Record) bool {
	r.after = rec.Seq
	return r.yield(rec, nil)
}

// between gives what lies before a record: the writer may have begun at a
// snapshot that the views do not reach, or records may be missing.
func (r *reader) between(ctx context.Context, seq uint64) bool {
	for rec, err := range r.h.Log.Read(ctx, r.partition, r.after) {
		switch {
		case err != nil:
			r.yield(eventlog.Record{}, err)
			return false
		case rec.Seq >= seq:
			return true
		case !r.give(rec):
			return false
		}
	}
	return ctx.Err() == nil
}
