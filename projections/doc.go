// Package projections keeps the views of a fleet: what can be asked of it,
// folded from its history.
//
// It owns three things:
//
//   - [View]: what a view must be. A view is pure: Apply on its own state, by
//     what the event says, with no clock and no I/O. Each stands in a package
//     of its own below this one and imports no other view;
//   - [Runner]: it follows the history with one goroutine per partition, decodes
//     each record once, hands it to every view and then records the position;
//   - [Tee]: a [Source] that hands records which this process has just committed
//     to the Runner without asking the log for them.
//
// Authoritative is the log. Everything here can be thrown away and is folded
// again from the first record; saved views only shorten that.
//
// # When it fails
//
//   - A saved state that cannot be read, was written by another version of a
//     view, or does not belong to this history is discarded and counted
//     ([Status].Discarded); the Runner replays from the start.
//   - A gap in a stream's sequence or in an account's event numbers, and a
//     record that cannot be decoded, raise an [Alarm]: counted, the first ones
//     kept, the callback called. The Runner goes on: a view that shows what is
//     left, and says that something is missing, is of more use than none.
//   - An error of the log ends Run with that error. What was folded stays and
//     can be asked; it just grows no older.
//
// # Order and duplicates
//
// A partition's events reach a view in the order of their sequence, each once.
// Two partitions have no order between them, and a view holds nothing that
// depends on one: its state is one part per partition, and an answer adds the
// parts up. That is why any interleaving, any restart and any rebuild give the
// same answers.
package projections
