// Package history writes judged events into the data folder of a server that is
// not running, as its writers would have written them: chained, guarded, in
// groups.
//
// It owns nothing but the order of writing: each account's events follow one
// another from the last one that is there. The log is authoritative. A write
// that fails, or a process that dies, leaves each account with some first part
// of its events; writing the same events again goes on from there. What was
// written is on disk when Close has returned nil.
package history
