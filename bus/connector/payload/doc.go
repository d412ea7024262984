// Package payload reads what peers send: JSON that may lack anything and may
// hold anything, and the proofs that come with it.
//
// A body that is no JSON object is an error. Everything below that is a
// question with two answers: the value, and whether it is there in a form that
// can be used. A text where a number is wanted, a null, a number that no int64
// holds: not there. So a strange payload is "not known", never a crash.
//
// Nothing here quotes a body in an error, and every comparison with a secret
// takes the same time wherever the first difference lies.
package payload
