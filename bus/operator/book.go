package operator

import (
	"maps"
	"slices"
	"time"
)

// Book is the fold of the log: the mutes and acknowledgements that were not taken
// back. It is not safe for use by many goroutines.
type Book struct {
	actions []Action // in the order in which they were done
}

// Apply folds one action in. The same action twice changes nothing.
func (b *Book) Apply(a Action) {
	if slices.ContainsFunc(b.actions, func(o Action) bool { return o.ID == a.ID }) {
		return
	}
	switch a.Action {
	case Mute, Ack:
		b.actions = append(b.actions, a)
	case Unmute:
		b.actions = slices.DeleteFunc(b.actions, func(o Action) bool {
			return o.Action == Mute && (a.Target[ID] == o.ID || maps.Equal(a.Target, o.Target))
		})
	}
}

// InForce lists the actions of a name that hold at a time, the first one first.
// Those that have ended are forgotten.
func (b *Book) InForce(name Name, now time.Time) []Action {
	b.actions = slices.DeleteFunc(b.actions, func(a Action) bool { return !a.InForce(now) })
	var list []Action
	for _, a := range b.actions {
		if a.Action == name {
			list = append(list, a)
		}
	}
	return list
}

// NextEnd is when the next action ends by itself; ok is false when none does.
func (b *Book) NextEnd() (at time.Time, ok bool) {
	for _, a := range b.actions {
		if !a.Until.IsZero() && (!ok || a.Until.Before(at)) {
			at, ok = a.Until, true
		}
	}
	return at, ok
}
