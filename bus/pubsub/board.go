package pubsub

import (
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

// item is a message that this member has and has not acknowledged.
type item struct {
	raw   jetstream.Msg
	meta  *jetstream.MsgMetadata
	key   string
	msg   *message.Message // as first unmarshalled; nil once it was handed out
	fault error            // it cannot be unmarshalled: to be parked
	nacks int              // how often it was nacked here

	// Guarded by the board.
	reply string    // where the latest delivery is acknowledged
	told  time.Time // when the server last heard of it
}

func (it *item) seq() uint64 { return it.meta.Sequence.Stream }

// deliveries counts the server's deliveries and those after a nack, which come
// from here.
func (it *item) deliveries() int { return int(it.meta.NumDelivered) + it.nacks }

// line is what waits behind a key's item that is being worked on, in stream order.
type line struct{ waiting []*item }

// board holds a member's items and says which may be worked on: one of each
// key, in the order in which they came. Lanes ask it for work.
type board struct {
	mu      sync.Mutex
	more    sync.Cond // an item is ready, or the board is closed
	held    map[uint64]*item
	lines   map[string]*line // of keys with an item ready or at work
	ready   []*item
	idle    int // lanes that wait for an item
	lanes   int
	limit   int // of lanes
	closed  bool
	recent  recent
	newLane func() // starts a lane; called with the lock held
}

func newBoard(limit int, newLane func()) *board {
	b := &board{
		held: map[uint64]*item{}, lines: map[string]*line{}, limit: limit, newLane: newLane,
		recent: recent{size: max(limit, minRecent), at: map[uint64]int{}},
	}
	b.more.L = &b.mu
	return b
}

// again looks whether a delivery is one of something that is known already.
// held: it is here, and from now on acknowledged by the new reply. acked: it
// was acknowledged a moment ago.
func (b *board) again(seq uint64, reply string, now time.Time) (held, acked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if it := b.held[seq]; it != nil {
		it.reply, it.told = reply, now
		return true, false
	}
	_, acked = b.recent.at[seq]
	return false, acked
}

// add takes an item that is not known. On a closed board it is only held, to be
// given back.
func (b *board) add(it *item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[it.seq()] = it
	if b.closed {
		return
	}
	if it.fault == nil {
		if l := b.lines[it.key]; l != nil {
			l.waiting = append(l.waiting, it)
			return
		}
		b.lines[it.key] = &line{}
	}
	b.ready = append(b.ready, it)
	if b.idle == 0 && b.lanes < b.limit {
		b.lanes++
		b.newLane()
		return
	}
	b.more.Signal()
}

// next waits for an item to work on; nil = the board is closed.
func (b *board) next() *item {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nextLocked()
}

func (b *board) nextLocked() *item {
	for len(b.ready) == 0 && !b.closed {
		b.idle++
		b.more.Wait()
		b.idle--
	}
	if b.closed {
		return nil
	}
	it := b.ready[0]
	b.ready[0] = nil
	b.ready = b.ready[1:]
	return it
}

// acked takes an item off the board and returns where it is acknowledged. The
// next of its key becomes ready.
func (b *board) acked(it *item, now time.Time) (reply string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, it.seq())
	b.recent.add(it.seq(), it.reply)
	if it.fault == nil {
		b.advance(it.key)
	}
	return it.reply
}

func (b *board) advance(key string) {
	l := b.lines[key]
	if len(l.waiting) == 0 {
		delete(b.lines, key)
		return
	}
	next := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	b.ready = append(b.ready, next)
	b.more.Signal()
}

// close ends the lanes that wait; items that come later are only held.
func (b *board) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.more.Broadcast()
}

// silent returns where the server is told that work goes on, for the items of
// which it has not heard since then.
func (b *board) silent(since, now time.Time) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var replies []string
	for _, it := range b.held {
		if it.told.Before(since) {
			it.told = now
			replies = append(replies, it.reply)
		}
	}
	return replies
}

// rest returns where what is still held is given back, in stream order.
func (b *board) rest() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var replies []string
	for _, seq := range b.heldLocked() {
		replies = append(replies, b.held[seq].reply)
	}
	return replies
}

// lowest returns the lowest sequence that is held, 0 when there is none.
func (b *board) lowest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if seqs := b.heldLocked(); len(seqs) > 0 {
		return seqs[0]
	}
	return 0
}

// count returns how many items are held.
func (b *board) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held)
}

func (b *board) heldLocked() []uint64 {
	seqs := make([]uint64, 0, len(b.held))
	for seq := range b.held {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

// lastAcks returns where the latest acknowledgements were sent.
func (b *board) lastAcks() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recent.replies()
}

// forgetAcks forgets the latest acknowledgements.
func (b *board) forgetAcks() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent = recent{size: b.recent.size, at: map[uint64]int{}}
}
