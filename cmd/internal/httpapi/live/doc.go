// Package live hands every judged event to many readers at once, in order and
// each once, live and from any position of the past.
//
// It owns a bounded ring of the latest events of each partition, which one
// follower fills, and for each reader nothing but a position. A reader whose
// position lies before the ring reads the log until it has come so far; one that
// was in the ring and fell out of it is too slow and is told so. Authoritative is
// the log: a position means the same to every process and after every restart.
//
// When it fails: a reader that is cut off goes on from its last position without
// a gap. When the log cannot be followed any more every reader is told so
// (ErrFailed). No reader, however slow, holds up another one or the follower.
package live
