// Package api is the wire shape of Muster's queries: what a client asks on
// muster.q.* and what it is answered, as structs with JSON tags.
//
// It owns the names of the queries and the request and answer structs. The
// command line prints these structs as they are, and the server fills them
// from its views, so that `-o json` of a client and an answer on the bus never
// differ. Authoritative for the content is the server's view; the structs hold
// no rules.
//
// Every answer carries AsOf, the position of the view it was read from. A
// request may carry WaitFor, a position to reach first: that is how a client
// reads its own write. An answer that is no success is a bus.Error: code 400
// for a malformed request, 404 for an unknown account or machine, 503 for a
// view that has not caught up, or not in the time there was.
package api
