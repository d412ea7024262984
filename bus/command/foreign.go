package command

import (
	"errors"
	"fmt"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// keepUp notes how far the log is folded. What this writer stores lies in the
// stream without a gap; where there is one, another process has written, which
// may happen for a moment when a lease changes hands. Its records are then read,
// for a snapshot or a look must not pretend to know of them.
func (w *writer) keepUp(b *batch) {
	n, top := uint64(0), uint64(0)
	for _, it := range b.items {
		if it.seq != 0 && it.seq <= it.draft.slot.seq {
			n++
			top = max(top, it.seq)
		}
	}
	if top == w.whole+n {
		w.whole = max(w.whole, top)
	}
	if w.last > w.whole {
		w.overtake()
	}
}

// overtake folds all records behind the position that are not folded yet. When
// it fails it is tried again after the next group, and no snapshot is written.
func (w *writer) overtake() {
	foreign := 0
	for rec, err := range w.cfg.Log.Read(w.ctx, w.partition, w.whole) {
		if err != nil {
			w.cfg.Logger.Warn("what another process has written cannot be read yet", "partition", w.partition, "error", err)
			return
		}
		if w.adopt(rec) {
			foreign++
		}
		w.whole = rec.Seq
		w.last = max(w.last, rec.Seq)
	}
	if foreign == 0 {
		return
	}
	w.saved.events += foreign
	w.cfg.Logger.Warn("another process has written to the partition; its records were read", "partition", w.partition, "records", foreign)
	if err := w.cfg.Log.Sync(w.ctx, w.partition); errors.Is(err, eventlog.ErrFailed) {
		w.set.fail(fmt.Errorf("partition %d: %w", w.partition, err))
	}
}

// adopt folds a record of another writer in, unless it is known already.
func (w *writer) adopt(rec eventlog.Record) bool {
	id := domain.AccountID(rec.Account)
	s := w.slots[id]
	if s != nil && rec.Seq <= s.seq {
		return false
	}
	if s == nil {
		s = &slot{}
	}
	tail := *s
	tail.acct, tail.armed = cloneOf(s.acct), w.now()
	w.follow(&tail, rec)
	w.public.change(func() {
		*s = tail
		w.slots[id] = s
	})
	w.arm(id, s)
	return true
}
