// Package inbox takes triggers that are published and not asked for: a
// publisher sends to muster.in.<account>, gets the server's PubAck, and goes on;
// the trigger is judged when Muster is up. Nothing is lost while it is down.
//
// The package owns two streams. MUSTER_IN is a work queue: a message stays
// until it is judged or parked, and its removal is all that is remembered about
// it. When it is full, publishers are refused, and so learn of it. MUSTER_PARK
// holds what could not be judged, with the original bytes and headers and the
// reason, until somebody retries or drops it.
//
//	publisher → MUSTER_IN → subscriber → router: park · recover · retry → judge → command.Set
//	                        (one message of an account at a time)          ↘ the partition's owner
//
// Subscriber and router are those of bus/pubsub, on Watermill.
//
// Authoritative is the history. A body, its content types and the faults that
// it can have are those of a command (dispatch.Decode).
//
// # Order
//
// One process reads the whole inbox: the one that owns partition 0. It keeps
// the messages of an account one behind the other, those of different accounts
// side by side, and judges what belongs to a partition of its own; the rest it
// sends as commands, which find their partition's owner. The next message of an
// account is not looked at before the one before has its verdict.
//
// Who begins to read takes the stream over with a consumer of a new name and
// deletes those that are there, so it begins with the oldest message that was
// not acknowledged, of every account. An earlier reader that has not noticed
// yet does no harm: it, too, goes on with an account only when the message
// before was judged by somebody, and what both send is judged once.
// A consumer of a fixed name would not do: after a crash the server would keep
// back what the dead reader had, and deliver what stands behind it.
//
// # Once
//
// The inbox is at least once, the state effectively once. A message without an
// id gets one made of its sequence and the time at which the server stored it,
// which no other message has, not even one that gets the same sequence after
// a power cut. So what comes again is a duplicate, as far as the account
// remembers ids (64). What may have been judged longer ago is found in the
// history: who begins to read looks through the events that are younger than
// the oldest message that waits, and takes out what was judged already.
//
// A message without a time counts as observed when the server stored it.
//
// # When something fails
//
//   - a message that cannot be decoded, is invalid or too large, or whose account
//     is damaged, is parked. It is in nobody's way;
//   - when the trigger can be judged later (the queue is full, the disk is, the
//     partition has no owner) the message waits, and its account's with it;
//   - every verdict but invalid settles a message, also rejected and stale;
//   - a lost connection, a lost delivery or a lost partition 0 ends the reading;
//     what was under way is waited for, and the next reader takes over;
//   - when the park is full the oldest parked message goes.
//
// A PubAck means what the server makes of it: with the embedded server the
// message survives the end of the process, and a power cut once the server has
// synced, which it does every two minutes unless it runs with --sync always. An
// acknowledged verdict is on disk in any case.
package inbox
