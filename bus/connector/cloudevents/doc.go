// Package cloudevents takes triggers as CloudEvents 1.0: over HTTP in binary mode
// (attributes in ce- headers), structured mode and batches, and over NATS in the
// first two.
//
// Its senders speak Muster's own vocabulary: the type is "muster." and a trigger,
// the subject an account as it is, and (source, id) names the event. So nothing is
// mapped by an account's state. Events of other types are unmapped. An event that
// is meant for Muster and is none is an error that names the attribute or field; of
// a batch with such an event nothing is taken.
//
// Nothing is kept between two requests.
package cloudevents
