package inbox

import "sync/atomic"

// Stats are the inbox's figures since this process began to read.
type Stats struct {
	Taken     uint64 `json:"taken"`     // messages judged, whatever the verdict
	Repeated  uint64 `json:"repeated"`  // of those, judged already by an earlier reader
	Forwarded uint64 `json:"forwarded"` // of those, sent to another partition's owner
	Parked    uint64 `json:"parked"`    // messages put aside, with a reason
	Retried   uint64 `json:"retried"`   // attempts after one that could not be judged yet
	Held      int64  `json:"held"`      // messages in this process, in judging or behind one of their account
	Waiting   uint64 `json:"waiting"`   // messages that are not settled, as of the last one that came
	Reading   bool   `json:"reading"`   // this process reads the inbox now
}

type counts struct {
	taken, repeated, forwarded, parked, retried atomic.Uint64
	held                                        atomic.Int64
	pending                                     atomic.Uint64
	reading                                     atomic.Bool
}

func (c *counts) stats() Stats {
	held := c.held.Load()
	return Stats{
		Taken: c.taken.Load(), Repeated: c.repeated.Load(), Forwarded: c.forwarded.Load(), Parked: c.parked.Load(),
		Retried: c.retried.Load(), Held: held, Waiting: c.pending.Load() + uint64(max(held, 0)), Reading: c.reading.Load(),
	}
}
