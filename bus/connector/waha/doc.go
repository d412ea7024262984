// Package waha reads the webhooks of WAHA.
//
// WAHA tells a session's status (STARTING, SCAN_QR_CODE, WORKING, STOPPED,
// FAILED …) with the last three points of its history, passes on raw events of
// its engine, and tells messages and their acknowledgements. The history gives
// what order needs: the latest STARTING is the epoch, the time since then the
// sequence. Some things are known only from the engine's events, such as why a
// session failed; they belong to the connection that the account has then.
//
// The tables in this package say which event becomes which triggers. What is
// authoritative is the account: a table only proposes. A body that is no JSON
// object is refused; whatever else is strange in it is "not known" and counted.
// Of a body only names, ids, times, codes and states are kept.
package waha
