// Package presence knows which workers live, and says so in the histories of
// the accounts that they stand behind.
//
// A worker is a process that hosts connections. It says hello, beats, and says
// goodbye (the messages are in package bus). Its beat vouches for every account
// whose source it is. When the promise breaks, nobody knows what those accounts
// are any more, and that is what their histories are made to say:
//
//	           hello, beat                     3 beats missed
//	expected ─────────────► live ────────────────────────────────► lapsed
//	   │                     │  ◄──────────────────────────────────  │
//	   │ 3 beats missed      │ goodbye       hello, beat             │
//	   ▼                     ▼                                       ▼
//	 lapsed                left                          recover, RecoverAfter later
//
// What follows from what:
//
//   - lapse, goodbye: vouch_lost for each of its accounts at once, and recover
//     RecoverAfter later for those that still wait then;
//   - a beat afterwards: vouch_restored for those that carry unvouched;
//   - a hello of another run (boot): recover at once, then vouch_restored;
//   - a partition that this process has taken over (at its start, all): RecoverAfter
//     later, recover for every account of it that no live worker vouches for and
//     whose source has not spoken since. An account whose source was never a
//     worker cannot have been asked; it gets recover with NotWorker.
//
// A recover that would move nothing is not written. Every trigger is given only
// if the account is still as it was found: one that its source, or another one,
// has spoken for meanwhile is left alone.
//
// Authoritative are the beats, which are not stored, and the histories. That a
// source has ever been a worker is kept as one blob beside the log, with the
// last boot of each. When that blob is lost or cannot be read, Muster starts
// without it: the workers that live make themselves known by their next beat,
// and so do those of which an account still carries unvouched; the accounts of
// a worker that died before and is not among these are marked unverified instead
// of being recovered, and a first hello counts as that of another run.
//
// What happens when something fails: an overloaded queue makes the triggers
// wait, whatever their number; a log that does not answer makes them try again
// for as long as their cause stands. While this process was stopped, or has
// lost its own connection, it has heard nobody, so that time is nobody's silence.
//
// Several processes may share the partitions of one log. Each hears all workers
// and writes for the partitions that it owns.
package presence
