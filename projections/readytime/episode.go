package readytime

import (
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
)

// What the rules need to know by name: the two words that no class tells.
const (
	triggerLogout  = "logout"
	triggerAdopt   = "adopt"
	stateLoggedOut = "LOGGED_OUT"
)

// step is one applied change of an account, as the rules see it.
type step struct {
	from, to string // classes
	logout   bool
	adopt    bool
	forget   bool
}

// stepOf reduces an event that moved an account between two classes.
func stepOf(from, to string, e *domain.Event) step {
	return step{
		from:   from,
		to:     to,
		logout: e.Trigger == triggerLogout || e.To == stateLoggedOut,
		adopt:  e.Trigger == triggerAdopt,
		forget: e.Effects&domain.EffectForget != 0,
	}
}

// begins says which kind of episode a step begins for an account that is in
// none; 0: none. onboarded: the account was ready before, or was adopted.
func (s step) begins(onboarded bool) Kind {
	if s.logout || s.adopt || s.forget {
		return 0
	}
	switch s.to {
	case machine.ClassStarting, machine.ClassHuman:
		if !onboarded {
			return Onboarding
		}
	case machine.ClassDown, machine.ClassRecovering:
		if !onboarded {
			return 0
		}
	default:
		return 0
	}
	if s.from == machine.ClassReady || s.from == machine.ClassLimited {
		return Recovery
	}
	return 0
}

// ends says how a step ends the episode that the account is in; 0: it goes on.
func (s step) ends() End {
	switch {
	case s.forget, s.logout:
		return Abandoned
	case s.to == machine.ClassReady:
		return Reached
	case s.to == machine.ClassStopped, s.to == machine.ClassIdle:
		return Abandoned
	}
	return 0
}
