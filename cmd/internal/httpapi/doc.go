// Package httpapi is Muster over HTTP: everything under /v1, and the OpenAPI
// document that describes it.
//
// It owns the road between HTTP and the questions and triggers of the bus: paths,
// parameters, headers, status codes, problems (RFC 9457) with a stable code, the
// bounds of bodies and of time, batches as NDJSON, and the live stream as
// server-sent events. It owns no answer: a question is one row of the table that
// also answers on muster.q.*, so HTTP, NATS and command line give the same structs
// in the same JSON; a trigger goes to the partition's writer over the bus like any
// other, and what is in the answer is in the log. Authoritative is the history.
//
// The three tables of the package are its contract: Routes (who may call what),
// Codes (what can go wrong) and the OpenAPI document that is made of both.
//
// When something fails: the caller gets a problem whose code is a row of Codes and
// whose detail says what was wrong and what is right; causes that are nobody's
// business outside are logged and told as "internal". A client that goes away ends
// what was done for it. Close ends streams with a last event that says from where
// to go on, refuses what comes later, and waits for the rest.
package httpapi
