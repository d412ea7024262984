package domain

import (
	"bytes"
	"encoding/binary"
)

// foldingWork is where a Folding's notes are folded: its messages, found by
// their keys, and by the time that closed them. Its memory is used again for
// the next Folding.
type foldingWork struct {
	f        *Folding
	talk     Talk
	recent   recentLog
	messages messageTable
	room     []foldedMessage // those that were made so far, forgotten ones too
	marks    int             // closed messages
	closed   closedHeap      // by the time that closed them
	handlers map[string]string
}

// foldedMessage is a message with its key.
type foldedMessage struct {
	inline [inlineKey]byte // the key, when there is room
	size   uint8           // of inline; 0: the key is in long
	gone   bool            // it was forgotten
	Message
	long []byte
}

// inlineKey is the length up to which a key lies beside its message, so that
// comparing it costs no look elsewhere.
const inlineKey = 32

func (m *foldedMessage) setKey(key []byte) {
	if len(key) <= inlineKey {
		m.size, m.long = uint8(copy(m.inline[:], key)), nil
	} else {
		m.size, m.long = 0, bytes.Clone(key)
	}
}

func (m *foldedMessage) is(key []byte) bool { return bytes.Equal(m.key(), key) }

// key is part of the message.
func (m *foldedMessage) key() []byte {
	if m.size > 0 {
		return m.inline[:m.size]
	}
	return m.long
}

// begin takes up a Folding that will need room for so many messages at most.
func (w *foldingWork) begin(f *Folding, most int) {
	w.f, w.talk, w.marks = f, f.talk, 0
	w.messages.clear(most)
	w.closed = w.closed[:0]
	if cap(w.room) < most {
		w.room = make([]foldedMessage, 0, 2*most)
	}
	w.room = w.room[:0]
}

// entry takes the first of the messages or notes and returns the rest.
func (w *foldingWork) entry(log []byte) []byte {
	r := noteReader{b: log}
	kind := r.byte()
	if kind == noteHeld {
		w.hold(&r)
		return r.b
	}
	n := note{kind: kind & noteKind, outcome: Outcome(log[1]), status: int(int8(log[2]))}
	n.effects = Effects(binary.LittleEndian.Uint32(log[3:]))
	n.at = int64(binary.LittleEndian.Uint64(log[7:]))
	n.recorded = int64(binary.LittleEndian.Uint64(log[15:]))
	version := binary.LittleEndian.Uint64(log[23:])
	r.b = log[noteFixed:]
	var id []byte
	from := ""
	if kind&noteID != 0 {
		id, from = r.text(), r.state()
	}
	n.to = r.state()
	if kind&noteID != 0 {
		w.recent.add(id, earlier{outcome: n.outcome, from: from, to: n.to, version: version})
	}
	if n.kind != noteOther {
		n.key = r.text()
	}
	legal := n.outcome == Applied || n.outcome == Noop
	var justClosed []byte
	switch n.kind {
	case noteMessage:
		n.within = replyWithinDefault
		if kind&noteMore != 0 {
			n.within, n.due = r.number(), r.number()
		}
		if legal {
			w.message(&n)
		}
		if n.outcome == Applied {
			justClosed = n.key
		}
	case noteConversation:
		if kind&noteMore != 0 {
			n.message, n.handler = r.text(), r.text()
		}
		if legal {
			w.conversation(&n)
		}
	}
	w.forget(n.recorded, justClosed)
	return r.b
}

// note is what stands in the log of an event. Its texts are part of the log's
// memory, but for the state that is gone to.
type note struct {
	kind             byte
	outcome          Outcome
	status           int
	effects          Effects
	at, recorded     int64
	to               string
	key              []byte
	within, due      int64
	message, handler []byte
}

// hold takes up a message as it was.
func (w *foldingWork) hold(r *noteReader) {
	m := w.make()
	var key []byte
	m.Message, key = r.message()
	m.setKey(key)
	w.messages.add(m, hashKey(key))
	w.mark(m)
}

// make makes room for a message; what it holds is of no message.
func (w *foldingWork) make() *foldedMessage {
	n := len(w.room)
	w.room = w.room[:n+1] // begin saw to that
	m := &w.room[n]
	m.gone = false
	return m
}

// mark enters a message that is closed.
func (w *foldingWork) mark(m *foldedMessage) {
	if at, is := m.marked(); is {
		w.marks++
		w.closed.push(closing{at, m})
	}
}

func (w *foldingWork) message(n *note) {
	m, hash := w.messages.find(n.key)
	if m == nil {
		m = w.make()
		m.Message = Message{First: n.at, Within: n.within}
		m.setKey(n.key)
		w.messages.add(m, hash)
	}
	at, was := m.marked()
	to := ""
	if n.outcome == Applied {
		to = n.to
	}
	m.fact(n.status, n.outcome, to, n.at, n.due, n.effects)
	w.talk.tally(statusIsAck(n.status), n.effects)
	now, is := m.marked()
	if was {
		w.marks--
	}
	if is {
		w.marks++
		if !was || now != at {
			w.closed.push(closing{now, m})
		}
	}
}

