package domain

import (
	"slices"

	"github.com/musterhq/muster/domain/machine"
)

// The kinds of attention that are no condition.
const (
	AttentionScanQR          = "scan_qr"
	AttentionNobodyAnswering = "nobody_answering"
	AttentionDamaged         = "damaged" // known to who reads the history, not to the judge
)

// AttentionKind says what one kind of attention means.
type AttentionKind struct {
	Name  string
	About string // what is the matter, a clause that follows "the account: "
	Do    string // what a human does about it, one sentence
}

// attentionKinds is the one table of what is said to the human who looks.
var attentionKinds = []AttentionKind{
	{AttentionScanQR, "a QR code waits to be scanned", "Scan the QR code with the account's phone before it expires."},
	{machine.LoginNeeded, "only a new login brings it back", "Start it and log in anew with the account's phone, or stop it if it is not wanted any more."},
	{machine.Banned, "the vendor banned the account", "Appeal with the vendor or wait for the end of the ban, and do not send with it meanwhile."},
	{machine.Replaced, "another client took the connection over", "Find the other client that uses the account and close one of the two."},
	{machine.Refused, "the vendor's server refuses to connect it", "Read the code: update the connector, or wait and start it again."},
	{machine.GaveUp, "all tries to bring it back are used up", "Find out why it could not connect, then start it."},
	{machine.Stuck, "it is longer in a passing state than it should be", "Look at its connector: restart the connection, or stop the account."},
	{machine.Flapping, "it is lost again and again within minutes", "Look at the network and the proxy of its connector, and whether a second client uses the account."},
	{machine.Unvouched, "its worker does not beat any more", "Bring the worker back; until then the account may not send."},
	{machine.Unverified, "its source has not spoken since Muster started or lost sight of it", "Check that the source is up and still reports to Muster."},
	{machine.UnexpectedStop, "somebody else stopped it", "Start it if it is wanted, or stop it as a user so that this is settled."},
	{machine.UnexpectedActivity, "it came up although it is to be stopped", "Find out who started it: stop it where it runs, or start it as a user if it is wanted."},
	{machine.IdentityUnverified, "it claims to be up before anyone paired it", "Check that the connector reports the right account, then start it or take it over with adopt."},
	{machine.SendStalled, "its messages stay pending, one after the other", "Send a test message by hand; restart the connection if it stays pending, too."},
	{machine.UserAction, "its owner must do something", "Do what the reason names, on the account's phone or in the vendor's pages."},
	{machine.TicketExpiring, "a ticket is near its end", "Let the connector renew the ticket; if it cannot, plan a new login."},
	{machine.FullResync, "the local copy must be rebuilt", "Rebuild the local copy from the server before its contents are trusted."},
	{AttentionNobodyAnswering, "a customer has waited 15 minutes for an answer", "Answer the customer, hand the conversation back to the bot, or end it."},
	{AttentionDamaged, "its history is not whole", "Put the missing records back from an archive; until then it can be read, and its writes are refused."},
}

// AttentionKinds lists the built-in kinds, the most pressing first.
func AttentionKinds() []AttentionKind { return slices.Clone(attentionKinds) }

// AttentionNamed says what a kind means. For one that only a user's own machine
// knows, it says where to look.
func AttentionNamed(name string) AttentionKind {
	if i := AttentionRank(name); i < len(attentionKinds) {
		return attentionKinds[i]
	}
	return AttentionKind{name, "its machine asks for a human", "Do what the machine's author meant by " + name + "."}
}

// AttentionRank orders kinds by how pressing they are, the most pressing first;
// all that only a user's own machine knows come last.
func AttentionRank(name string) int {
	if i := slices.IndexFunc(attentionKinds, func(k AttentionKind) bool { return k.Name == name }); i >= 0 {
		return i
	}
	return len(attentionKinds)
}
