package command

import (
	"slices"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// batch is one group on its way through the writer.
type batch struct {
	now     int64
	items   []*item
	drafts  []*draft
	entries []eventlog.Entry // of the items with a record, in order
	bytes   int              // of all records
	buf     []byte           // the records' bytes since it was last made; never reused, readers may keep them
}

// current is the account as the next trigger of this group must see it.
func (s *slot) current() *domain.Account {
	switch {
	case s == nil:
		return nil
	case s.draft != nil:
		return s.draft.acct
	default:
		return s.acct
	}
}

// judge judges one request against what the log and this group say so far.
func (w *writer) judge(b *batch, r *request) {
	s := w.slots[r.trigger.Account]
	if s != nil && s.damage != "" {
		w.tellCaller(r, Answer{Partition: w.partition, Err: &DamagedError{r.trigger.Account, s.damage}})
		return
	}
	it := &item{req: r, decision: w.cfg.Judge.Decide(s.current(), &r.trigger, b.now)}
	w.take(b, r.trigger.Account, s, it)
}

// fire judges the deadlines that are due. It comes after the group's requests:
// a fact that came in time must not be overtaken by its own deadline.
func (w *writer) fire(b *batch) {
	if w.holding(b.now) {
		return
	}
	for len(b.items) < w.cfg.GroupMax {
		id, ok := w.agenda.PopDue(b.now)
		if !ok {
			return
		}
		s := w.slots[id]
		d, ok := w.cfg.Judge.Due(s.current())
		if !ok || d.At > b.now {
			// The group's own requests have moved it: it is armed again when they are
			// stored. What is stored now would be due as before, without end.
			if s.draft == nil {
				w.arm(id, s)
			}
			continue
		}
		t := &w.own
		*t = d.Trigger
		t.Account, t.Source = id, domain.SourceMuster
		t.At, t.HasAt = max(d.At, s.armed, w.opened), true
		t.Expect = domain.NoExpect
		it := &item{decision: w.cfg.Judge.Decide(s.current(), t, b.now), fired: dueOf(&d)}
		if it.decision.Event == nil {
			w.cfg.Logger.Error("a deadline was not accepted by the judge and is dropped", "account", id,
				"trigger", t.Name, "outcome", it.decision.Verdict.Outcome.String(), "reason", it.decision.Verdict.Reason)
			continue
		}
		w.take(b, id, s, it)
	}
}

// holding says whether deadlines still wait for facts that came before them.
func (w *writer) holding(now int64) bool {
	if w.held == nil {
		return false
	}
	select {
	case <-w.held:
		w.held, w.opened = nil, now
		return false
	default:
		return true
	}
}

// take puts a judged item into the group and, when it has an event, folds that
// into the account's draft.
func (w *writer) take(b *batch, id domain.AccountID, s *slot, it *item) {
	if it.decision.Event == nil {
		b.items = append(b.items, it)
		w.beat(id, s, it)
		if s != nil && s.draft != nil { // its verdict leans on what is not stored yet
			it.draft = s.draft
			s.draft.items = append(s.draft.items, it)
		}
		return
	}
	if err := w.encode(b, s, it); err != nil {
		w.refuse(id, it, err)
		return
	}
	b.items = append(b.items, it)
	if s == nil {
		s = &slot{armed: b.now}
		w.public.change(func() { w.slots[id] = s })
	}
	expect := eventlog.ExpectPrevious
	if s.draft == nil {
		s.draft = &draft{id: id, slot: s, hash: s.hash}
		if s.acct != nil {
			s.draft.acct = s.acct.Clone()
		}
		b.drafts = append(b.drafts, s.draft)
		expect = s.seq
	}
	d := s.draft
	it.draft = d
	d.items = append(d.items, it)
	d.acct = domain.Evolve(d.acct, it.decision.Event)
	d.hash = codec.Hash(it.record)
	b.entries = append(b.entries, eventlog.Entry{Account: string(id), Expect: expect, Data: it.record})
}

// encode writes the item's record, behind the account's last one.
func (w *writer) encode(b *batch, s *slot, it *item) error {
	e := it.decision.Event
	e.Writer, e.Prev = w.cfg.Writer(w.partition), s.tip()
	if cap(b.buf)-len(b.buf) < usualRecord {
		b.buf = make([]byte, 0, min(max(w.usual, usualRecord), mostBuffer))
	}
	start := len(b.buf)
	buf, err := codec.AppendRecord(b.buf, e)
	if err != nil {
		return err // the judge let something through that no record can hold
	}
	if size := len(buf) - start; w.cfg.MaxRecord > 0 && size > w.cfg.MaxRecord {
		return &TooLargeError{e.Account, size, w.cfg.MaxRecord}
	}
	b.buf = buf
	b.bytes += len(buf) - start
	it.record = slices.Clip(buf[start:])
	return nil
}

// The records of a group are written into buffers one after the other, so that
// none is copied when the next needs room: the first as large as the last group,
// each up to a bound.
const (
	usualRecord = 512 // more than most records take
	mostBuffer  = 64 << 10
)

// tip is the hash of the account's last record, those of this group included.
func (s *slot) tip() (hash [16]byte) {
	switch {
	case s == nil:
		return hash
	case s.draft != nil:
		return s.draft.hash
	default:
		return s.hash
	}
}

// refuse answers an item that cannot be stored. Those of its account before and
// behind it are not concerned.
func (w *writer) refuse(id domain.AccountID, it *item, err error) {
	if it.req == nil {
		w.cfg.Logger.Error("a deadline cannot be stored and is dropped", "account", id, "trigger", it.decision.Verdict.Trigger, "error", err)
		return
	}
	w.tellCaller(it.req, Answer{Partition: w.partition, Err: err})
}

// beat notes a heartbeat, of which nothing is stored.
func (w *writer) beat(id domain.AccountID, s *slot, it *item) {
	switch {
	case it.decision.Beat == 0 || s == nil:
	case s.draft != nil:
		s.draft.acct.Beat(&it.req.trigger, it.decision.Beat)
	case s.acct != nil:
		c := s.acct.Clone()
		c.Beat(&it.req.trigger, it.decision.Beat)
		w.public.change(func() { s.acct = c })
		w.arm(id, s)
	}
}

// arm puts the account's next deadline on the agenda and returns it. A slot
// without an account has none.
func (w *writer) arm(id domain.AccountID, s *slot) (next domain.Deadline, ok bool) {
	if s != nil && s.acct != nil && s.damage == "" {
		next, ok = w.cfg.Judge.Due(s.acct)
	}
	if ok {
		w.agenda.Set(id, next)
	} else {
		w.agenda.Remove(id)
	}
	return next, ok
}
