// Package evolution reads the webhooks of Evolution API.
//
// The server tells the state of an instance (connecting, open, close, refused),
// its QR codes, its end, and messages. It gives nothing that grows with
// connections, so the time of a fact orders it, and that time is the server's
// local clock which it writes as if it were UTC: the source's utc_offset says how
// far off that is. A loss is never told; the next connecting is the only sign.
// One logout is told three times; the judge makes one of it.
//
// The tables in this package say which event becomes which triggers. What is
// authoritative is the account: a table only proposes. A body that is no JSON
// object is refused; whatever else is strange in it is "not known" and counted.
// Of a body only names, ids, times, codes and states are kept, and nothing of
// the API key that travels in each of them.
package evolution
