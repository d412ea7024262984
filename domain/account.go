package domain

import "maps"

// Account is the fold of one account's events. Everything the judge needs is
// here, and nothing else: it can be thrown away and folded again.
//
// Exported fields with msgpack tags are what a snapshot keeps. Evolve is the
// only writer; readers that share an Account with a writer must be given a
// Clone.
type Account struct {
	ID      AccountID `msgpack:"id"`
	Machine string    `msgpack:"m"` // e.g. "whatsapp@2"
	Mode    string    `msgpack:"md"`
	Desired string    `msgpack:"ds"`
	State   string    `msgpack:"st"`
	Since   int64     `msgpack:"si"` // unix ns: the `at` of the event that led here
	Version uint64    `msgpack:"v"`

	Labels     map[string]string `msgpack:"lb,omitempty"`
	Conditions []Condition       `msgpack:"co,omitempty"` // sorted by name, then scope

	Source    string `msgpack:"sr,omitempty"` // the account's source: who stands behind its state
	Epoch     int64  `msgpack:"ep,omitempty"` // highest epoch among applied and noop session triggers
	Seq       int64  `msgpack:"sq,omitempty"` // highest seq judged in that epoch
	Forgotten bool   `msgpack:"fo,omitempty"` // a tombstone: not listed, no deadline fires
}

// Clone returns a copy that Evolve may change without touching a.
func (a *Account) Clone() *Account {
	c := *a
	c.Labels = maps.Clone(a.Labels)
	c.Conditions = append([]Condition(nil), a.Conditions...)
	return &c
}

// Evolve applies an event to the account it belongs to and returns the account:
// a itself, or a new one when a is nil. It never fails and looks only at the
// event. It keeps e's strings; the caller must own them.
func Evolve(a *Account, e *Event) *Account { return a }
