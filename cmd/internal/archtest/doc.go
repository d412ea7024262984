// Package archtest holds the tests that keep the shape of the project: which
// package may import which, what the core may not touch, which names stand at
// the top level, and that documents name only paths and tests that exist.
//
// It has no code of its own. Every breach is one sentence that says what is
// wrong and what the rule is. The rules are tables at the head of each test
// file; whoever needs an exception adds a row there, with its reason.
package archtest
