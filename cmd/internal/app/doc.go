// Package app puts the program together: it opens the log, takes the
// partitions over, keeps the views up to date, and answers on NATS and HTTP.
//
// It owns the order of things: what is started after what, when the process
// calls itself ready, and in which order, each step within its own bound,
// everything ends. The parts know nothing of each other; what one needs of
// another is passed to it here.
//
//	lock → scan → NATS server → log → writers (replay) → views (catch up) → workers → bus → ready
//
// What happens when a part fails: a start that fails is undone in reverse and
// Run returns a sentence. While running, a log that has failed or views that
// cannot follow end the process with an error: what it could still say would
// not be the truth, and a start from the log puts it right.
package app
