// Package sim plays a fleet of messaging accounts: what its connectors and its
// operators would tell Muster, seeded, so that the same seed gives the same
// fleet for ever.
//
// It owns the stories (what accounts do, in which order, how long it takes) and
// the virtual clock on which they happen. A [Fleet] gives triggers in the order
// of that clock. [Events] judges them in process, for benchmarks; [Live] sends
// them to a server through the bus, from workers that beat, as fast as asked.
//
// The stories are open loop: an account's connector knows what really happens to
// its connection and does not ask Muster. They are made from what the peers'
// users report: QR codes that are renewed and expire, connections that come back
// within a second or not for an hour, limits, bans, logouts, deliveries that come
// late, twice or not at all.
//
// Nothing here is authoritative, and nothing is kept. What happens when something
// fails: Live waits for a server that is away and goes on; an account whose
// trigger got no verdict is left alone and counted.
package sim
