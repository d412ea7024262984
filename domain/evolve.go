package domain

import (
	"maps"
	"slices"
	"strings"

	"github.com/musterhq/muster/domain/machine"
)

// Evolve applies an event to the account it belongs to and returns the account:
// a itself, or a new one when a is nil. It never fails and looks only at the
// event. It keeps e's strings; the caller must own them.
func Evolve(a *Account, e *Event) *Account {
	if a == nil {
		a = newAccount(e)
	}
	a.Version = e.Version
	if e.ID != "" {
		a.Recent = a.Recent.add(e.ID, earlier{outcome: e.Outcome, from: e.From, to: e.To, version: e.Version})
	}
	a.apply(e, false)
	a.talk(e)
	return a
}

// apply applies an event but for its id, and what it says of messages and
// conversations. owned: nobody else has the account, so its slices may be
// changed in place.
func (a *Account) apply(e *Event, owned bool) {
	switch e.Kind {
	case KindSession:
		a.hear(e, owned)
		a.move(e)
	case KindMark:
		a.move(e)
	case KindAccount:
		a.setting(e)
	}
	a.fold(e)
	a.remember(e)
	a.keepTrouble(e)
}

func newAccount(e *Event) *Account {
	a := &Account{ID: e.Account, Machine: intern(e.Machine), Mode: intern(e.Mode), Desired: DesiredRun, State: intern(e.Initial), Since: e.At}
	if a.Mode == "" {
		a.Mode = ModeObserve
	}
	if len(e.Labels) > 0 {
		a.Labels = maps.Clone(e.Labels)
	}
	return a
}

// legal says whether the event was applied or noop.
func (e *Event) legal() bool { return e.Outcome == Applied || e.Outcome == Noop }

// hear keeps what a session trigger says about its source, epoch and seq.
func (a *Account) hear(e *Event, owned bool) {
	if e.legal() {
		if e.Epoch > a.Epoch {
			a.Epoch, a.Seq = e.Epoch, e.Seq
		}
		if e.Source != SourceMuster {
			a.heard(e.Source, e.At, owned)
		}
		if e.Effects&EffectSourceKept == 0 && e.Source != a.Source {
			a.Source = e.Source
		}
	}
	if e.Epoch != 0 && e.Epoch == a.Epoch && e.Seq > a.Seq {
		a.Seq = e.Seq
	}
}

// heard notes the time of a source's last word; of too many sources the one
// that has been silent longest goes.
func (a *Account) heard(source string, at int64, owned bool) {
	for i := range a.Sources {
		if a.Sources[i].Source == source {
			switch {
			case a.Sources[i].At == at:
			case owned:
				a.Sources[i].At = at
			default:
				a.Sources = slices.Clone(a.Sources)
				a.Sources[i].At = at
			}
			return
		}
	}
	kept := a.Sources
	if len(kept) >= maxSources {
		longest := 0
		for i := range kept {
			if kept[i].At < kept[longest].At {
				longest = i
			}
		}
		kept = slices.Delete(slices.Clone(kept), longest, longest+1)
	}
	if source == a.Source {
		source = a.Source
	}
	next := make([]Heard, len(kept), len(kept)+1)
	copy(next, kept)
	a.Sources = append(next, Heard{Source: source, At: at})
}

// move takes the account's state over.
func (a *Account) move(e *Event) {
	if e.Outcome != Applied {
		return
	}
	a.State = intern(e.To)
	a.Since = e.At
	a.AsksLogin = e.Effects&EffectAsksLogin != 0
}

// setting applies a trigger about the account itself.
func (a *Account) setting(e *Event) {
	if e.Outcome != Applied {
		return
	}
	switch e.Trigger {
	case "set_mode":
		a.Mode = intern(e.Data.text("mode"))
	case "set_labels":
		a.Labels, _ = labels("labels", e.Data["labels"])
	case "authority":
		x := a.extra()
		x.Authority = e.Data.text("source")
		a.Extra = &x
		a.Epoch, a.Seq, a.Closed = 0, 0, 0
	}
}

