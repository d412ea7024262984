package domain

import "encoding/binary"

// What stands in a Folding's notes and messages. The form is never stored.
const (
	noteOther        = iota // an event that is about neither; it has its id and its time
	noteMessage             // a fact about a message
	noteConversation        // a fact about a conversation
	noteHeld                // a message as it was

	noteKind = 3
	noteID   = 1 << 2 // the id follows
	noteMore = 1 << 3 // what the data says follows
)

// noteFixed is the length of what every note of an event begins with: its kind,
// the outcome, the status that the trigger tells of, the effects, the times it
// was observed and recorded at, and the version.
const noteFixed = 3 + 4 + 8 + 8 + 8

// noteUnanswered stands for the status in a note that tells that nobody answers.
const noteUnanswered = 0x7f

// mostNote is no less than the length of what is noted of an event.
func (b *Brief) mostNote() int {
	const lengths = 6 * binary.MaxVarintLen64
	return noteFixed + lengths + len(b.ID) + len(b.From) + len(b.To) + len(b.Key) + max(16, len(b.Message)+len(b.Handler))
}

// appendNote appends what is noted of an event.
func (b *Brief) appendNote(l []byte) []byte {
	kind, status := byte(noteOther), byte(statusOf(b.Trigger))
	switch b.Kind {
	case KindMessage:
		kind = noteMessage
		if b.HasWithin || b.Due != "" || b.dueAt != 0 {
			kind |= noteMore
		}
	case KindConversation:
		kind = noteConversation
		if b.Effects&(EffectOpensTurn|EffectClaim) != 0 {
			kind |= noteMore
		}
		if b.Trigger == "nobody_answering" {
			status = noteUnanswered
		}
	}
	if b.ID != "" {
		kind |= noteID
	}
	l = append(l, kind, byte(b.Outcome), status)
	l = binary.LittleEndian.AppendUint32(l, uint32(b.Effects))
	l = binary.LittleEndian.AppendUint64(l, uint64(b.At))
	l = binary.LittleEndian.AppendUint64(l, uint64(b.Recorded))
	l = binary.LittleEndian.AppendUint64(l, b.Version)
	if kind&noteID != 0 {
		l = appendText(l, b.ID)
		l = appendState(l, b.From)
	}
	l = appendState(l, b.To)
	if kind&noteKind != noteOther {
		l = appendText(l, b.Key)
	}
	if kind&noteMore != 0 {
		l = b.appendMore(l)
	}
	return l
}

// appendMore appends what the data says.
func (b *Brief) appendMore(l []byte) []byte {
	if b.Kind == KindConversation {
		return appendText(appendText(l, b.Message), b.Handler)
	}
	l = binary.LittleEndian.AppendUint64(l, uint64(b.waitsFor()))
	return binary.LittleEndian.AppendUint64(l, uint64(b.due()))
}

func appendText[T string | []byte](l []byte, s T) []byte {
	if len(s) < 0x80 {
		return append(append(l, byte(len(s))), s...)
	}
	return append(binary.AppendUvarint(l, uint64(len(s))), s...)
}

// appendState appends a name, mostly one byte.
func appendState(l []byte, name string) []byte {
	if i, ok := wellKnownAt(name); ok {
		return append(l, i)
	}
	return appendText(append(l, literal), name)
}

// Which of a held message's fields follow, beside the times of its statuses.
const (
	heldLate = 1 << iota
	heldWatched
	heldWithin // another than the usual one
	heldDue
	heldClosed
)

// appendHeld appends a message as it is.
func (m *foldedMessage) appendHeld(l []byte) []byte {
	var has, times byte
	set := func(bit byte, on bool) {
		if on {
			has |= bit
		}
	}
	set(heldLate, m.Late)
	set(heldWatched, m.Watched)
	set(heldWithin, m.Within != replyWithinDefault)
	set(heldDue, m.Due != 0)
	set(heldClosed, m.Closed != 0)
	for i, at := range m.Times {
		if at != 0 {
			times |= 1 << i
		}
	}
	l = append(l, noteHeld, has, times)
	l = appendState(l, m.State)
	number := func(n int64) { l = binary.LittleEndian.AppendUint64(l, uint64(n)) }
	number(m.First)
	if has&heldWithin != 0 {
		number(m.Within)
	}
	if has&heldDue != 0 {
		number(m.Due)
	}
	if has&heldClosed != 0 {
		number(m.Closed)
	}
	for _, at := range m.Times {
		if at != 0 {
			number(at)
		}
	}
	return appendText(l, m.key())
}

// noteReader reads what Folding wrote itself.
type noteReader struct{ b []byte }

func (r *noteReader) byte() byte {
	x := r.b[0]
	r.b = r.b[1:]
	return x
}

func (r *noteReader) number() int64 {
	n := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return int64(n)
}

// text is part of the log's memory.
func (r *noteReader) text() []byte {
	n, used := uint64(r.b[0]), 1
	if n >= 0x80 {
		n, used = binary.Uvarint(r.b)
	}
	s := r.b[used : used+int(n)]
	r.b = r.b[used+int(n):]
	return s
}

// state is a name, which may be kept.
func (r *noteReader) state() string {
	if x := r.byte(); x != literal {
		return wellKnown[x]
	}
	return string(r.text())
}

// message reads a message behind the byte that says what it is. The key is part
// of the log's memory.
func (r *noteReader) message() (m Message, key []byte) {
	has, times := r.byte(), r.byte()
	m.State = r.state()
	m.First, m.Within = r.number(), replyWithinDefault
	m.Late, m.Watched = has&heldLate != 0, has&heldWatched != 0
	if has&heldWithin != 0 {
		m.Within = r.number()
	}
	if has&heldDue != 0 {
		m.Due = r.number()
	}
	if has&heldClosed != 0 {
		m.Closed = r.number()
	}
	for i := range m.Times {
		if times&(1<<i) != 0 {
			m.Times[i] = r.number()
		}
	}
	return m, r.text()
}
