// Package eventlogtest is the conformance suite of eventlog.Log and
// eventlog.Blobs, and a wrapper that makes a log fail on purpose.
//
// Run is what a log must do; memlog and natslog (on one server and on a
// cluster of three) both pass it, so that a test of anything above may choose
// either. Faulty fails, tears or delays the n-th named operation of a log. It
// owns no data: what a log promises is written at eventlog.Log.
package eventlogtest