func (w *foldingWork) conversation(n *note) {
	f := w.f
	unanswered := n.status == noteUnanswered
	c, known := f.conversations[string(n.key)]
	switch {
	case !known:
		if f.conversations == nil {
			f.conversations = map[string]*Conversation{}
		}
		c = &Conversation{State: ConversationBot}
		f.conversations[string(n.key)] = c
	case n.outcome == Noop && !unanswered:
		return
	}
	t := turning{outcome: n.outcome, effects: n.effects, at: n.at, unanswered: unanswered}
	if n.outcome == Applied {
		t.to = n.to
	}
	if i := c.open(string(n.message)); n.effects == EffectClaim && i >= 0 {
		t.message = c.Turns[i].Message // the same text, which is held already
	} else if n.effects&(EffectOpensTurn|EffectClaim) != 0 {
		t.message = string(n.message)
	}
	if n.effects&EffectClaim != 0 {
		t.handler = w.handler(n.handler)
	}
	c.turn(&t, true)
}

// maxHandlers is how many names of handlers are held once for all.
const maxHandlers = 4096

// handler is a handler's name that may be kept.
func (w *foldingWork) handler(name []byte) string {
	if own, ok := w.handlers[string(name)]; ok {
		return own
	}
	own := string(name)
	if w.handlers == nil {
		w.handlers = map[string]string{}
	}
	if len(w.handlers) < maxHandlers {
		w.handlers[own] = own
	}
	return own
}

// save appends the messages that are left and says how many they are.
func (w *foldingWork) save(out []byte) ([]byte, uint32) {
	n := uint32(0)
	for i := range w.room {
		if m := &w.room[i]; !m.gone {
			out = m.appendHeld(out)
			n++
		}
	}
	w.f = nil
	return out, n
}

// forget is that of Talk.
func (w *foldingWork) forget(now int64, justClosed []byte) {
	if w.marks <= maxClosed && (len(w.closed) == 0 || now-w.closed[0].at <= closedFor) {
		return
	}
	for w.marks > maxClosed {
		w.drop(w.oldest())
	}
	var spared *foldedMessage
	for m := w.oldest(); m != nil && now-m.Closed > closedFor; m = w.oldest() {
		if m.is(justClosed) {
			spared = m
		}
		w.drop(m)
	}
	if spared != nil {
		spared.gone = false
		w.messages.add(spared, hashKey(justClosed))
		w.mark(spared)
	}
}

// oldest is the message that was closed first, nil when none is closed.
func (w *foldingWork) oldest() *foldedMessage {
	for len(w.closed) > 0 {
		c := w.closed[0]
		if at, is := c.message.marked(); is && at == c.at && !c.message.gone {
			return c.message
		}
		w.closed.pop()
	}
	return nil
}

// drop forgets the message on top of the heap.
func (w *foldingWork) drop(m *foldedMessage) {
	m.gone = true
	w.messages.remove(m)
	w.marks--
	w.closed.pop()
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
	return bytes.Compare(c.message.key(), o.message.key()) < 0
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

// recentSize is how many ids are held, in how many bytes.
type recentSize struct{ n, bytes uint32 }

// recentLog holds the last 64 ids as they were given; they are hashed and packed
// only when the account is made.
type recentLog struct {
	list []byte // for each: the id, and what Recent keeps behind its hash, with their lengths
	n    int
	skip int // ids to come that will not be among the last
}

// take takes up the ids that a Folding's bytes begin with, and returns what
// stands behind them. So many are to come: the oldest make room for them.
func (r *recentLog) take(size recentSize, in []byte, more int) []byte {
	r.skip = more - maxRecent
	r.n = min(int(size.n), maxRecent-min(more, maxRecent))
	held := noteReader{b: in[:size.bytes]}
	for range int(size.n) - r.n {
		held.text()
		held.text()
	}
	r.list = append(r.list[:0], held.b...)
	return in[size.bytes:]
}

func (r *recentLog) size() recentSize { return recentSize{uint32(r.n), uint32(len(r.list))} }

// add adds an id.
func (r *recentLog) add(id []byte, e earlier) {
	if r.skip > 0 {
		r.skip--
		return
	}
	b := appendText(r.list, id)
	at := len(b)
	b = append(b, 0, byte(e.outcome))
	b = binary.AppendUvarint(appendName(appendName(b, e.from), e.to), e.version)
	if size := len(b) - at - 1; size < 0x80 {
		b[at] = byte(size)
	} else {
		b = appendText(b[:at], bytes.Clone(b[at+1:]))
	}
	r.list = b
	r.n++
}

// packRecent is what Recent.add makes of the ids.
func packRecent(list []byte) Recent {
	var b []byte
	for rest := (noteReader{b: list}); len(rest.b) > 0; {
		h := hashID(string(rest.text()))
		b = append(append(b, h[:]...), rest.text()...)
	}
	return Recent(b)
}
