package command

import (
	"cmp"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// settle makes the group's stored events the accounts' states and answers the
// callers. Accounts with a failure are reconciled with the log, each by itself.
func (w *writer) settle(b *batch) {
	w.public.change(func() {
		for _, d := range b.drafts {
			d.slot.draft = nil
			if d.fail == nil {
				d.slot.acct, d.slot.hash, d.slot.seq = d.acct, d.hash, d.seq
			}
		}
	})
	for _, d := range b.drafts {
		if d.fail == nil {
			w.keep(b.now, d)
		}
	}
	w.publish(b)
	for _, it := range b.items {
		if it.draft == nil || it.draft.fail == nil {
			w.answer(it, nil)
		}
	}
	for _, d := range b.drafts {
		if d.fail != nil {
			w.reconcile(b.now, d)
		}
	}
}

// keep is what follows when a draft has become the account's state.
func (w *writer) keep(now int64, d *draft) {
	s := d.slot
	s.armed = now
	next, ok := w.arm(d.id, s)
	for _, it := range d.items {
		if it.req == nil && ok && dueOf(&next) == it.fired {
			w.dropStuck(d.id, s, it.fired)
		}
	}
	w.saved.events += len(d.items)
}

// dropStuck guards against a deadline that, once judged, is due again as it was:
// it would fire for ever.
func (w *writer) dropStuck(id domain.AccountID, s *slot, fired dueKey) {
	w.agenda.Remove(id)
	w.cfg.Logger.Error("a deadline did not go away when it was judged and is dropped",
		"account", id, "trigger", fired.name, "state", s.acct.State)
}

// publish hands the group's stored records and events to who asked for them.
func (w *writer) publish(b *batch) {
	if w.cfg.OnCommit == nil && w.cfg.OnEvents == nil {
		return
	}
	stored := make([]*item, 0, len(b.entries))
	for _, it := range b.items {
		if it.seq != 0 {
			stored = append(stored, it)
		}
	}
	w.tell(stored)
}

func (w *writer) tell(stored []*item) {
	if len(stored) == 0 {
		return
	}
	slices.SortFunc(stored, func(a, b *item) int { return cmp.Compare(a.seq, b.seq) })
	if w.cfg.OnCommit != nil {
		records := make([]eventlog.Record, len(stored))
		for i, it := range stored {
			e := it.decision.Event
			records[i] = eventlog.Record{
				Partition: w.partition, Seq: it.seq, Account: string(e.Account), Data: it.record, Time: e.Recorded,
			}
		}
		w.cfg.OnCommit(w.partition, records)
	}
	if w.cfg.OnEvents != nil {
		events := make([]*domain.Event, len(stored))
		for i, it := range stored {
			events[i] = it.decision.Event
		}
		w.cfg.OnEvents(w.partition, events)
	}
}

// answer tells the caller, if there is one.
func (w *writer) answer(it *item, err error) {
	if it.req == nil {
		return
	}
	a := Answer{Partition: w.partition, Seq: it.seq, Err: err}
	if err == nil {
		a.Verdict = it.decision.Verdict
		if a.Seq == 0 {
			a.Seq = w.last
		}
	}
	w.tellCaller(it.req, a)
}

// tellCaller gives a caller its answer.
func (w *writer) tellCaller(r *request, a Answer) {
	r.done(a)
	if w.cfg.Observer != nil {
		w.cfg.Observer.Answered(a.Verdict.Outcome, a.Err, time.Since(r.came))
	}
}
