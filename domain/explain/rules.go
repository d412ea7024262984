package explain

import (
	"fmt"
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
)

// subject is one account, with what the rules ask of it.
type subject struct {
	j      *domain.Judge
	a      *domain.Account
	m      *machine.Machine // nil: not known to this process
	class  string
	wanted bool // the operator wants it to run
	reason string
	damage string
	next   domain.Deadline
	due    bool // there is a next
}

// verdict is what the rules find.
type verdict struct {
	is       string // a clause: how it is
	waitsFor string
	who      Who
}

func newSubject(f Facts) *subject {
	s := &subject{j: f.Judge, a: f.Account, class: f.Judge.Class(f.Account), wanted: f.Account.Desired == domain.DesiredRun, damage: f.Damage}
	s.m, _ = f.Judge.Machines().Get(f.Account.Machine)
	s.next, s.due = f.Judge.Due(f.Account)
	if f.Reason != "" {
		s.reason = "because of " + f.Reason
	}
	return s
}

// condition returns a standing condition, in whatever scope.
func (s *subject) condition(name string) (domain.Condition, bool) {
	for _, one := range s.a.Conditions {
		if one.Name == name {
			return one, true
		}
	}
	return domain.Condition{}, false
}

func (s *subject) has(name string) bool {
	_, ok := s.condition(name)
	return ok
}

// verdict applies the rules: first those that hold whatever the state is, then
// those of the class of the state.
func (s *subject) verdict() verdict {
	switch {
	case s.damage != "":
		return verdict{"its history is not whole (" + s.damage + "), so its writes are refused", "the missing records to be put back from an archive", Person}
	case s.a.Forgotten:
		return verdict{"it was forgotten: it is not listed, and no deadline of it fires", "", Nobody}
	case s.m == nil:
		return verdict{"this server does not know its machine " + s.a.Machine, "the file that defines the machine", Person}
	}
	switch s.class {
	case machine.ClassIdle:
		return s.idle()
	case machine.ClassStarting:
		return s.starting()
	case machine.ClassHuman:
		return s.human()
	case machine.ClassReady, machine.ClassLimited:
		return s.up()
	case machine.ClassDown:
		return s.down()
	case machine.ClassRecovering:
		return s.late(verdict{"it is reconnecting", "its connector to report whether that worked", Connector})
	case machine.ClassStopped:
		return s.stopped()
	}
	return verdict{"its machine " + s.a.Machine + " has no such state any more", "the file that defines the machine as it was", Person}
}

// late makes a person look when it takes longer than it should.
func (s *subject) late(v verdict) verdict {
	if s.has(machine.Stuck) {
		v.is += ", and that takes longer than it should"
		v.who = Person
	}
	return v
}

func (s *subject) idle() verdict {
	switch {
	case s.has(machine.IdentityUnverified):
		return verdict{"it claims to be up before anyone paired it", "somebody to check that and to start it, or to take it over with adopt", Person}
	case s.m.Authority():
		return verdict{"its source has not said yet whether it is online", "the first word of its source", Connector}
	case !s.wanted:
		return verdict{"it is to be stopped, and is", "", Nobody}
	case s.a.AsksLogin:
		return verdict{"it is logged out", "a new login", Person}
	case s.a.Ran:
		return verdict{"it is logged out and nobody asked it to log in again", "a new login", Person}
	}
	return verdict{"it was never brought up", "its first start", Person}
}

// startings are the states of this class that built-in machines have.
var startings = map[string]verdict{
	"CONNECTING": {"it is connecting", "its connector to report a QR code or a connection", Connector},
	"SYNCING":    {"it is synchronising", "its connector to report that this is done", Connector},
	"LOGGING":    {"it is logging in", "its connector to report whether that worked", Connector},
	"LOGGED":     {"it is logged in", "its connector to begin to synchronise", Connector},
}

func (s *subject) starting() verdict {
	v, ok := startings[s.a.State]
	if !ok {
		v = verdict{"it is coming up", "its connector to report that it is up", Connector}
	}
	return s.late(v)
}

func (s *subject) human() verdict {
	switch {
	case s.a.State == "QR_REQUIRED":
		return s.late(verdict{"its QR code is shown", "somebody to scan the code with the account's phone", Person})
	case s.a.State == "LOGGED_OUT" && s.wanted:
		return verdict{"it is logged out", "somebody to start it and to log in anew with the account's phone", Person}
	case s.a.State == "LOGGED_OUT":
		return verdict{"it is logged out and is to be stopped", "", Nobody}
	}
	return s.late(verdict{"a person is asked for", "somebody to do what its machine asks for", Person})
}

func (s *subject) stopped() verdict {
	switch {
	case s.has(machine.UnexpectedStop):
		return verdict{"somebody else stopped it though it is to run", "somebody to start it, or to stop it as a user", Person}
	case !s.wanted:
		return verdict{"it was stopped by a user", "", Nobody}
	case s.a.AsksLogin:
		return verdict{"its pairing came to nothing", "somebody to start it and to pair it again with the account's phone", Person}
	}
	return verdict{"it is stopped though it is to run", "a start", Person}
}