// fold applies the conditions that the event set and ended.
func (a *Account) fold(e *Event) {
	if len(e.Set) == 0 && len(e.Ended) == 0 {
		return
	}
	next := make([]Condition, 0, len(a.Conditions)+len(e.Set))
	for _, c := range a.Conditions {
		if !slices.Contains(e.Ended, ConditionRef{Name: c.Name, Scope: c.Scope}) {
			next = append(next, c)
		}
	}
	for _, c := range e.Set {
		i, found := slices.BinarySearchFunc(next, c, compareConditions)
		if found {
			next[i] = c
		} else {
			next = slices.Insert(next, i, c)
		}
	}
	if len(next) == 0 {
		next = nil
	}
	a.Conditions = next
}

func compareConditions(a, b Condition) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Scope, b.Scope)
}

// remember applies the effects that are flags and times of the account.
func (a *Account) remember(e *Event) {
	f := e.Effects
	if f == 0 {
		return
	}
	switch {
	case f&EffectWantRun != 0:
		a.Desired = DesiredRun
	case f&EffectWantStop != 0:
		a.Desired = DesiredStop
	}
	switch {
	case f&EffectClose != 0:
		a.Closed = a.Epoch
	case f&EffectOpen != 0:
		a.Closed = 0
	}
	switch {
	case f&EffectForget != 0:
		a.Forgotten = true
	case f&EffectRevive != 0:
		a.Forgotten = false
	}
	if f&EffectUp != 0 {
		a.UpSince = e.At
	}
	if f&EffectRan != 0 {
		a.Ran = true
	}
	if f&effectsExtra != 0 {
		a.keepExtra(e)
	}
}

// effectsExtra are the effects on what only some machines have.
const effectsExtra = EffectAuthority | EffectTickets | EffectLogout | EffectSync | EffectCursor

// keepExtra keeps what only some machines have: the authority, tickets, cursor.
func (a *Account) keepExtra(e *Event) {
	x := a.extra()
	f := e.Effects
	if f&EffectAuthority != 0 {
		x.Authority = e.Source
	}
	if f&EffectLogout != 0 {
		x.SidFrom, x.SidUntil, x.TgtFrom, x.TgtUntil = 0, 0, 0, 0
	}
	if f&EffectTickets != 0 {
		if until := e.Data.time("sid_until"); until != 0 {
			x.SidFrom, x.SidUntil = e.At, until
		}
		if until := e.Data.time("tgt_until"); until != 0 {
			x.TgtFrom, x.TgtUntil = e.At, until
		}
	}
	if f&EffectCursor != 0 {
		x.Cursor, _ = e.Data.count("next_seq")
		x.HasCursor = true
	}
	if f&EffectSync != 0 {
		x.LastSync = e.At
		x.Beat = max(x.Beat, e.At)
	}
	a.Extra = nil
	if x != (Extra{}) {
		a.Extra = &x
	}
}

// keepTrouble counts losses and retries.
func (a *Account) keepTrouble(e *Event) {
	const about = EffectTry | EffectTriesReset | EffectFlap | EffectUp
	if e.Effects&about == 0 && len(e.Set) == 0 && len(e.Ended) == 0 {
		return
	}
	t := a.trouble()
	if e.Effects&EffectTriesReset != 0 {
		t.Tries, t.LastTry = 0, 0
	}
	if e.Effects&EffectTry != 0 {
		t.Tries++
		t.LastTry = e.At
	}
	if e.Effects&EffectFlap != 0 {
		t.Flaps = lastFlaps(t.Flaps, e.At)
	}
	if e.Effects&EffectUp != 0 {
		t.BannedTill = 0
	}
	for _, c := range e.Ended {
		if c.Name == machine.Banned && e.Trigger != "condition_expired" {
			t.BannedTill = 0
		}
	}
	for _, c := range e.Set {
		switch c.Name {
		case machine.Replaced:
			t.ReplacedAt = e.At
		case machine.Refused:
			t.RefusedAt = e.At
		case machine.Banned:
			t.BannedTill = c.Until
		}
	}
	a.Trouble = nil
	if !t.empty() {
		a.Trouble = &t
	}
}

// lastFlaps returns the last moves that count for flapping with one more.
func lastFlaps(flaps []int64, at int64) []int64 {
	if len(flaps) >= maxFlaps {
		flaps = flaps[len(flaps)-maxFlaps+1:]
	}
	next := make([]int64, len(flaps), len(flaps)+1)
	copy(next, flaps)
	return append(next, at)
}
