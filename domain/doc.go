// Package domain is the judgement of Muster: what an account is, what a
// trigger asks, and what follows from it.
//
// It owns four things:
//
//   - the words: [AccountID], [Trigger], [Event], [Outcome], [Condition];
//   - [Judge.Decide]: (account, trigger, now) gives the verdict and the event
//     to append. The same inputs give the same event, byte for byte;
//   - [Evolve]: (account, event) gives the next account. It is total and looks
//     only at the event, never at a table, so that old history means the same
//     for ever;
//   - [Judge.Due]: the next deadline of an account, derived from its state, so
//     that deadlines need no store.
//
// Authoritative is the history: an [Account] is nothing but the fold of Evolve
// over the account's events, and may be thrown away at any time.
//
// The package is pure. It imports the standard library only, reads no clock,
// does no I/O, logs nothing and uses no randomness: time and ids come in with
// the call. What can go wrong is a value (an [Outcome], an error), never a
// panic.
package domain
