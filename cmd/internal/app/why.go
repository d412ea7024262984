package app

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/explain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// The bounds of the evidence.
const (
	lookBack    = 200 // events that are looked at for the last move
	refusedKept = 5   // rejected and stale ones that are shown
)

// why answers where an account is and what it waits for. The state is that of
// the account's writer; what compares it with others comes from the views, once
// they have seen as much.
func (a *App) why(ctx context.Context, r api.WhyRequest) (any, error) {
	id, err := accountID(r.Account)
	if err != nil {
		return nil, err
	}
	l, err := a.look(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := a.wait(ctx, api.AsOf{l.Partition: l.Seq}); err != nil {
		return nil, err
	}
	answer := a.whyOf(l, time.Now())
	if err := answer.evidence(a.events.Back(ctx, r.Account, l.Seq)); err != nil {
		return nil, fmt.Errorf("read the events of account %q: %w", id, err)
	}
	return answer.Why, nil
}

// whyAnswer is the answer while it is being made.
type whyAnswer struct{ api.Why }

// whyOf is what memory knows.
func (a *App) whyOf(l command.Look, now time.Time) *whyAnswer {
	acct := l.Account
	facts := explain.Facts{Judge: a.judge, Account: acct, Damage: l.Damage, Now: now.UnixNano()}
	if stay, ok := a.views.stays.Of(acct.ID); ok && stay.State == acct.State {
		facts.Reason = stay.Reason
	}
	e := explain.Account(facts)
	view := a.judge.Describe(acct)
	w := &whyAnswer{api.Why{
		Account: string(acct.ID), Sentence: e.Sentence, WaitsFor: e.WaitsFor, WhoActs: string(e.Who),
		Machine: acct.Machine, Mode: acct.Mode, Desired: acct.Desired, State: acct.State, Class: view.Class, Since: view.Since,
		For: seconds(now.Sub(time.Unix(0, acct.Since))), Reason: facts.Reason, Conditions: view.Conditions, Can: view.Can,
		Attention: advice(view.Attention, l.Damage), Damage: l.Damage, AsOf: api.AsOf{l.Partition: l.Seq},
	}}
	w.Source = a.sourceOf(acct, now)
	w.Retries = a.retriesOf(acct)
	if d, ok := a.judge.Due(acct); ok {
		w.Next = deadlineOf(&d, now)
	}
	w.Dwell = a.dwellOf(acct, now)
	w.Others.InState, w.Others.SameReason = a.views.stays.Now(acct.Machine, acct.State, facts.Reason)
	w.Others.InState, w.Others.SameReason = max(0, w.Others.InState-1), max(0, w.Others.SameReason-1)
	return w
}

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// advice says what is to be done about each kind of attention.
func advice(kinds []string, damage string) []api.AttentionAdvice {
	if damage != "" {
		kinds = append(slices.Clone(kinds), domain.AttentionDamaged)
	}
	list := make([]api.AttentionAdvice, 0, len(kinds))
	for _, name := range kinds {
		k := domain.AttentionNamed(name)
		list = append(list, api.AttentionAdvice{Kind: name, About: k.About, Do: k.Do})
	}
	return list
}

// sourceOf is who stands behind an account's state.
func (a *App) sourceOf(acct *domain.Account, now time.Time) api.SourceFacts {
	s := api.SourceFacts{Name: acct.Source, Epoch: acct.Epoch}
	for _, h := range acct.Sources {
		if h.Source == acct.Source {
			age := seconds(now.Sub(time.Unix(0, h.At)))
			s.LastWord, s.Age = domain.FormatTime(h.At), &age
		}
	}
	for _, w := range a.workers.Workers() {
		if w.Name == acct.Source {
			s.Worker = &api.Worker{
				Name: w.Name, Boot: w.Boot, State: string(w.State), LastBeat: domain.FormatTime(w.Seen.UnixNano()),
				BeatAge: seconds(now.Sub(w.Seen)), BeatEvery: w.Every.Seconds(),
			}
		}
	}
	return s
}

func (a *App) retriesOf(acct *domain.Account) (r api.Retries) {
	m, ok := a.opts.Machines.Get(acct.Machine)
	if !ok {
		return r
	}
	if rule, _, ok := m.Retry(); ok && acct.Mode == domain.ModeSupervise {
		r.Most = rule.Tries
	}
	if t := acct.Trouble; t != nil {
		r.Done, r.Last = t.Tries, timeOrNone(t.LastTry)
	}
	return r
}

func deadlineOf(d *domain.Deadline, now time.Time) *api.Deadline {
	out := &api.Deadline{Trigger: d.Trigger.Name, At: domain.FormatTime(d.At), In: seconds(time.Unix(0, d.At).Sub(now)), About: d.Trigger.Key}
	for _, name := range []string{"condition", "ticket"} {
		if text, ok := d.Trigger.Data[name].(string); ok {
			out.About = text
		}
	}
	if scope, ok := d.Trigger.Data["scope"].(string); ok && scope != "" {
		out.About += "/" + scope
	}
	return out
}

// dwellOf compares an account's time in its state with stays that have ended.
func (a *App) dwellOf(acct *domain.Account, now time.Time) api.Dwell {
	lengths := a.views.stays.Ended(acct.Machine, acct.State)
	d := api.Dwell{Stays: lengths.N}
	quantile := func(q float64) *float64 {
		length, ok := lengths.Quantile(q)
		if !ok {
			return nil
		}
		s := seconds(length)
		return &s
	}
	d.Median, d.P95 = quantile(0.5), quantile(0.95)
	if share, ok := lengths.Shorter(now.Sub(time.Unix(0, acct.Since))); ok {
		d.Longer = &share
	}
	return d
}

// evidence goes back from the last event to the last one that moved the state, and
// reads none beyond it.
func (w *whyAnswer) evidence(back iter.Seq2[eventlog.Record, error]) error {
	w.After = api.AfterMove{Refused: []api.Event{}, Whole: true}
	for rec, err := range back {
		if err != nil {
			return err
		}
		if w.After.Looked == lookBack {
			w.After.Whole = false
			return nil
		}
		w.After.Looked++
		if moved := w.look(&rec); moved {
			return nil
		}
	}
	return nil
}

// look counts one event, and says whether it moved the state.
func (w *whyAnswer) look(rec *eventlog.Record) (moved bool) {
	e, err := codec.Decode(rec.Data)
	switch {
	case err != nil, e.Outcome != domain.Applied && (e.Kind == domain.KindMessage || e.Kind == domain.KindConversation):
		return false
	case e.Outcome == domain.Applied:
		if moved = e.Kind == domain.KindSession || e.Kind == domain.KindMark; moved {
			event := bus.RecordView(rec)
			w.Progress = &event
		}
		return moved
	case e.Outcome == domain.Noop:
		w.After.Noop++
		return false
	case e.Outcome == domain.Rejected:
		w.After.Rejected++
	default:
		w.After.Stale++
	}
	if len(w.After.Refused) < refusedKept {
		w.After.Refused = append(w.After.Refused, bus.RecordView(rec))
	}
	return false
}
