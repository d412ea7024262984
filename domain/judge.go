package domain

import (
	"fmt"
	"math"
	"time"

	"github.com/musterhq/muster/domain/machine"
)

// future is how far ahead of now a trigger's time may be; a later one is cut to now.
const future = int64(5 * time.Minute)

// Defaults are the machines and the mode that a new account gets when its first
// trigger names none. An empty one leaves the registry's.
type Defaults struct {
	Session      string // e.g. "whatsapp@1"
	Message      string // e.g. "message@2"
	Conversation string
	Mode         string
}

// Judge decides by the tables of one registry. It holds no state of accounts
// and may be used from many goroutines.
type Judge struct {
	machines *machine.Registry
	defaults Defaults
}

// NewJudge returns a judge over the machines of reg.
func NewJudge(reg *machine.Registry) *Judge { return &Judge{machines: reg} }

// With returns a judge with other defaults. The error names a machine that is
// not known, or a mode that does not exist.
func (j *Judge) With(d Defaults) (*Judge, error) {
	for family, name := range map[string]string{machine.FamilySession: d.Session, machine.FamilyMessage: d.Message, machine.FamilyConversation: d.Conversation} {
		if name == "" {
			continue
		}
		m, err := j.named(name)
		if err != nil {
			return nil, err
		}
		if m.Family() != family {
			return nil, invalid("machine", "%s is a table for a %s, not for a %s", name, m.Family(), family)
		}
	}
	if err := checkMode("mode", d.Mode); err != nil {
		return nil, err
	}
	return &Judge{machines: j.machines, defaults: d}, nil
}

// Machines returns the registry.
func (j *Judge) Machines() *machine.Registry { return j.machines }

func (j *Judge) named(name string) (*machine.Machine, error) {
	if m, ok := j.machines.Get(name); ok {
		return m, nil
	}
	if near := j.machines.NearestMachine(name); near != "" {
		return nil, invalid("machine", "%q is not known; did you mean %s?", clip(name), near)
	}
	return nil, invalid("machine", "%q is not known", clip(name))
}

func checkMode(field, mode string) error {
	if mode != "" && mode != ModeObserve && mode != ModeSupervise {
		return invalid(field, "want %s or %s, got %q", ModeObserve, ModeSupervise, clip(mode))
	}
	return nil
}

// machineOf returns the machine of an account, or the one that t registers it
// with.
func (j *Judge) machineOf(a *Account, t *Trigger) (*machine.Machine, error) {
	if a != nil {
		if m, ok := j.machines.Get(a.Machine); ok {
			return m, nil
		}
		return nil, invalid("machine", "the account's machine %s is not known to this process; give it the file that defines it", a.Machine)
	}
	name := t.Machine
	if name == "" {
		name = j.defaults.Session
	}
	if name == "" {
		name = j.machines.Default()
	}
	m, err := j.named(name)
	if err == nil && m.Family() != machine.FamilySession {
		err = invalid("machine", "%s is a table for a %s; an account needs one for a session", name, m.Family())
	}
	if err == nil {
		err = checkMode("mode", t.Mode)
	}
	return m, err
}

// known refuses a trigger that no machine has.
func (j *Judge) known(name string) error {
	if j.machines.Knows(name) {
		return nil
	}
	if near := j.machines.Nearest(name); near != "" {
		return invalid("trigger", "%q is not known; did you mean %s?", clip(name), near)
	}
	return invalid("trigger", "%q is not known to any machine", clip(name))
}

// Decide judges t against the account as folded so far (nil: it has no events)
// at the time now (unix ns).
func (j *Judge) Decide(a *Account, t *Trigger, now int64) Decision {
	err := t.check()
	group, reserved := machine.Reserved(t.Name)
	if err == nil && !reserved {
		err = j.known(t.Name)
	}
	var m *machine.Machine
	if err == nil {
		m, err = j.machineOf(a, t)
	}
	if err == nil && m.Authority() && t.Source == "" && m.HasTrigger(t.Name) {
		err = invalid("source", "is missing; %s believes one source only, so say who speaks", m.Name())
	}
	if err != nil {
		return Decision{Verdict: Refusal(t, err)}
	}
	r := ruling{j: j, m: m, a: a, t: t, at: t.At, now: now, state: m.Initial()}
	if !t.HasAt || r.at > now && r.at-now > future {
		r.at = now
	}
	if a != nil {
		r.state, r.version = a.State, a.Version
	}
	r.from, r.to = r.subject(group)
	if d, done := r.before(); done {
		return d
	}
	r.judge(group)
	return r.decision()
}

// Refusal is the verdict on a trigger that is not one: outcome invalid, with
// the error's sentence as its reason.
func Refusal(t *Trigger, err error) Verdict {
	return Verdict{Account: t.Account, Key: t.Key, Trigger: t.Name, Outcome: Invalid, Source: t.Source, Reason: err.Error()}
}

// before answers what needs no judging: a trigger that was judged already, and
// one that expects another version.
func (r *ruling) before() (Decision, bool) {
	v := Verdict{Account: r.t.Account, Key: r.key(), Trigger: r.t.Name, From: r.from, To: r.from, Version: r.version, Source: r.t.Source, Reason: r.t.Reason.Code}
	if r.a != nil && r.t.ID != "" {
		if e, ok := r.a.Recent.find(r.t.ID); ok {
			v.Outcome, v.From, v.To, v.Version, v.Earlier = Duplicate, e.from, e.to, e.version, e.outcome
			return Decision{Verdict: v}, true
		}
	}
	if r.t.Expect != NoExpect && uint64(r.t.Expect) != r.version {
		v.Outcome = Conflict
		v.Reason = fmt.Sprintf("version %d was expected, the account is at %d", r.t.Expect, r.version)
		return Decision{Verdict: v}, true
	}
	return Decision{}, false
}

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

// never is a time that does not come.
const never int64 = math.MaxInt64
