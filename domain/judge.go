package domain

import (
	"fmt"
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
	noBeats  bool
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
	return &Judge{machines: j.machines, defaults: d, noBeats: j.noBeats}, nil
}

// WithoutBeats returns a judge of recorded histories, to whose Due missing
// heartbeats mean nothing: beats are not stored, but the losses for want of them are.
func (j *Judge) WithoutBeats() *Judge {
	return &Judge{machines: j.machines, defaults: j.defaults, noBeats: true}
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
