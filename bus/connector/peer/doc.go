// Package peer holds what the packages of the single peers have in common: how
// a sender proves that it knows a secret, and how JSON is read whose types
// nobody guarantees.
//
// It owns two rules. Secrets are compared in constant time, and with all that
// are good now, whatever the first comparison said ([Same], [Bearer], [MAC]). And
// a field of an unexpected type is a field that is not there ([Object]): a peer
// that changes a type must not be answered with an error that makes it give up.
//
// Nothing here keeps anything or knows a mapping. What fails is an error whose
// text quotes nothing of the request.
package peer
