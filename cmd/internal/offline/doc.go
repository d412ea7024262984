// Package offline answers from an archive, without a server: the fleet's state
// and numbers as of any time, and what another transition table would have made
// of the same history.
//
// It also keeps an archive up to date with a log that is being appended to
// (Archiver), and puts back into a stopped server's streams what they have lost
// (Repair).
//
// It owns no rule: states are the fold of package domain, numbers those of the
// views of package projections, so a replay says what the live system said.
// Authoritative is the archive, which is checked on the way; a fault in it ends
// a replay with an error that names it.
package offline
