package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// maxTries is how often a trigger is judged again after losing its account to
// another writer.
const maxTries = 16

// reconcile brings an account whose append did not simply succeed back in step
// with the log, and gives each of its items a true answer: stored (found in the
// log byte for byte), judged again (another writer was there first), or an error.
func (w *writer) reconcile(now int64, d *draft) {
	cause := d.fail
	lag := resends{since: w.cfg.Now()}
	for round := 0; !errors.Is(cause, eventlog.ErrFailed); round++ {
		if cause = cmp.Or(w.set.Err(), cause); errors.Is(cause, eventlog.ErrFailed) {
			break // another account, or partition, has met it
		}
		foreign, err := w.catchUp(d)
		if err != nil {
			if errors.Is(err, eventlog.ErrFailed) {
				cause = err
				break
			}
			if !w.pause(round) {
				w.giveUp(d, fmt.Errorf("%w (%w)", ErrUndecided, err))
				return
			}
			continue
		}
		rest := unstored(d)
		switch {
		case len(rest) == 0:
			w.finish(now, d, nil)
			return
		case foreign || errors.Is(cause, eventlog.ErrConflict):
			w.finish(now, d, rest)
			return
		case errors.Is(cause, eventlog.ErrUnknown):
			if round > 0 && !w.pause(round) {
				w.giveUp(d, fmt.Errorf("%w (%w)", ErrUndecided, cause))
				return
			}
			cause = w.resendOnce(d, rest, cause, &lag)
		default:
			w.giveUp(d, cause)
			w.arm(d.id, d.slot)
			return
		}
	}
	w.set.fail(fmt.Errorf("partition %d: %w", w.partition, cause))
	w.giveUp(d, cause)
}

// resends counts how often the same bytes were sent again in vain.
type resends struct {
	since time.Time
	n     int
}

// A log that can be read but has let so many resends go unanswered for so long
// stores nothing more: a server goes on like that after a failed write.
const (
	stalledTries = 3
	stalledFor   = 15 * time.Second
)

// resendOnce sends what is not stored once more and returns what is known then.
func (w *writer) resendOnce(d *draft, rest []*item, cause error, lag *resends) error {
	if lag.n >= stalledTries && w.cfg.Now().Sub(lag.since) >= stalledFor {
		return fmt.Errorf("%w: it can be read, but what is sent is not stored; is the disk full? (%w)", eventlog.ErrFailed, cause)
	}
	lag.n++
	err := w.resend(d, rest)
	switch {
	case err == nil:
		return eventlog.ErrUnknown // the next look finds them stored
	case errors.Is(err, eventlog.ErrRefused): // these bytes are, but the first ones may still arrive
		return fmt.Errorf("%w (%v)", ErrUndecided, err)
	}
	return err
}

// catchUp reads what the log has behind the slot's position and folds it into
// the slot. Items of the draft whose bytes it finds are marked as stored;
// foreign says that a record of somebody else was among them.
func (w *writer) catchUp(d *draft) (foreign bool, err error) {
	rest := unstoredFrom(d, d.slot.seq)
	found := []*item{}
	tail := *d.slot
	tail.acct = cloneOf(d.slot.acct)
	for rec, err := range w.cfg.Log.Account(w.ctx, string(d.id), d.slot.seq+1) {
		if err != nil {
			return false, fmt.Errorf("read back account %q: %w", d.id, err)
		}
		w.follow(&tail, rec)
		if len(rest) > 0 && bytes.Equal(rest[0].record, rec.Data) {
			rest[0].seq = rec.Seq
			found = append(found, rest[0])
			rest = rest[1:]
		} else {
			foreign = true
		}
	}
	if tail.seq != d.slot.seq {
		if err := w.cfg.Log.Sync(w.ctx, w.partition); err != nil {
			for _, it := range found {
				it.seq = 0
			}
			return false, fmt.Errorf("sync after reading back account %q: %w", d.id, err)
		}
		w.public.change(func() { *d.slot = tail })
		w.last = max(w.last, tail.seq)
	}
	w.tell(found)
	return foreign, nil
}

func cloneOf(a *domain.Account) *domain.Account {
	if a == nil {
		return nil
	}
	return a.Clone()
}

// unstoredFrom is the draft's items with a record that lie behind seq: those
// that a read from there can still find.
func unstoredFrom(d *draft, seq uint64) []*item {
	var out []*item
	for _, it := range d.items {
		if it.record != nil && (it.seq == 0 || it.seq > seq) {
			out = append(out, it)
		}
	}
	return out
}

func unstored(d *draft) []*item { return unstoredFrom(d, ^uint64(0)) }

// resend offers the same bytes once more. The guard makes sure that they are
// stored once at most, whatever became of the first ones.
func (w *writer) resend(d *draft, rest []*item) error {
	entries := make([]eventlog.Entry, len(rest))
	for i, it := range rest {
		expect := eventlog.ExpectPrevious
		if i == 0 {
			expect = d.slot.seq
		}
		entries[i] = eventlog.Entry{Account: string(d.id), Expect: expect, Data: it.record}
	}
	for _, r := range w.cfg.Log.Append(w.ctx, w.partition, entries) {
		if r.Err != nil {
			if errors.Is(r.Err, eventlog.ErrConflict) {
				return eventlog.ErrUnknown // perhaps the first ones arrived: look again
			}
			return r.Err
		}
	}
	return nil
}

// finish answers what is stored and lets the rest be judged again.
func (w *writer) finish(now int64, d *draft, rest []*item) {
	d.slot.armed = now
	w.arm(d.id, d.slot)
	for _, it := range d.items {
		switch {
		case it.record != nil && it.seq != 0, it.record == nil && len(rest) == 0:
			w.answer(it, nil)
		case it.req == nil: // a deadline is due again if it still is
		case it.req.tries >= maxTries:
			w.answer(it, ErrContended)
		default:
			it.req.tries++
			w.again = append(w.again, it.req)
		}
	}
	w.forgetEmpty(d)
	if n := len(w.again); n > 0 && w.again[n-1].tries > 2 {
		w.sleep(time.Duration(rand.Int64N(int64(w.again[n-1].tries) * int64(time.Millisecond))))
	}
}

// giveUp answers what is not stored with err. In memory nothing has moved but
// what the log was seen to hold.
func (w *writer) giveUp(d *draft, err error) {
	for _, it := range d.items {
		if it.record != nil && it.seq != 0 && !errors.Is(err, eventlog.ErrFailed) && it.seq <= d.slot.seq {
			w.answer(it, nil)
			continue
		}
		w.answer(it, err)
	}
	w.forgetEmpty(d)
}

// forgetEmpty removes a slot that was made for an event which was not stored.
func (w *writer) forgetEmpty(d *draft) {
	if d.slot.acct == nil && d.slot.draft == nil && d.slot.damage == "" {
		w.public.change(func() { delete(w.slots, d.id) })
	}
}

// pause waits a little longer with each round; false means that the writer may
// wait no more.
func (w *writer) pause(round int) bool {
	return w.sleep(min(time.Duration(1<<min(round, 10))*10*time.Millisecond, 2*time.Second))
}

func (w *writer) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}
