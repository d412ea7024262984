package command

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/snapshot"
)

// savedAt says how old the partition's snapshot is.
type savedAt struct {
	seq    uint64    // it covers the log up to here
	at     time.Time // when it was taken
	events int       // stored since
}

// saveWithin bounds the writing of one snapshot.
const saveWithin = 2 * time.Minute

// maybeSave writes a snapshot in the background when enough has happened since
// the last one. One at a time is written.
func (w *writer) maybeSave() {
	due := w.saved.events >= w.cfg.SnapshotEvery || w.saved.events > 0 && w.cfg.Now().Sub(w.saved.at) >= w.cfg.SnapshotAfter
	if w.cfg.Blobs == nil || !due || w.set.Err() != nil || w.last > w.whole {
		return
	}
	if w.saving != nil {
		select {
		case <-w.saving:
		default:
			return
		}
	}
	states, last := w.freeze(), w.whole
	w.saved = savedAt{seq: last, at: w.cfg.Now()}
	done := make(chan struct{})
	w.saving = done
	w.set.wg.Go(func() {
		defer close(done)
		w.save(states, last)
	})
}

// saveLast writes the snapshot with which the writer ends, if there is
// anything that the last one does not have.
func (w *writer) saveLast() {
	if w.saving != nil {
		<-w.saving
	}
	if w.cfg.Blobs != nil && w.saved.events > 0 && w.set.Err() == nil && w.ctx.Err() == nil && w.last <= w.whole {
		w.save(w.freeze(), w.whole)
	}
}

// save writes a snapshot. It is disposable, so a failure is only told.
func (w *writer) save(states []frozen, last uint64) {
	ctx, cancel := context.WithTimeoutCause(w.ctx, saveWithin, fmt.Errorf("snapshot not written within %v", saveWithin))
	defer cancel()
	begin := time.Now()
	h := snapshot.Header{
		Fold: domain.FoldVersion, Partition: w.partition, Partitions: len(w.set.writers),
		Last: last, Incarnation: w.incarnation, Count: len(states), Time: begin.UnixNano(),
	}
	err := snapshot.Save(ctx, w.cfg.Blobs, h, entriesOf(states))
	if err != nil {
		w.cfg.Logger.Warn("a snapshot was not written; the next start replays more", "partition", w.partition, "error", err)
		return
	}
	if w.cfg.Observer != nil {
		w.cfg.Observer.Snapshot(w.partition, begin)
	}
	w.cfg.Logger.Debug("snapshot written", "partition", w.partition, "last", last, "accounts", len(states), "took", time.Since(begin))
}

// entriesOf encodes the states one by one. One that cannot be encoded ends the
// sequence early, which makes the snapshot fail.
func entriesOf(states []frozen) iter.Seq[snapshot.Entry] {
	return func(yield func(snapshot.Entry) bool) {
		var buf []byte
		for _, s := range states {
			var err error
			if buf, err = codec.AppendAccount(buf[:0], s.acct); err != nil {
				return
			}
			if !yield(snapshot.Entry{Account: string(s.acct.ID), Seq: s.seq, Hash: s.hash, Damage: s.damage, State: buf}) {
				return
			}
		}
	}
}

// witness is what a snapshot knew of the log that cannot be folded on from it.
type witness map[domain.AccountID]uint64 // account → sequence of its last record

// loadSnapshot folds the newest whole snapshot in. When the stream has lost
// records, none is used, so that the replay meets the hole and names the
// accounts; but what the snapshot had seen is returned to testify.
func (w *writer) loadSnapshot(ctx context.Context, info eventlog.Info, rep *LoadReport) witness {
	w.incarnation = info.Incarnation
	if w.cfg.Blobs == nil {
		return nil
	}
	want := snapshot.Want{
		Fold: domain.FoldVersion, Partition: w.partition, Partitions: len(w.set.writers), Incarnation: info.Incarnation,
	}
	var seen witness
	reader := codec.NewReader()
	h, refused, err := snapshot.Load(ctx, w.cfg.Blobs, want, func(h snapshot.Header, entries iter.Seq2[snapshot.Entry, error]) error {
		w.slots = make(map[domain.AccountID]*slot, h.Count)
		for e, err := range entries {
			if err != nil {
				return err
			}
			acct, err := reader.Account(e.State)
			if err != nil {
				return err
			}
			w.slots[acct.ID] = &slot{acct: acct, seq: e.Seq, hash: e.Hash, damage: e.Damage}
		}
		return nil
	})
	for _, r := range refused {
		rep.Discarded = r.Error()
	}
	if err != nil {
		w.slots = map[domain.AccountID]*slot{}
		if !errors.Is(err, eventlog.ErrNotFound) {
			rep.Discarded = err.Error()
		}
		return nil
	}
	if rep.Missing == 0 && rep.Hole == "" && h.Last <= info.Last {
		w.last, rep.FromSnapshot = h.Last, h.Last
		if w.cfg.Observer != nil && !w.quiet {
			w.cfg.Observer.Snapshot(w.partition, time.Unix(0, h.Time))
		}
		return nil
	}
	if h.Last > info.Last {
		rep.LostTail = h.Last - info.Last
	}
	rep.Discarded = "the stream has lost records, so all of it is read"
	seen = make(witness, len(w.slots))
	for id, s := range w.slots {
		seen[id] = s.seq
	}
	w.slots = map[domain.AccountID]*slot{}
	return seen
}

// testify marks the accounts of which a snapshot had seen more than the log now has.
func (w *writer) testify(seen witness) {
	for id, seq := range seen {
		s := w.slots[id]
		if s == nil || s.seq < seq {
			w.markDamaged(id, fmt.Sprintf("its records up to sequence %d were stored and are gone", seq))
		}
	}
}
