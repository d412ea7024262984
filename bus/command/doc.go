// Package command is the write path: the one place where a trigger becomes an
// event of an account's history.
//
// One writer goroutine owns a partition. It takes everything that waits (a
// group), judges it in order against the folded accounts in its memory,
// appends the events in one go, and answers when the log has them. One group
// is in flight; the next one gathers meanwhile, so the rate grows with the load
// while every caller still gets a durable answer.
//
//	Submit → queue → [ gather → judge → append → settle ] → done(Answer)
//	                     ↑ deadlines that are due
//
// Where facts can wait elsewhere while nobody judges (Config.Hold), the deadlines
// of a partition that was taken over wait until those are judged.
//
// Authoritative is the log. What the writer holds (folded accounts, the
// deadlines' agenda) is rebuilt from it by [Open], from a snapshot and the tail
// or from the start. Every append is guarded by the account's last sequence, so
// a second writer, whatever brought it up, can make this one slow but never
// wrong.
//
// What happens when something fails:
//
//   - conflict: somebody else wrote. The account is read again and its triggers
//     are judged again, a bounded number of times ([ErrContended]);
//   - unknown (no ack): nothing is judged again. The account's tail is read back
//     and compared byte by byte: stored is success, absent is sent again;
//   - refused: the caller gets the log's words, nothing in memory has moved;
//   - the log has failed (a barrier did not pass): callers get an error, the
//     writer stops and [Set.Failed] tells the owner to restart the process;
//   - a hole in an account's history: the account is damaged. It can be read, its
//     writes are refused with a [DamagedError]; all others are served.
//
// The package knows the log, not NATS.
package command
