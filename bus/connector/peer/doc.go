// Package peer holds what the packages of single peers do alike with what
// package payload has read: make an account, a delivery, an id, a reason, and say
// why a request is not believed.
//
// It keeps nothing and knows no mapping. What it bounds (ids, reasons) it bounds
// so that a strange payload cannot make a record that the log does not take: such
// a request would be refused, and sent again, for ever.
package peer
