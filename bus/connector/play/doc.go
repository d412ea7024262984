// Package play plays a recorded sequence of webhook requests against an empty
// Muster in memory, on a virtual clock: what a peer's requests would lead to,
// without a server.
//
// It owns the form of a recorded sequence ([Case]) and the rules of its clock:
// before each request the deadlines fire that were due strictly earlier, the
// request is served at its time of arrival, and at the end the deadlines fire
// that are due until then. The requests go through the same hub and connectors
// as real ones.
//
// Nothing here is authoritative, and nothing outlives a run. A file that is no
// sequence is an error that says where; a request that is refused is a result.
package play
