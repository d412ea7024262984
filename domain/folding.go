package domain

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// Folding is an account while its history is folded from the first event on and
// nobody looks at it: what [Evolve] does, for less. Evolve keeps the account
// ready to be judged after every event and never changes what others may share;
// a Folding changes all in place, orders nothing, and is made an [Account] at
// the end. Both give the same account for the same events.
//
// The zero Folding is an account without events.
type Folding struct {
	account Account
	begun   bool
	recent  recentLog

	messages      messageTable
	room          []foldedMessage // for messages to come
	marks         int             // closed messages
	closed        closedHeap      // by the time that closed them
	conversations map[string]*Conversation
	talk          Talk // without its trees
}

// foldedMessage is a message with its key.
type foldedMessage struct {
	inline [inlineKey]byte // the key, when there is room
	size   uint8           // of inline; 0: the key is in long
	gone   bool            // it was forgotten
	Message
	long string
}

// inlineKey is the length up to which a key lies beside its message, so that
// comparing it costs no look elsewhere.
const inlineKey = 32

func (m *foldedMessage) setKey(key string) {
	if len(key) <= inlineKey {
		m.size = uint8(copy(m.inline[:], key))
	} else {
		m.long = strings.Clone(key)
	}
}

func (m *foldedMessage) is(key string) bool {
	return m.size > 0 && string(m.inline[:m.size]) == key || m.size == 0 && m.long == key
}

// key returns a copy.
func (m *foldedMessage) key() string {
	if m.size > 0 {
		return string(m.inline[:m.size])
	}
	return m.long
}

// Keeps says whether Evolve would keep strings of the event as they are; the
// caller must own them then. Of other events, most of those about messages and
// conversations, it copies what it keeps.
func (f *Folding) Keeps(e *Event) bool {
	return !f.begun || e.Kind != KindMessage && e.Kind != KindConversation || len(e.Set) > 0 || e.Effects&effectsExtra != 0
}

// Touch looks at what Evolve will look at. Called for some events before the
// first of them is applied, it lets the processor wait for their memory at the
// same time and not one after the other. It changes nothing.
func (f *Folding) Touch(e *Event) (found bool) {
	if e.Kind != KindMessage {
		return f.begun
	}
	m, _ := f.messages.find(e.Key)
	return m != nil && m.First != 0 && len(f.recent.last) > 0
}

// Evolve applies an event.
func (f *Folding) Evolve(e *Event) {
	a := &f.account
	if !f.begun {
		f.account, f.begun = *newAccount(e), true
	}
	a.Version = e.Version
	if e.ID != "" {
		f.recent.add(e)
	}
	a.apply(e, true)
	justClosed := ""
	if e.legal() {
		switch e.Kind {
		case KindMessage:
			f.message(e)
			if e.Outcome == Applied {
				justClosed = e.Key
			}
		case KindConversation:
			f.conversation(e)
		}
	}
	f.forget(e.Recorded, justClosed)
}

// Account ends the folding and returns the account; nil when it has no events.
func (f *Folding) Account() *Account {
	if !f.begun {
		return nil
	}
	a := f.account
	a.Recent = f.recent.pack()
	t := f.talk
	all := f.messages.all()
	byKey := make(map[string]*Message, len(all))
	for _, m := range all {
		byKey[m.key()] = &m.Message
	}
	keys := slices.Sorted(maps.Keys(byKey))
	messages := make([]*Message, len(keys))
	for i, key := range keys {
		messages[i] = byKey[key]
	}
	t.messages = build(keys, messages)
	keys = slices.Sorted(maps.Keys(f.conversations))
	conversations := make([]*Conversation, len(keys))
	for i, key := range keys {
		conversations[i] = f.conversations[key]
	}
	t.conversations = build(keys, conversations)
	if t != (Talk{}) {
		a.Talk = &t
	}
	return &a
}

func (f *Folding) message(e *Event) {
	m, hash := f.messages.find(e.Key)
	if m == nil {
		m = f.newMessage(e)
		f.messages.add(m, hash)
	}
	at, was := m.marked()
	m.take(e, ownName)
	f.talk.tally(e)
	now, is := m.marked()
	if was {
		f.marks--
	}
	if is {
		f.marks++
		if !was || now != at {
			f.closed.push(closing{now, m})
		}
	}
}

