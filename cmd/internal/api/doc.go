// Package api is the wire shape of Muster's queries: what a client asks on
// muster.q.* and what it is answered, as structs with JSON tags.
//
// It owns the names of the query subjects, the request and answer structs, and
// the error codes an answer may carry. The command line prints these structs
// as they are, and the server fills them from its views, so that
// `-o json` of a client and an answer on the bus never differ. Authoritative
// for the content is the server's view; the structs hold no rules.
//
// Every answer carries AsOf, the position of the view it was read from. A
// request may carry WaitFor, a position to reach first: that is how a client
// reads its own write. A view that does not reach it in time answers with
// [CodeUnavailable]. An answer that is no success is a NATS service error whose
// code is one of the constants here and whose description is a sentence.
package api
