// Package dispatch is the way from a NATS request to the writer and back: the
// command endpoint muster.cmd.<account>.
//
// It owns the decoding of a request (JSON, msgpack, CloudEvents), the check that its
// account is the subject's, the encoding of the verdict, the table of errors,
// and the sending on of triggers whose partition another process owns. It
// judges nothing and stores nothing: a verdict is answered when the [Judge]
// gives it, and the Judge gives it when the log has it.
//
// Content types. A request whose Content-Type header is application/json,
// application/msgpack or application/x-msgpack is read and answered so, and
// the answer names its type. Without the header the first byte decides (no JSON
// text begins like a msgpack map; JSON is the default) and the answer has no
// header either: that is the cheap way, for a header on both sides costs as
// much as the rest of the trip. A CloudEvent, in structured mode
// (application/cloudevents+json) or in binary mode (ce- headers), is read as in
// package cloudevents and answered in JSON.
//
// What a caller sees when something fails:
//
//   - bad input: a verdict of outcome invalid whose reason is a sentence, with
//     the micro error headers (code 400, or 415 for a content type);
//   - the process is full, shutting down, not the owner, or lost against
//     another writer: a micro error 503 with Retry-After, and "retryable" in
//     its JSON body;
//   - the log could not be reached: 504, "unknown": the trigger may be stored;
//   - the account is damaged: 423;
//   - a message above the server's max_payload never gets here: the client
//     library refuses it, or the server closes the connection and says why;
//   - nobody owns the partition at this moment: no answer. The caller's bound
//     passes, and it sends again.
package dispatch
