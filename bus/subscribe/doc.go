// Package subscribe reads the event streams as typed events: every judged
// trigger of every account, from any point of the history, and on with what
// comes.
//
// There are two ways. [Open] keeps no position on the server: the caller says
// after which sequence it goes on and keeps the sequence of what it has handled
// itself, best in the same place as its results. [OpenDurable] leaves that to
// the server: a durable consumer of the given name, which lives until [Forget]
// and gives every event again that was not acknowledged.
//
// Either way the events of a partition come in the order of its stream, and
// with it those of every account; between partitions there is no order.
//
// Authoritative are the streams; nothing is kept here. Muster itself need not
// be running, only the NATS server.
//
// What happens when something fails: a lost connection and a server that is
// started again are survived, without a gap and, for Open, without a repeat. A
// record that cannot be read comes as an event with Err set. What cannot mend
// itself (the streams were created anew, the connection was closed) ends the
// subscription with an error from Next.
package subscribe