// newMessage makes room for a message. It comes from a piece for several, since
// those that are made one after the other are forgotten so, too.
func (f *Folding) newMessage(e *Event) *foldedMessage {
	if len(f.room) == 0 {
		f.room = make([]foldedMessage, min(32, 4+f.messages.n/4))
	}
	m := &f.room[0]
	f.room = f.room[1:]
	m.Message = newMessage(e)
	m.setKey(e.Key)
	return m
}

func (f *Folding) conversation(e *Event) {
	c, known := f.conversations[e.Key]
	switch {
	case !known:
		if f.conversations == nil {
			f.conversations = map[string]*Conversation{}
		}
		c = &Conversation{State: ConversationBot}
		f.conversations[strings.Clone(e.Key)] = c
	case !e.turns():
		return
	}
	c.take(e, true)
}

// forget is that of Talk.
func (f *Folding) forget(now int64, justClosed string) {
	if f.marks <= maxClosed && (len(f.closed) == 0 || now-f.closed[0].at <= closedFor) {
		return
	}
	for f.marks > maxClosed {
		f.drop(f.oldest())
	}
	var spared *foldedMessage
	for m := f.oldest(); m != nil && now-m.Closed > closedFor; m = f.oldest() {
		if m.is(justClosed) {
			spared = m
		}
		f.drop(m)
	}
	if spared != nil {
		spared.gone = false
		_, hash := f.messages.find(spared.key())
		f.messages.add(spared, hash)
		f.marks++
		f.closed.push(closing{spared.Closed, spared})
	}
}

// oldest is the message that was closed first, nil when none is closed.
func (f *Folding) oldest() *foldedMessage {
	for len(f.closed) > 0 {
		c := f.closed[0]
		if at, is := c.message.marked(); is && at == c.at && !c.message.gone {
			return c.message
		}
		f.closed.pop()
	}
	return nil
}

// drop forgets the message on top of the heap.
func (f *Folding) drop(m *foldedMessage) {
	m.gone = true
	f.messages.remove(m)
	f.marks--
	f.closed.pop()
}

// closing is a message with a time that closed it; it counts while that is so.
type closing struct {
	at      int64
	message *foldedMessage
}

func (c closing) before(o closing) bool {
	if c.at != o.at {
		return c.at < o.at
	}
	return c.message.key() < o.message.key()
}

// closedHeap has the first one on top.
type closedHeap []closing

func (h *closedHeap) push(c closing) {
	*h = append(*h, c)
	list := *h
	for i := len(list) - 1; i > 0; {
		up := (i - 1) / 2
		if !list[i].before(list[up]) {
			return
		}
		list[i], list[up] = list[up], list[i]
		i = up
	}
}

func (h *closedHeap) pop() {
	list := *h
	last := len(list) - 1
	list[0], list[last] = list[last], closing{}
	list = list[:last]
	*h = list
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return
		}
		if down+1 < last && list[down+1].before(list[down]) {
			down++
		}
		if !list[down].before(list[i]) {
			return
		}
		list[i], list[down] = list[down], list[i]
		i = down
	}
}

// recentLog holds the last ids as they were given, at least the last 64 of
// them; they are hashed and packed only when the account is made.
type recentLog struct {
	last   []byte // for each: the id, and what Recent keeps behind its hash, with their lengths
	before []byte // the 64 ids before those
	n      int    // of last
}

func (r *recentLog) add(e *Event) {
	if r.n == maxRecent {
		r.before, r.last, r.n = r.last, r.before[:0], 0
	}
	b := append(binary.AppendUvarint(r.last, uint64(len(e.ID))), e.ID...)
	at := len(b)
	b = append(b, 0, 0, byte(e.Outcome))
	b = binary.AppendUvarint(appendName(appendName(b, e.From), e.To), e.Version)
	binary.LittleEndian.PutUint16(b[at:], uint16(len(b)-at-2))
	r.last = b
	r.n++
}

// pack is what Recent.add makes of the ids.
func (r *recentLog) pack() Recent {
	var list [][]byte // entries, packed
	for _, rest := range [...][]byte{r.before, r.last} {
		for len(rest) > 0 {
			n, used := binary.Uvarint(rest)
			id, entry := rest[used:used+int(n)], rest[used+int(n):]
			size := int(binary.LittleEndian.Uint16(entry))
			h := hashID(string(id))
			list = append(list, append(h[:], entry[2:2+size]...))
			rest = entry[2+size:]
		}
	}
	return Recent(bytes.Join(list[max(0, len(list)-maxRecent):], nil))
}
