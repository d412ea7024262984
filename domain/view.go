package domain

import (
	"maps"
	"slices"
	"time"

	"github.com/musterhq/muster/domain/machine"
)

// AccountView is the account as users see it.
type AccountView struct {
	ID            AccountID                   `json:"id"`
	Machine       string                      `json:"machine"`
	State         string                      `json:"state"`
	Class         string                      `json:"class"`
	Since         string                      `json:"since"` // RFC 3339
	Version       uint64                      `json:"version"`
	Desired       string                      `json:"desired"`
	Mode          string                      `json:"mode"`
	Source        string                      `json:"source"`
	Labels        map[string]string           `json:"labels"`
	Conditions    []ConditionView             `json:"conditions"`
	Can           CanView                     `json:"can"`
	Attention     []string                    `json:"attention"`
	Messages      map[string]MessageView      `json:"messages"`
	Conversations map[string]ConversationView `json:"conversations"`
}

// ConditionView is a condition as users see it; until is "" when no end is known.
type ConditionView struct {
	Name   string `json:"name"`
	Since  string `json:"since"`
	Until  string `json:"until"`
	Scope  string `json:"scope"`
	Reason string `json:"reason"`
}

// CanView is what an account can do now, where no scope is named.
type CanView struct {
	Read bool `json:"read"`
	Send bool `json:"send"`
	Bulk bool `json:"bulk"`
}

// MessageView is a message as users see it.
type MessageView struct {
	State string `json:"state"`
	Late  bool   `json:"late"`
}

// ConversationView is a conversation as users see it.
type ConversationView struct {
	State     string `json:"state"`
	OpenTurns int    `json:"open_turns"`
}

// FormatTime prints unix nanoseconds as users see times: RFC 3339 in UTC.
func FormatTime(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// ParseTime reads a time as users give times, RFC 3339 between the years 1700 and
// 2200, as unix nanoseconds. The error is an [InvalidError] about the field.
func ParseTime(field, text string) (int64, error) { return instantText(field, text) }

// Describe returns the account as users see it. What depends on the machine is
// empty when this process does not know it.
func (j *Judge) Describe(a *Account) AccountView {
	v := AccountView{
		ID: a.ID, Machine: a.Machine, State: a.State, Class: j.Class(a), Since: FormatTime(a.Since), Version: a.Version, Desired: a.Desired,
		Mode: a.Mode, Source: a.Source, Labels: maps.Clone(a.Labels), Conditions: make([]ConditionView, 0, len(a.Conditions)),
		Can:       CanView{Read: j.Can(a, machine.CanRead, ""), Send: j.Can(a, machine.CanSend, ""), Bulk: j.Can(a, machine.CanBulk, "")},
		Attention: j.Attention(a),
	}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	for _, c := range a.Conditions {
		one := ConditionView{Name: c.Name, Since: FormatTime(c.Since), Scope: c.Scope, Reason: c.Reason}
		if c.Until != 0 {
			one.Until = FormatTime(c.Until)
		}
		v.Conditions = append(v.Conditions, one)
	}
	v.Messages, v.Conversations = a.describeTalk()
	return v
}

// Class returns the class of the account's state, "" when its machine is not
// known to this process.
func (j *Judge) Class(a *Account) string {
	m, ok := j.machines.Get(a.Machine)
	if !ok {
		return ""
	}
	return m.Class(a.State)
}

// Can says whether the account can read, send or bulk in a scope ("" = none
// named): what its state can, minus what its conditions block.
func (j *Judge) Can(a *Account, what, scope string) bool {
	return j.stateCan(a, what) && (what == machine.CanRead || !slices.ContainsFunc(a.Conditions, func(c Condition) bool { return blocks(&c, what, scope) }))
}

// stateCan says what the account's state can. A machine that this process does
// not know can nothing.
func (j *Judge) stateCan(a *Account, what string) bool {
	m, ok := j.machines.Get(a.Machine)
	if !ok {
		return false
	}
	read, send, bulk := m.Can(a.State)
	switch what {
	case machine.CanRead:
		return read
	case machine.CanSend:
		return send
	case machine.CanBulk:
		return bulk
	default:
		return false
	}
}

// blocks says whether a condition forbids to send, or to send in bulk.
func blocks(c *Condition, what, scope string) bool {
	if meaning, _ := machine.ConditionNamed(c.Name); !meaning.NoSend {
		return false
	}
	return c.Scope == "" || c.Scope == scope || what == machine.CanBulk && scope == ""
}

// Block is why an account can not do something.
type Block struct {
	State      bool        // its state has not the capability
	Conditions []Condition // those that forbid it, by name and scope
	Until      int64       // unix ns: when nothing of this stands in the way any more, as far as is known; 0 = no end is known
}

// Blocked says why the account can not read, send or bulk in a scope; ok is
// false when it can. It agrees with [Judge.Can].
func (j *Judge) Blocked(a *Account, what, scope string) (b Block, ok bool) {
	b.State = !j.stateCan(a, what)
	if what != machine.CanRead {
		for i := range a.Conditions {
			if c := &a.Conditions[i]; blocks(c, what, scope) {
				b.Conditions = append(b.Conditions, *c)
			}
		}
	}
	if !b.State && len(b.Conditions) == 0 {
		return Block{}, false
	}
	b.Until = j.blockedUntil(a, &b)
	return b, true
}

// blockedUntil is the last end of the conditions, if all have one. A state ends
// with them only where it is there because of them: as the blocked target of a
// choice.
func (j *Judge) blockedUntil(a *Account, b *Block) (until int64) {
	held := false
	for i := range b.Conditions {
		if b.Conditions[i].Until == 0 {
			return 0
		}
		until = max(until, b.Conditions[i].Until)
		held = held || blocker(b.Conditions[i].Name)
	}
	if !b.State {
		return until
	}
	m, known := j.machines.Get(a.Machine)
	if held && known && slices.ContainsFunc(m.Definition().Choices, func(c machine.Choice) bool { return c.Blocked == a.State }) {
		return until
	}
	return 0
}

// Attention lists what a human must look at: first what the state asks for, then
// the conditions by name, then conversations in which nobody answers.
func (j *Judge) Attention(a *Account) []string {
	out := []string{}
	add := func(kind string) {
		if kind != "" && !contains(out, kind) {
			out = append(out, kind)
		}
	}
	wanted := a.Desired == DesiredRun
	if m, ok := j.machines.Get(a.Machine); ok {
		s, _ := m.State(a.State)
		if wanted || !s.IfWanted {
			add(s.Attention)
		}
		if wanted && a.AsksLogin {
			add(machine.LoginNeeded)
		}
	}
	for i := range a.Conditions {
		if meaning, ok := machine.ConditionNamed(a.Conditions[i].Name); ok && meaning.Attention {
			add(meaning.Name)
		}
	}
	if a.unanswered() {
		add(AttentionNobodyAnswering)
	}
	return out
}
