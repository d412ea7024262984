// Package wechat holds the rules that the callback senders of the WeChat family
// share (gewechat, Eyun): they can neither sign nor set headers, so their secret
// is a parameter of the address; they tell that an account has gone, but never
// that it is back, so a message is the proof of that ([Message]).
//
// It keeps nothing. The judge decides about what it proposes.
package wechat
