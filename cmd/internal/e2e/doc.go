// Package e2e holds tests only: they build the real program, run it as its own
// process, talk to it from outside, kill it, damage its disk, and compare what it
// then says with a ledger of what it had promised.
//
// Authoritative is the ledger, which is kept by the test from the answers that
// callers got, and a plain fold of the streams, read with an ordinary NATS client.
package e2e
