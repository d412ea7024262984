package reconcile

import (
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
)

// calmFor is how long a server is given to do what its operator asked for.
const calmFor = time.Minute

// calm says that an account was stopped by its operator a moment ago, and its
// server may not have come to it yet.
func calm(a *domain.Account, s session, at int64) bool {
	return a != nil && s.up && a.State == connector.Stopped && a.Desired == domain.DesiredStop && at-a.Since < int64(calmFor)
}

// try judges triggers on a copy of the account, one after the other, and calls f
// with each verdict and the account before it, until f says false.
func (s *source) try(a *domain.Account, triggers []domain.Trigger, f func(before *domain.Account, e *domain.Event) bool) {
	if a != nil {
		a = a.Clone()
	}
	now := s.sh.cfg.Now().UnixNano()
	for i := range triggers {
		d := s.sh.cfg.Judge.Decide(a, &triggers[i], now)
		if d.Event == nil {
			continue
		}
		if !f(a, d.Event) {
			return
		}
		if a != nil {
			a = a.Clone()
		}
		a = domain.Evolve(a, d.Event)
	}
}

// differs says whether triggers would change anything of an account: its state,
// or a condition.
func (s *source) differs(a *domain.Account, triggers []domain.Trigger) bool {
	found := false
	s.try(a, triggers, func(before *domain.Account, e *domain.Event) bool {
		found = e.Outcome == domain.Applied || len(e.Ended) > 0 || setsAnew(before, e)
		return !found
	})
	return found
}

// moves says whether triggers would change the account's state.
func (s *source) moves(a *domain.Account, triggers []domain.Trigger) bool {
	found := a == nil
	s.try(a, triggers, func(_ *domain.Account, e *domain.Event) bool {
		found = found || e.Outcome == domain.Applied
		return !found
	})
	return found
}

// setsAnew says whether an event sets a condition that does not stand just so.
func setsAnew(a *domain.Account, e *domain.Event) bool {
	for _, c := range e.Set {
		if !standsSo(a, c) {
			return true
		}
	}
	return false
}

func standsSo(a *domain.Account, c domain.Condition) bool {
	if a == nil {
		return false
	}
	for _, old := range a.Conditions {
		if old.Name == c.Name && old.Scope == c.Scope {
			return old.Until == c.Until && old.Reason == c.Reason
		}
	}
	return false
}

func doubt(name string) bool { return name == machine.Unverified || name == machine.Unvouched }

// doubted says that it is not sure whether the account is still what it was: it
// is marked so, or will be, because nobody has spoken of it since this process
// began.
func (s *source) doubted(a *domain.Account) bool {
	for _, c := range a.Conditions {
		if doubt(c.Name) {
			return true
		}
	}
	if s.markOf(a).heard >= s.sh.began.UnixNano() {
		return false
	}
	m, ok := s.sh.cfg.Judge.Machines().Get(a.Machine)
	if !ok {
		return false
	}
	_, moves := m.Recover(a.State)
	return moves
}

// confirmation is a trigger that says that the account is what it was, and does
// nothing else: that of its status, or, for an account that is up and said to be,
// one that is legal in its state. nil: there is none.
func (s *source) confirmation(a *domain.Account, t domain.Trigger, up bool, triggers []domain.Trigger) []domain.Trigger {
	tries := [][]domain.Trigger{triggers}
	if up {
		tries = append(tries, connector.One(t, "connection_ready"), connector.One(t, "start"))
	}
	for _, one := range tries {
		if len(one) == 1 && s.harmless(a, one) {
			return one
		}
	}
	return nil
}

// harmless says that triggers would be legal, and end nothing but doubts.
func (s *source) harmless(a *domain.Account, triggers []domain.Trigger) bool {
	good := false
	s.try(a, triggers, func(_ *domain.Account, e *domain.Event) bool {
		good = e.Outcome == domain.Noop && len(e.Set) == 0
		for _, c := range e.Ended {
			good = good && doubt(c.Name)
		}
		return good
	})
	return good
}
