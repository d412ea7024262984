// Package operator is the log of what operators do beside triggers: mute,
// acknowledge, and whatever else must be known later with its author and reason.
//
// It owns the stream MUSTER_OP (subjects muster.op.<action>, one JSON body for
// each action) and the fold that says which actions are in force (Book).
// Authoritative is the stream; nothing in it can be deleted. The package gives
// an action no meaning: who reads a Book decides what a mute does.
//
// When it fails: an append whose acknowledgement does not come is an error, and
// the same action may be appended again, since its id is the message id by which
// the server recognises a repeat. A Follow that loses its connection goes on
// where it stood. A record that cannot be read is skipped and told to the
// caller: one bad record must not hide the others.
package operator
