// Package reconcile asks servers for the list of their sessions and publishes
// what differs from what is known: webhooks get lost, and a fleet may run before
// anybody tells of it.
//
// A list is the word of a moment, the one at which it was asked for. Whatever
// came about an account since then counts more, so an account about which
// something was judged between the question and the answer is left for the next
// poll. What a status means is decided by the tables of the webhooks. Where state
// and status agree nothing is published, except to confirm an account that is in
// doubt: one that is unverified, or that would be, because nobody has spoken of
// it since this process began.
//
//	list says       known                        published by <source>/poll
//	another status  any                          the triggers of that status
//	up              stopped, logged out          start, connection_ready
//	the same        in doubt                     one trigger that moves nothing
//	nothing, twice  neither idle nor stopped     stop, reason vanished
//
// Nothing is concluded from a list that is empty, that could not be had, or that
// lacks more than half of a fleet: that is a fault of the server or of the key.
//
// Evolution's list tells what its database holds, which does not know of a loss
// that may pass; where it differs, the instance is asked for its state, too.
//
// Nothing here is authoritative, and nothing waits for it. A server that fails is
// asked again later and later, up to its usual interval. After a restart the
// servers are asked at random moments, and triggers go out at a bounded rate.
// Keys of servers occur in no log and in no error.
package reconcile
