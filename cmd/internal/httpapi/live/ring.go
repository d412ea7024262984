package live

import (
	"slices"
	"sync"
)

// ring is the latest events of one partition, in the order of their sequence.
type ring struct {
	mu     sync.Mutex
	events []*Event // a circle when it is full
	next   int      // where the next one goes when it is full
	keep   int
	begun  bool   // something was put, or begin was called
	floor  uint64 // sequence of the last event that is not, or no longer, kept
	last   uint64 // sequence of the last event put
}

// begin says where the ring's events will begin: behind this sequence.
func (r *ring) begin(after uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun, r.floor, r.last = true, after, after
}

// put adds the event that comes next.
func (r *ring) put(e *Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = e.Seq
	if len(r.events) < r.keep {
		r.events = append(r.events, e)
		return
	}
	r.floor = r.events[r.next].Seq
	r.events[r.next] = e
	r.next = (r.next + 1) % r.keep
}

// take appends to buf up to most events behind a sequence. ok is false when some
// of these are not kept any more, or the ring has not begun.
func (r *ring) take(after uint64, most int, buf []*Event) (events []*Event, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun || after < r.floor {
		return buf, false
	}
	if after >= r.last {
		return buf, true
	}
	older, newer := r.events[r.next:], r.events[:r.next]
	if n := len(older); n == 0 || older[n-1].Seq <= after {
		older, newer = newer, nil
	}
	from, _ := slices.BinarySearchFunc(older, after+1, func(e *Event, seq uint64) int {
		switch {
		case e.Seq < seq:
			return -1
		case e.Seq > seq:
			return 1
		}
		return 0
	})
	older = older[from:]
	buf = append(buf, older[:min(most, len(older))]...)
	if rest := most - len(older); rest > 0 {
		buf = append(buf, newer[:min(rest, len(newer))]...)
	}
	return buf, true
}
