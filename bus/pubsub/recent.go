package pubsub

// minRecent is how many acknowledgements are remembered at least.
const minRecent = 256

// recent remembers the latest acknowledgements, for the case that they were
// lost with the connection. The server knows of no more unacknowledged messages
// than InFlight, and what was lost is the end of what was sent, so that many are
// enough.
type recent struct {
	size int
	ring []ackSent
	next int
	at   map[uint64]int // sequence → place in the ring
}

type ackSent struct {
	seq   uint64
	reply string
}

func (r *recent) add(seq uint64, reply string) {
	if len(r.ring) < r.size {
		r.ring = append(r.ring, ackSent{seq, reply})
		r.at[seq] = len(r.ring) - 1
		return
	}
	if old := r.ring[r.next]; r.at[old.seq] == r.next {
		delete(r.at, old.seq)
	}
	r.ring[r.next] = ackSent{seq, reply}
	r.at[seq] = r.next
	r.next = (r.next + 1) % r.size
}

// replies returns where they were sent, oldest first.
func (r *recent) replies() []string {
	replies := make([]string, 0, len(r.ring))
	for i := range r.ring {
		replies = append(replies, r.ring[(r.next+i)%len(r.ring)].reply)
	}
	return replies
}
