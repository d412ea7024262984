package sim

import (
	"iter"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

// Judged plays a fleet and judges it on its virtual clock, as a server would have:
// the deadlines that are Muster's own fire in between. It keeps the accounts and
// no event.
type Judged struct {
	fleet    *Fleet
	judge    *domain.Judge
	accounts map[domain.AccountID]*domain.Account
	agenda   *domain.Agenda
	counts   map[domain.Outcome]int
	item     Item // that is judged; here, so that it is not allocated each time
}

// NewJudged makes a fleet that is judged by the built-in machines. The triggers
// carry the virtual clock's times: Stamp and Speed of cfg do not count.
func NewJudged(cfg Config) (*Judged, error) {
	cfg.Stamp, cfg.Speed = nil, 0
	fleet, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return judged(fleet, cfg.Accounts), nil
}

func judged(fleet *Fleet, accounts int) *Judged {
	return &Judged{
		fleet: fleet, judge: domain.NewJudge(lifecycle.Registry()), accounts: make(map[domain.AccountID]*domain.Account, accounts),
		agenda: domain.NewAgenda(), counts: map[domain.Outcome]int{},
	}
}

// Accounts are the accounts as folded so far; they must not be changed.
func (j *Judged) Accounts() map[domain.AccountID]*domain.Account { return j.accounts }

// Counts says how often each outcome came so far.
func (j *Judged) Counts() map[domain.Outcome]int { return j.counts }

// Now is the virtual clock.
func (j *Judged) Now() time.Time { return time.Unix(0, j.fleet.Now()).UTC() }

// Events gives what would be appended, without an end. Each event is the
// caller's.
func (j *Judged) Events() iter.Seq[*domain.Event] {
	return func(yield func(*domain.Event) bool) {
		for {
			j.item = j.fleet.Next()
			if !j.say(&j.item, yield) {
				return
			}
		}
	}
}

// say judges an item, behind the deadlines that were due before it.
func (j *Judged) say(item *Item, yield func(*domain.Event) bool) bool {
	if !j.fire(item.Virtual-1, yield) {
		return false
	}
	if item.Signal != NoSignal {
		return true
	}
	e := j.one(&item.Trigger, item.Virtual)
	return e == nil || yield(e)
}

// fire judges the deadlines that are due until then.
func (j *Judged) fire(end int64, yield func(*domain.Event) bool) bool {
	for {
		id, ok := j.agenda.PopDue(end)
		if !ok {
			return true
		}
		d, ok := j.judge.Due(j.accounts[id])
		if !ok {
			continue
		}
		if e := j.one(&d.Trigger, d.At); e != nil && !yield(e) {
			return false
		}
	}
}

// one judges a trigger and folds what came of it.
func (j *Judged) one(t *domain.Trigger, now int64) *domain.Event {
	a := j.accounts[t.Account]
	d := j.judge.Decide(a, t, now)
	j.counts[d.Verdict.Outcome]++
	if d.Beat != 0 && a != nil {
		a.Beat(t, d.Beat)
		j.agenda.Update(j.judge, a)
	}
	if d.Event == nil {
		return nil
	}
	a = domain.Evolve(a, d.Event)
	j.accounts[t.Account] = a
	j.agenda.Update(j.judge, a)
	return d.Event
}

// Events is the history of a fleet, without an end: NewJudged with all defaults
// but these. It panics when accounts is out of range.
func Events(seed uint64, accounts int) iter.Seq[*domain.Event] {
	j, err := NewJudged(Config{Accounts: accounts, Seed: seed})
	if err != nil {
		panic(err)
	}
	return j.Events()
}
