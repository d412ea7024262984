package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// LoadReport says what taking over a partition read and found.
type LoadReport struct {
	Partition    int
	Last         uint64            // sequence of the last record folded
	FromSnapshot uint64            // sequence of the snapshot that was used; 0 = none was
	Discarded    string            // why a snapshot that was there was not used; "" = none was discarded
	Replayed     uint64            // records folded
	Accounts     int               // accounts known afterwards
	Missing      uint64            // records that the stream has lost up to its last
	Hole         string            // where records of unknown accounts are known to be gone; "" = nowhere
	LostTail     uint64            // records behind the stream's end that a snapshot had seen
	Damaged      map[string]string // account → what is missing, in words
	Took         time.Duration
}

// load folds the partition's history into the writer's memory.
func (w *writer) load(ctx context.Context, damaged map[string]string) (LoadReport, error) {
	begin := time.Now()
	rep := LoadReport{Partition: w.partition, Damaged: map[string]string{}}
	info, err := w.cfg.Log.Info(ctx, w.partition)
	if err != nil {
		return rep, fmt.Errorf("read the stream's state: %w", err)
	}
	rep.Missing, rep.Hole = missing(info), damaged[""]
	witness := w.loadSnapshot(ctx, info, &rep)
	if err := w.replay(ctx, &rep); err != nil {
		return rep, err
	}
	w.whole = w.last
	w.testify(witness)
	for id, why := range damaged {
		if id != "" {
			w.markDamaged(domain.AccountID(id), why)
		}
	}
	now := w.now()
	for id, s := range w.slots {
		if s.damage != "" {
			rep.Damaged[string(id)] = s.damage
		}
		s.armed = now
		if s.acct != nil {
			s.acct.BeatsFrom(now) // beats are not stored: the count begins anew
		}
		w.arm(id, s)
	}
	if w.cfg.Hold != nil && !w.quiet {
		w.held = w.cfg.Hold(w.partition)
	}
	w.saved = savedAt{seq: max(rep.FromSnapshot, 0), at: begin, events: int(rep.Replayed)}
	rep.Last, rep.Accounts, rep.Took = w.last, len(w.slots), time.Since(begin)
	return rep, nil
}

// missing is the number of records that are gone up to the stream's last one: it
// begins with sequence 1 and nothing is ever deleted, so each one is a loss, also at
// its beginning.
func missing(info eventlog.Info) uint64 {
	if info.Last > info.Messages {
		return info.Last - info.Messages
	}
	return 0
}

// replay folds every record behind the position.
func (w *writer) replay(ctx context.Context, rep *LoadReport) error {
	reader := codec.NewReader()
	var e domain.Event
	var chunk []eventlog.Record
	for rec, err := range w.cfg.Log.Read(ctx, w.partition, w.last) {
		if err != nil {
			return fmt.Errorf("replay behind sequence %d: %w", w.last, err)
		}
		if p := eventlog.Partition(rec.Account, len(w.set.writers)); p != w.partition {
			return fmt.Errorf("replay: account %q at sequence %d belongs to partition %d, not %d: "+
				"the streams were written with another partition count", rec.Account, rec.Seq, p, w.partition)
		}
		if err := w.fold(rec, reader, &e); err != nil {
			return err
		}
		w.last = rec.Seq
		rep.Replayed++
		if w.cfg.OnReplay != nil && !w.quiet {
			if chunk = append(chunk, rec); len(chunk) == cap(chunk) {
				w.cfg.OnReplay(w.partition, chunk)
				chunk = make([]eventlog.Record, 0, 1024)
			}
		}
	}
	if len(chunk) > 0 {
		w.cfg.OnReplay(w.partition, chunk)
	}
	return nil
}

// fold folds one record into its account's slot, which nobody else can see yet.
func (w *writer) fold(rec eventlog.Record, reader *codec.Reader, e *domain.Event) error {
	id := domain.AccountID(rec.Account)
	s := w.slots[id]
	if s == nil {
		s = &slot{}
		w.slots[id] = s
	}
	e.Account = id // kept when it is the same, which saves a copy
	err := reader.Fold(rec.Data, e)
	if errors.Is(err, codec.ErrRecordVersion) {
		return fmt.Errorf("replay sequence %d of account %q: %w", rec.Seq, id, err)
	}
	w.join(s, id, rec, e, err)
	return nil
}

// follow is fold for one record that was read back, into a slot whose account
// is a clone.
func (w *writer) follow(s *slot, rec eventlog.Record) {
	e, err := codec.Decode(rec.Data)
	w.join(s, domain.AccountID(rec.Account), rec, &e, err)
}

// join adds a decoded record to the account's chain. What does not fit damages
// the account; its state still follows what the later records say.
func (w *writer) join(s *slot, id domain.AccountID, rec eventlog.Record, e *domain.Event, err error) {
	if err == nil && e.Account != id {
		err = fmt.Errorf("the record at sequence %d is of account %q", rec.Seq, e.Account)
	}
	if err != nil {
		s.hurt(fmt.Sprintf("sequence %d cannot be read: %v", rec.Seq, err))
		return
	}
	link := codec.Link{Hash: s.hash}
	if s.acct != nil {
		link.Version = s.acct.Version
	}
	if err := link.Check(rec.Seq, e); err != nil {
		s.hurt(err.Error())
	}
	s.acct = domain.Evolve(s.acct, e)
	s.hash, s.seq = codec.Hash(rec.Data), rec.Seq
}

// hurt marks a slot as damaged; the first reason stays.
func (s *slot) hurt(why string) {
	if s.damage == "" {
		s.damage = why
	}
}

// markDamaged marks an account that something outside the log's own chain (a
// scan of the block files, an archive) knows to have lost records.
func (w *writer) markDamaged(id domain.AccountID, why string) {
	s := w.slots[id]
	if s == nil {
		s = &slot{}
		w.slots[id] = s
	}
	s.hurt(why)
}
