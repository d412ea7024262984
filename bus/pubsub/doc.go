// Package pubsub is a Watermill Publisher and Subscriber on NATS JetStream,
// for what runs at Muster's edges: the inbox, alerts, and programs of users.
//
// It owns how a message becomes a NATS message and back (Marshaler), where a
// topic lies (Topology), and the life of consumer groups. The write path and
// the views do not use it: they need sequences and guards.
//
// What is authoritative: a message is stored when its PubAck has come
// (Publish and PublishAcked wait for it), and done when its acknowledgement
// has reached the server. Delivery is at least once. Nothing here remembers
// anything beyond its process but the durable consumer, which is the group.
//
//	       Publish                         Subscribe
//	          |                                ^  one message after the other,
//	          v                                |  or side by side by OrderKey
//	topic -> Topology -> stream, subject -> durable consumer (the group)
//
// A group lives until DeleteGroup. CreateGroup makes it, or the first
// Subscribe; Close never deletes it. A subscriber without a group has a
// consumer of its own, which begins at the stream's first message and goes
// away with the subscription.
//
// What happens when something fails:
//
//   - a message that cannot be unmarshalled is parked: it is published with
//     the reason to the parking topic and taken out of the group. Where
//     parking fails it is tried again, and nothing is lost;
//   - a nacked message is delivered again after NackDelay, by the same member,
//     and nothing of its key overtakes it;
//   - a slow handler keeps its message: the server is told that work is going
//     on;
//   - a lost connection is waited for. Acknowledgements that may have been
//     lost with it are sent again, and what is delivered twice because of it
//     reaches the handler once;
//   - a member that is closed gives back what it had not acknowledged, in
//     order; what a crashed one had is delivered again after AckWait, or at
//     once when the group is Exclusive;
//   - a group that is deleted while it is read ends the subscription: its
//     channel is closed and the logger is told.
package pubsub
