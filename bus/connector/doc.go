// Package connector turns what a peer's webhook says into triggers.
//
// It owns the contract between the program and the peers' packages below it
// (waha, evolution, cloud …): what a [Source] is, how a [Request] becomes
// [Delivery] values, and the rules that hold for all of them, such as what the
// first fact about an account becomes ([Ready], [Lost], [Logout]).
//
// Nothing here is authoritative: a mapping reads the account as it is and
// proposes triggers; the judge decides.
package connector
