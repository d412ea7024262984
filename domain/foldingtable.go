package domain

import "hash/maphash"

// messageTable finds messages by their keys: a hash table with linear probing,
// whose slots tell most misses without a look at the message. What it holds has
// no order. It is for [Folding], which spends most of its time here.
type messageTable struct {
	slots []messageSlot // as many as a power of two, at most three quarters full
	room  []messageSlot // slots of before, to be used again
	n     int
}

type messageSlot struct {
	hash    uint64
	message *foldedMessage // nil = free
}

var messageSeed = maphash.MakeSeed()

func hashKey(key []byte) uint64 { return maphash.Bytes(messageSeed, key) }

// clear empties the table and makes it large enough for so many messages.
func (t *messageTable) clear(most int) {
	size := 8
	for 4*most > 3*size {
		size *= 2
	}
	if cap(t.room) < size {
		t.room = make([]messageSlot, size)
	}
	t.slots, t.n = t.room[:size], 0
	clear(t.slots)
}

// find returns the message of a key, nil when there is none, and the key's hash.
func (t *messageTable) find(key []byte) (*foldedMessage, uint64) {
	h := hashKey(key)
	if t.n == 0 {
		return nil, h
	}
	mask := uint64(len(t.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.message == nil {
			return nil, h
		}
		if s.hash == h && s.message.is(key) {
			return s.message, h
		}
	}
}

// add adds a message that is not there; h is its key's hash. There is room for
// as many as clear was told of.
func (t *messageTable) add(m *foldedMessage, h uint64) {
	t.place(messageSlot{h, m})
	t.n++
}

func (t *messageTable) place(s messageSlot) {
	mask := uint64(len(t.slots) - 1)
	i := s.hash & mask
	for t.slots[i].message != nil {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

// remove takes a message out that is there. What stands behind it moves up, so
// that there are no gaps on the way to it.
func (t *messageTable) remove(m *foldedMessage) {
	mask := uint64(len(t.slots) - 1)
	i := hashKey(m.key()) & mask
	for t.slots[i].message != m {
		i = (i + 1) & mask
	}
	for j := i; ; {
		j = (j + 1) & mask
		s := t.slots[j]
		if s.message == nil {
			break
		}
		if (j-s.hash)&mask >= (j-i)&mask { // it may stand at i: its own place is not behind that
			t.slots[i], i = s, j
		}
	}
	t.slots[i] = messageSlot{}
	t.n--
}
