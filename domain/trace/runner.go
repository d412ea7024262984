package trace

import (
	"slices"
	"strings"

	"github.com/musterhq/muster/domain"
)

// Runner is a trace in progress: accounts, their deadlines and the virtual
// clock. It is not safe for use from several goroutines.
type Runner struct {
	judge    *domain.Judge
	accounts map[domain.AccountID]*domain.Account
	agenda   *domain.Agenda
	now      int64
	started  bool // the clock shows a time
	recorded bool // the trace is an exported history: it has the deadlines that fired
	verdicts []Verdict
	counts   Counts
	events   []*domain.Event
}

// NewRunner returns a runner without accounts, whose clock does not run yet.
func NewRunner(judge *domain.Judge) *Runner {
	return &Runner{judge: judge, accounts: map[domain.AccountID]*domain.Account{}, agenda: domain.NewAgenda()}
}

// Now is the virtual clock, unix ns.
func (r *Runner) Now() int64 { return r.now }

// Account returns an account as folded so far, nil when it has no events.
func (r *Runner) Account(id domain.AccountID) *domain.Account { return r.accounts[id] }

// start sets the clock to the first time that can be read in the trace.
func (r *Runner) start(lines []line) {
	for i := range lines {
		if at, ok := clock(&lines[i].trigger); ok {
			r.now, r.started = at, true
			return
		}
	}
}

// clock is the time that a trigger moves the clock to; ok is false when it has none.
func clock(t *domain.Trigger) (at int64, ok bool) {
	if t.Recorded != 0 {
		return t.Recorded, true
	}
	return t.At, t.HasAt
}

// line moves the clock to the line's time and judges it.
func (r *Runner) line(l *line) {
	t := &l.trigger
	r.advance(t)
	switch {
	case l.err != nil:
		r.refuse(l, l.err)
	case !r.started:
		r.refuse(l, &domain.InvalidError{Field: "at", Reason: "is missing, and no line of the trace has a time"})
	case t.Source == domain.SourceMuster && !spoken(t.Name) && t.Recorded == 0:
		// The clock makes it again.
	default:
		r.judgeOne(l.number, t)
	}
}

// Feed moves the clock to the trigger's time and judges it; number is its line.
// A trigger without a time is judged at the clock's.
func (r *Runner) Feed(number int, t *domain.Trigger) domain.Decision {
	r.advance(t)
	return r.judgeOne(number, t)
}

// Advance moves the clock to a time and fires what is due before it. The clock
// never runs backwards.
func (r *Runner) Advance(at int64) { r.advance(&domain.Trigger{At: at, HasAt: true}) }

// Judge judges a trigger at the clock's time, whatever its own time is.
func (r *Runner) Judge(t *domain.Trigger) domain.Decision { return r.judgeOne(0, t) }

// advance moves the clock to the trigger's time and fires what is due before it.
func (r *Runner) advance(t *domain.Trigger) {
	at, ok := clock(t)
	if ok && (at > r.now || !r.started) {
		r.fireBetween(at - 1)
		r.now, r.started = at, true
		return
	}
	r.fireBetween(r.now - 1)
}

// fireBetween is Fire between lines.
func (r *Runner) fireBetween(end int64) {
	if !r.recorded {
		r.Fire(end)
	}
}

// spoken says whether a line of Muster's own is judged: what no clock can make.
func spoken(trigger string) bool {
	return slices.Contains([]string{"recover", "vouch_lost", "vouch_restored"}, trigger)
}

// Fire judges the deadlines that are due at end or before, each at its time, or
// at the clock's if that is later.
func (r *Runner) Fire(end int64) {
	for {
		id, ok := r.agenda.PopDue(end)
		if !ok {
			return
		}
		d, ok := r.judge.Due(r.accounts[id])
		if !ok {
			continue
		}
		r.now = max(r.now, d.At)
		d.Trigger.At = r.now
		r.judgeOne(0, &d.Trigger)
	}
}

// judgeOne judges a trigger at the clock's time and folds what came of it.
func (r *Runner) judgeOne(number int, t *domain.Trigger) domain.Decision {
	a := r.accounts[t.Account]
	d := r.judge.Decide(a, t, r.now)
	r.note(number, &d.Verdict)
	if d.Beat != 0 && a != nil {
		a.Beat(t, d.Beat)
		r.agenda.Update(r.judge, a)
	}
	if d.Event != nil {
		a = domain.Evolve(a, d.Event)
		r.accounts[t.Account] = a
		r.events = append(r.events, d.Event)
		r.agenda.Update(r.judge, a)
	}
	return d
}

func (r *Runner) refuse(l *line, err error) {
	v := domain.Refusal(&l.trigger, err)
	r.note(l.number, &v)
}

func (r *Runner) note(number int, v *domain.Verdict) {
	r.counts.add(v.Outcome)
	r.verdicts = append(r.verdicts, Verdict{Line: number, Account: string(v.Account), Key: v.Key, Trigger: v.Trigger, Outcome: v.Outcome.String(),
		From: v.From, To: v.To, Version: v.Version, Source: v.Source, Reason: v.Reason})
}

// Result says what came of everything so far.
func (r *Runner) Result() *Result {
	out := &Result{Accounts: map[string]domain.AccountView{}, Verdicts: slices.Clone(r.verdicts), Counts: r.counts, Events: slices.Clone(r.events)}
	if out.Verdicts == nil {
		out.Verdicts = []Verdict{}
	}
	for id, a := range r.accounts {
		if !a.Forgotten {
			out.Accounts[string(id)] = r.judge.Describe(a)
		}
		out.Fold = append(out.Fold, a)
	}
	slices.SortFunc(out.Fold, func(a, b *domain.Account) int { return strings.Compare(string(a.ID), string(b.ID)) })
	out.Digest = domain.Digest(out.Fold)
	return out
}

// Events lists what was appended so far, in order. The slice must not be changed.
func (r *Runner) Events() []*domain.Event { return r.events }
