package alert

import (
	"context"
	"time"

	"github.com/musterhq/muster/bus/operator"
	"github.com/musterhq/muster/domain"
)

// load brings back what was decided, what operators did, and what is open.
func (e *Engine) load(ctx context.Context) error {
	st, err := e.journal.load(ctx)
	if err != nil {
		return err
	}
	e.core = newCore(e.cfg.Settings, st, e.describe, time.Now())
	if err := e.loadActions(ctx); err != nil {
		return err
	}
	switch {
	case len(e.cfg.Settings.Endpoints) == 0:
		e.core.turn(false)
	case !e.core.on():
		err = e.turnOn(ctx)
	default:
		err = e.look(ctx)
	}
	if err != nil {
		return err
	}
	if err := e.lookAtDamaged(ctx); err != nil {
		return err
	}
	return e.store(ctx, time.Now())
}

// turnOn begins now: what stands already is noted and not told.
func (e *Engine) turnOn(ctx context.Context) error {
	now := time.Now()
	at, err := e.cfg.Accounts(ctx, func(a *domain.Account) {
		s := seenOf(e.cfg.Judge, a.ID, a, "", nil)
		for i := range s.Needs {
			s.Needs[i].New = true
		}
		if s.Quiet = true; len(s.Needs) > 0 {
			e.core.observe(&s, now)
		}
	})
	if err != nil {
		return err
	}
	for p, seq := range at {
		e.core.place(p, seq)
	}
	e.core.turn(true)
	e.log.Info("alerts are turned on; what needed somebody before is not told", "known", len(e.core.st.items))
	return nil
}

// look brings what was loaded in line with the accounts as they are: the log may
// have been cut back behind the journal, and what ended is not told as open.
func (e *Engine) look(ctx context.Context) error {
	for p := range e.cfg.Log.Partitions() {
		info, err := e.cfg.Log.Info(ctx, p)
		if err != nil {
			return err
		}
		if e.core.st.positions[p] > info.Last {
			e.core.place(p, info.Last)
		}
	}
	for _, i := range e.core.itemsInOrder() {
		id := domain.AccountID(i.Account)
		a, damage, err := e.cfg.Look(ctx, id)
		if err != nil {
			return err
		}
		s := seenOf(e.cfg.Judge, id, a, damage, nil)
		for n := range s.Needs {
			s.Needs[n].New = false
		}
		e.core.observe(&s, time.Now())
	}
	return nil
}

// lookAtDamaged notes accounts whose damage was found at the start.
func (e *Engine) lookAtDamaged(ctx context.Context) error {
	if len(e.cfg.Settings.Endpoints) == 0 {
		return nil
	}
	now := time.Now()
	for _, id := range e.cfg.Damaged {
		a, damage, err := e.cfg.Look(ctx, id)
		if err != nil {
			return err
		}
		s := seenOf(e.cfg.Judge, id, a, damage, nil)
		if s.At = now.UnixNano(); a != nil {
			s.Seq = a.Version
		}
		for n := range s.Needs {
			if s.Needs[n].New = s.Needs[n].Kind == domain.AttentionDamaged; s.Needs[n].New {
				s.Needs[n].Since = s.At
			}
		}
		e.core.observe(&s, now)
	}
	return nil
}

// loadActions takes in what operators did until now, and follows what they do.
func (e *Engine) loadActions(ctx context.Context) error {
	last, err := e.cfg.Actions.Last(ctx)
	if err != nil {
		return err
	}
	done := uint64(0)
	if last > 0 {
		for entry, err := range e.cfg.Actions.Follow(ctx, 0) {
			if err != nil {
				return err
			}
			e.action(&entry, time.Now())
			if done = entry.Seq; done >= last {
				break
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.wg.Go(func() { e.followActions(ctx, done) })
	return nil
}

func (e *Engine) action(entry *operator.Entry, now time.Time) {
	if entry.Err != nil {
		e.log.Warn("an operator's action cannot be read and is skipped", "error", entry.Err)
		return
	}
	e.core.act(entry.Action, now)
}

func (e *Engine) followActions(ctx context.Context, after uint64) {
	for ctx.Err() == nil {
		for entry, err := range e.cfg.Actions.Follow(ctx, after) {
			if err != nil {
				e.log.Warn("the operators' log cannot be followed; trying on", "error", err)
				break
			}
			after = entry.Seq
			select {
			case e.work <- func(now time.Time) { e.action(&entry, now) }:
			case <-ctx.Done():
			}
		}
		rest(ctx)
	}
}
