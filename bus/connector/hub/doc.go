// Package hub takes webhooks in: the HTTP handler below /hooks/, the same for
// all peers.
//
//	request → route → size → proof → apart → [ look → map → judge ] → answer
//
// It owns the order of these checks and the answer to each, the rule of
// duplicates, the order of deliveries of one account, the counters and the
// samples. What a request means is its [connector.Connector]'s alone, what
// becomes of a trigger the judge's.
//
// Authoritative is the history, which the hub sees through a [Ledger]: live, or
// the virtual one of a recorded sequence. 2xx is said only when everything that
// follows from a request is in it.
//
// What happens when something fails:
//
//   - the body does not arrive within its time, or not whole: 408 or 400, and
//     nothing of it is looked at;
//   - the log takes nothing now, or too many requests are being served: 503 with
//     Retry-After. What was stored before is a duplicate when the peer repeats it;
//   - another writer changes the account between the look and the judgement: the
//     account is looked at and mapped anew, a bounded number of times;
//   - the peer goes away: what it has sent whole is finished all the same.
package hub