// up: it is connected; what matters is whether it may be used.
func (s *subject) up() verdict {
	v := s.upConditions()
	if v.who == Nobody && s.has(machine.UnexpectedActivity) {
		return verdict{v.is + ", though it is to be stopped", "somebody to stop it where it runs, or to start it as a user", Person}
	}
	return v
}

func (s *subject) upConditions() verdict {
	b, blocked := s.j.Blocked(s.a, machine.CanSend, "")
	switch {
	case s.has(machine.Unvouched):
		return verdict{"it is up as far as is known, but its worker " + s.a.Source + " is silent, so it may not send", "the worker to come back, or Muster to recover the account", Connector}
	case s.has(machine.Unverified):
		return verdict{"it was up when its source last spoke, which it has not done since Muster lost sight of it", "a word of its source", Connector}
	case s.has(machine.SendStalled):
		return verdict{"it is connected, but its messages stay pending, so it may not send", "a message to get through, or a new connection", Person}
	case !blocked:
		return verdict{s.usable(), "", Nobody}
	case len(b.Conditions) == 0:
		return verdict{"it is connected, and " + s.only(), "its connector to report that all of it is ready again", Connector}
	case b.Until != 0:
		return verdict{"it is connected, but may not send: " + list(b.Conditions), "the end of that at " + Clock(b.Until), Muster}
	case s.has(machine.RateLimited) || s.has(machine.Restricted):
		return verdict{"it is connected, but may not send: " + list(b.Conditions), "the vendor to lift that, or its connector to report that it did", Vendor}
	}
	return verdict{"it is connected, but may not send: " + list(b.Conditions), "its connector to report that it answers again", Connector}
}

// usable says what an account may do that may send.
func (s *subject) usable() string {
	var scopes []domain.Condition
	for _, one := range s.a.Conditions {
		if one.Name == machine.Restricted {
			scopes = append(scopes, one)
		}
	}
	if len(scopes) > 0 {
		return "it is up and may send, but for what is " + list(scopes)
	}
	return "it is up and may send"
}

// only says what an account may do that may not send in its state.
func (s *subject) only() string {
	if s.j.Can(s.a, machine.CanRead, "") {
		return "may only read"
	}
	return "may not be used"
}

func list(conditions []domain.Condition) string {
	var words []string
	for i := range conditions {
		words = append(words, Condition(&conditions[i]))
	}
	return strings.Join(words, "; ")
}

// down: it is lost; what matters is who brings it back.
func (s *subject) down() verdict {
	banned, isBanned := s.condition(machine.Banned)
	lost := "its connection is lost" + s.becauseOf()
	switch {
	case s.m.Authority():
		return verdict{"its source says that it is offline", "its source to report it online", Connector}
	case !s.wanted:
		return verdict{lost + ", and it is to be stopped", "", Nobody}
	case s.has(machine.LoginNeeded):
		return verdict{lost + ", and no live ticket of it is known", "a new login", Person}
	case isBanned && banned.Until == 0:
		return verdict{"the vendor has banned it" + reasonOf(&banned), "the ban to be lifted", Person}
	case s.has(machine.GaveUp):
		return verdict{lost + ", and all tries to bring it back are used up", "somebody to find out why and to start it", Person}
	case s.retries():
		return verdict{lost, fmt.Sprintf("Muster to try again at %s (try %d)", Clock(s.next.At), s.tries()+1), Muster}
	case isBanned:
		return verdict{"the vendor has banned it until " + Clock(banned.Until) + reasonOf(&banned), "the end of the ban", Vendor}
	}
	return s.late(verdict{lost + s.watched(), "its connector to bring it back", Connector})
}

// watched says why Muster itself does nothing.
func (s *subject) watched() string {
	if s.a.Mode == domain.ModeObserve {
		return ", and Muster only watches it"
	}
	return ""
}

func reasonOf(c *domain.Condition) string {
	if c.Reason == "" {
		return ""
	}
	return " (" + c.Reason + ")"
}

// becauseOf names the conditions that say more than that it is lost.
func (s *subject) becauseOf() string {
	switch {
	case s.has(machine.Replaced):
		return ": another client took it over"
	case s.has(machine.Refused):
		one, _ := s.condition(machine.Refused)
		return ": the vendor's server refuses it" + reasonOf(&one)
	case s.has(machine.Flapping):
		return " again and again"
	}
	return ""
}

// retries says whether the next thing to happen is a try of Muster's own.
func (s *subject) retries() bool {
	rule, _, ok := s.m.Retry()
	return ok && s.due && s.a.Mode == domain.ModeSupervise && s.next.Rank == domain.RankRetry && s.next.Trigger.Name == rule.Trigger
}

func (s *subject) tries() int {
	if s.a.Trouble == nil {
		return 0
	}
	return s.a.Trouble.Tries
}
