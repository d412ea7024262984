// Package bus is Muster's connection to NATS: where triggers come in, where
// verdicts and answers go out, and the server that carries them.
//
// It owns every subject name (subject.go), the embedded server and its life
// ([StartServer]), connections to it or to an external one ([Connect]), the
// lock on a data directory ([LockDir]), the wire shape of a verdict ([Reply])
// and of an error ([Error]), the service under which endpoints are registered
// ([NewService]), and the Go client ([Client]).
//
// Nothing here is authoritative: a message on the bus is a request or an
// answer, and the history is the log's. What was not answered may or may not
// have been judged; a trigger with an id can always be sent again.
//
// What happens when something fails:
//
//   - a server that cannot start says why in one sentence, with what to do;
//   - a lost connection is restored for ever in the background. A client's
//     Send fails with [ErrUnreachable] meanwhile, and tries again while its
//     context lasts, when that is safe;
//   - an answer that is no verdict is an [*Error]: its code, a sentence, and
//     whether sending the same again may help.
//
// Its sub-packages are the endpoints: command (the write path, no NATS in it),
// dispatch (commands over NATS), inbox (triggers that are published), query
// (answers over NATS).
package bus
