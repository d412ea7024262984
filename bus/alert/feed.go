package alert

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// Source gives a partition's records behind a sequence, in order and without an
// end, until ctx ends.
type Source interface {
	Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error]
}

// LookFunc returns an account as it is now, folded at least as far as the log can
// be read, and why its history is not whole ("" = it is). nil: nothing is stored
// of it. The account must not be changed.
type LookFunc func(ctx context.Context, id domain.AccountID) (a *domain.Account, damage string, err error)

// feed turns a partition's events into what their accounts need.
type feed struct {
	partition int
	source    Source
	look      LookFunc
	judge     *domain.Judge
	out       chan<- Seen
	reader    *codec.Reader
	silent    int // records since the last one that was passed on
}

// placeEvery is after how many records without interest the position is noted.
const placeEvery = 4096

// lookWithin is how long the fold of an account may be behind the log.
const lookWithin = 10 * time.Second

// run follows the partition until ctx ends. Its error says what went wrong; done
// is then the last sequence that was dealt with.
func (f *feed) run(ctx context.Context, after uint64) (done uint64, err error) {
	done = after
	for rec, err := range f.source.Follow(ctx, f.partition, after) {
		if err != nil {
			return done, err
		}
		if err := f.record(ctx, &rec); err != nil {
			return done, err
		}
		done = rec.Seq
	}
	return done, nil
}

func (f *feed) record(ctx context.Context, rec *eventlog.Record) error {
	var e domain.Event
	if err := f.reader.Read(rec.Data, &e); err != nil || !interesting(&e) {
		// What cannot be read makes the account damaged, which its writer tells.
		f.silent++
		if f.silent < placeEvery {
			return nil
		}
		return f.pass(ctx, Seen{Partition: f.partition, Seq: rec.Seq})
	}
	id := domain.AccountID(rec.Account)
	a, damage, err := f.upTo(ctx, id, e.Version)
	if err != nil {
		return err
	}
	s := seenOf(f.judge, id, a, damage, &e)
	s.Partition, s.Seq = f.partition, rec.Seq
	return f.pass(ctx, s)
}

func (f *feed) pass(ctx context.Context, s Seen) error {
	f.silent = 0
	select {
	case f.out <- s:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errBehind = errors.New("the account's fold stays behind its log")

// upTo looks at an account that is folded at least up to a version: a record can
// be read a moment before its writer shows what it has made of it.
func (f *feed) upTo(ctx context.Context, id domain.AccountID, version uint64) (a *domain.Account, damage string, err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, lookWithin, errBehind)
	defer cancel()
	for {
		a, damage, err = f.look(bounded, id)
		if err != nil || damage != "" || (a != nil && a.Version >= version) {
			return a, damage, err
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-bounded.Done():
			return nil, "", fmt.Errorf("look at %s: %w", id, context.Cause(bounded))
		}
	}
}

// interesting says whether an event can begin or end a need.
func interesting(e *domain.Event) bool {
	const alters = domain.EffectWantRun | domain.EffectWantStop | domain.EffectForget | domain.EffectRevive |
		domain.EffectClosesTurns | domain.EffectClaim | domain.EffectAsksLogin
	switch {
	case len(e.Set) > 0 || len(e.Ended) > 0 || e.Effects&alters != 0:
		return true
	case e.Outcome == domain.Stale || e.Outcome == domain.Rejected || e.Kind == domain.KindMessage:
		return false
	case e.Kind == domain.KindConversation:
		return e.From != e.To || e.Trigger == domain.AttentionNobodyAnswering
	}
	return e.From != e.To || e.Kind == domain.KindMark || e.Kind == domain.KindAccount
}

// seenOf is what an account needs, looked at because of an event.
func seenOf(j *domain.Judge, id domain.AccountID, a *domain.Account, damage string, e *domain.Event) Seen {
	s := Seen{Account: id}
	last := true
	if e != nil {
		s.At, s.Trace = e.Recorded, e.Traceparent
	}
	if a != nil {
		s.Source, s.Labels = a.Source, a.Labels
		last = e != nil && a.Version == e.Version
		if !a.Forgotten {
			for _, kind := range j.Attention(a) {
				s.Needs = append(s.Needs, needOf(a, kind, e, last))
			}
		}
	}
	if damage != "" {
		s.Needs = append(s.Needs, Need{Kind: domain.AttentionDamaged, Since: s.At, New: true, Loose: true})
	}
	return s
}

// needOf is one need. Its reason is that of the condition, or the reason code or
// trigger of the event that began it.
func needOf(a *domain.Account, kind string, e *domain.Event, last bool) Need {
	why := ""
	if e != nil {
		if why = e.Reason.Code; why == "" {
			why = e.Trigger
		}
	}
	n := Need{Kind: kind, Reason: why}
	if kind == domain.AttentionNobodyAnswering {
		n.Loose = true
		if e != nil {
			n.Since, n.New = e.At, last
		}
		return n
	}
	at := slices.IndexFunc(a.Conditions, func(c domain.Condition) bool { return c.Name == kind })
	if at < 0 { // the state asks for it
		n.Since = a.Since
		n.New = last || (e != nil && e.From != e.To && e.To == a.State)
		return n
	}
	c := &a.Conditions[at]
	n.Since = c.Since
	n.New = last || (e != nil && slices.ContainsFunc(e.Set, func(c domain.Condition) bool { return c.Name == kind }))
	switch {
	case c.Reason != "":
		n.Reason = c.Reason
	case kind == "stuck":
		n.Reason = a.State
	}
	return n
}
