// Package wuzapi reads the webhooks of wuzapi.
//
// The server passes on the events of its library one by one: QR codes, pairing,
// connected, disconnected, logged out, bans, pings that fail, receipts, messages.
// They come as JSON or as a form. Events of the session carry no id and no time,
// and two of them may be equal byte for byte, so they are ordered by their
// arrival and a repeat is judged again, to no effect.
//
// Old builds name the account by its access token only. The token is a secret, so
// such an account is named by a keyed digest of it; another key gives another
// name.
//
// The table in this package says which event becomes which triggers. What is
// authoritative is the account: the table only proposes. A body that is neither a
// JSON object nor a form with one is refused; whatever else is strange in it is
// "not known" and counted. Of a body only names, ids, times, codes and states are
// kept.
package wuzapi
