package domain

import (
	"math"

	"github.com/musterhq/muster/domain/machine"
)

// never is a time that does not come.
const never int64 = math.MaxInt64

// ruling is one judgement in progress.
type ruling struct {
	j       *Judge
	m       *machine.Machine
	a       *Account // nil: the account has no events
	t       *Trigger
	at, now int64
	state   string // the account's
	version uint64

	kind     Kind
	outcome  Outcome
	from, to string // of what the trigger is about
	verdict  string
	set      []Condition
	ended    []ConditionRef
	effects  Effects
	beat     bool // nothing is appended
}

// key is the key of what the trigger is about; session triggers have none.
func (r *ruling) key() string {
	if r.kind == KindMessage || r.kind == KindConversation {
		return r.t.Key
	}
	return ""
}

// subject says what the trigger is about and returns the state of that.
func (r *ruling) subject(group string) (from, to string) {
	switch r.t.Name { // Muster's own facts about messages and conversations
	case "message_timed_out", "message_stalled":
		group = machine.GroupMessage
	case "nobody_answering":
		group = machine.GroupConversation
	}
	switch group {
	case machine.GroupMessage:
		r.kind = KindMessage
		if m, ok := r.a.message(r.t.Key); ok {
			return m.State, m.State
		}
		return "", ""
	case machine.GroupConversation:
		r.kind = KindConversation
		if c, ok := r.a.conversation(r.t.Key); ok {
			return c.State, c.State
		}
		return ConversationBot, ConversationBot
	case machine.GroupAccount:
		r.kind = KindAccount
	case "":
		r.kind = KindSession
		if !r.m.HasTrigger(r.t.Name) {
			r.kind = KindForeign
		}
	default:
		r.kind = KindMark
	}
	return r.state, r.state
}

// judge dispatches to the rules of the trigger's kind.
func (r *ruling) judge(group string) {
	r.outcome = Noop
	switch {
	case group == machine.GroupBeat:
		r.beat = true
	case r.kind == KindForeign:
		r.reject("not a trigger of " + r.m.Name())
	case r.kind == KindSession:
		r.session()
	case r.kind == KindAccount:
		r.setting()
	case r.kind == KindMessage:
		r.message()
	case r.kind == KindConversation:
		r.conversation()
	default:
		r.mark()
	}
}

func (r *ruling) reject(why string) { r.outcome, r.to, r.verdict = Rejected, r.from, why }
func (r *ruling) stale(why string)  { r.outcome, r.to, r.verdict = Stale, r.from, why }

// decision makes the verdict and the event.
func (r *ruling) decision() Decision {
	t := r.t
	v := Verdict{Account: t.Account, Key: r.key(), Trigger: t.Name, Outcome: r.outcome, From: r.from, To: r.to, Version: r.version, Source: t.Source, Reason: t.Reason.Code}
	if r.verdict != "" {
		v.Reason = r.verdict
	}
	if r.beat {
		return Decision{Verdict: v, Beat: r.at}
	}
	v.Version++
	e := &Event{
		Version: v.Version, ID: t.ID, Account: t.Account, Kind: r.kind, Key: v.Key, Trigger: t.Name, Outcome: r.outcome, From: r.from, To: r.to,
		At: r.at, Recorded: r.now, Source: t.Source, Epoch: t.Epoch, Seq: t.Seq, By: t.By, Reason: t.Reason, Verdict: r.verdict, Data: t.Data,
		Set: r.set, Ended: r.ended, Effects: r.effects,
		Correlation: t.Correlation, Causation: t.Causation, Traceparent: t.Traceparent,
	}
	if e.By == ByUnknown {
		e.By = ""
	}
	if r.a == nil {
		r.register(e)
	}
	return Decision{Verdict: v, Event: e}
}

// register adds what an account's first event says about the account.
func (r *ruling) register(e *Event) {
	e.Machine, e.Initial, e.Mode, e.Labels = r.m.Name(), r.m.Initial(), r.t.Mode, r.t.Labels
	if e.Mode == "" {
		e.Mode = r.j.defaults.Mode
	}
	if e.Mode == "" {
		e.Mode = ModeObserve
	}
	if len(e.Labels) == 0 {
		e.Labels = nil
	}
}

// mode is the account's mode.
func (r *ruling) mode() string {
	if r.a != nil {
		return r.a.Mode
	}
	if r.t.Mode != "" {
		return r.t.Mode
	}
	return r.j.defaults.Mode
}

// epoch is the highest one known of the account.
func (r *ruling) epoch() int64 {
	if r.a == nil {
		return 0
	}
	return r.a.Epoch
}

// desired is what the operator wants of the account.
func (r *ruling) desired() string {
	if r.a == nil {
		return DesiredRun
	}
	return r.a.Desired
}

// standing returns the condition as it stands after what was decided so far.
func (r *ruling) standing(name, scope string) (Condition, bool) {
	for i := range r.set {
		if r.set[i].Name == name && r.set[i].Scope == scope {
			return r.set[i], true
		}
	}
	if r.a == nil || r.isEnded(name, scope) {
		return Condition{}, false
	}
	return r.a.condition(name, scope)
}

func (r *ruling) isEnded(name, scope string) bool {
	for i := range r.ended {
		if r.ended[i].Name == name && r.ended[i].Scope == scope {
			return true
		}
	}
	return false
}

// put sets a condition of the machine, or renews it: the first since stays. A
// condition whose end has come already is not set.
func (r *ruling) put(name, scope string, until int64, reason string) bool {
	if !r.m.Has(name) || until != 0 && until <= r.at {
		return false
	}
	c := Condition{Name: name, Scope: scope, Since: r.at, Until: until, Reason: reason}
	if old, ok := r.standing(name, scope); ok {
		c.Since = old.Since
	}
	r.set = append(r.set, c)
	return true
}

// end ends a condition in all its scopes and says whether it stood.
func (r *ruling) end(name string) (stood bool) {
	if r.a == nil {
		return false
	}
	for i := range r.a.Conditions {
		if c := &r.a.Conditions[i]; c.Name == name && !r.isEnded(name, c.Scope) {
			r.ended = append(r.ended, ConditionRef{Name: name, Scope: c.Scope})
			stood = true
		}
	}
	return stood
}

// endScope ends a condition in one scope and says whether it stood.
func (r *ruling) endScope(name, scope string) bool {
	if r.a == nil || r.isEnded(name, scope) {
		return false
	}
	if _, ok := r.a.condition(name, scope); !ok {
		return false
	}
	r.ended = append(r.ended, ConditionRef{Name: name, Scope: scope})
	return true
}

// blocked says whether a blocking condition stands.
func (r *ruling) blocked() bool {
	for i := range r.set {
		if blocker(r.set[i].Name) {
			return true
		}
	}
	if r.a == nil {
		return false
	}
	for i := range r.a.Conditions {
		if c := &r.a.Conditions[i]; blocker(c.Name) && !r.isEnded(c.Name, c.Scope) {
			return true
		}
	}
	return false
}

// unblocked says whether a blocking condition ended with the trigger, or none
// stands.
func (r *ruling) unblocked() bool {
	for i := range r.ended {
		if blocker(r.ended[i].Name) {
			return true
		}
	}
	return !r.blocked()
}

func blocker(condition string) bool {
	c, _ := machine.ConditionNamed(condition)
	return c.Blocker
}
