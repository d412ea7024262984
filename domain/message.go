package domain

import (
	"math"
	"time"

	"github.com/musterhq/muster/domain/machine"
)

// The states of a message.
const (
	MessagePending   = "PENDING"
	MessageSent      = "SENT"
	MessageDelivered = "DELIVERED"
	MessageRead      = "READ"
	MessageReplied   = "REPLIED"
	MessageTimedOut  = "TIMED_OUT"
	MessageFailed    = "FAILED"

	messageNew = "NEW" // the table's name for a message that is not known
)

// The spans of the message rules.
const (
	replyWithinDefault = 30 * 60 * second
	stalledAfter       = 15 * 60 * second
	closedFor          = int64(24 * time.Hour)
	maxClosed          = 10_000
	stalledRow         = 3
)

// Message is what an account keeps of one message.
type Message struct {
	State   string
	First   int64           // time of the fact that made it, unix ns
	Within  int64           // how long a reply is waited for, ns; never = it does not time out
	Times   [statuses]int64 // earliest known time of each status, unix ns; 0 = not known
	Due     int64           // the time for which the timeout that fired was due; 0 = none fired
	Closed  int64           // when it was closed (replied, timed out, failed), unix ns
	Late    bool            // the reply came after its timeout
	Watched bool            // it will be told when it stays pending
}

// statuses is the number of statuses of which the time is kept.
const statuses = 6

// statusOf is the number of the status that a trigger tells of; -1: of none.
func statusOf(trigger string) int {
	switch trigger {
	case "message_pending":
		return 0
	case "message_sent":
		return 1
	case "message_delivered":
		return 2
	case "message_read":
		return 3
	case "message_replied":
		return 4
	case "message_failed":
		return 5
	}
	return -1
}

// isAck says whether a trigger proves that a message left the account.
func isAck(trigger string) bool {
	switch trigger {
	case "message_sent", "message_delivered", "message_read", "message_replied":
		return true
	}
	return false
}

// statusIsAck is isAck, of the status that the trigger tells of.
func statusIsAck(status int) bool { return status >= 1 && status <= 4 }

// marked says when the message was closed.
func (m *Message) marked() (int64, bool) {
	switch m.State {
	case MessageReplied, MessageTimedOut, MessageFailed:
		return m.Closed, true
	}
	return 0, false
}

// deadline is the message's next: that it stays pending, or its timeout, which
// fires once however often the message is opened again.
func (m *Message) deadline() (at int64, rank int) {
	at, rank = never, RankTimedOut
	if _, closed := m.marked(); !closed && m.Due == 0 {
		at = m.timeout()
	}
	if m.State == MessagePending && m.Watched {
		if stalls := m.Times[0] + stalledAfter; stalls <= at {
			return stalls, RankStalled
		}
	}
	return at, rank
}

// timeout is when the message times out: after the first of pending and sent,
// or the fact that made it.
func (m *Message) timeout() int64 {
	pending, sent := m.Times[0], m.Times[1]
	from := m.First
	switch {
	case pending != 0 && sent != 0:
		from = min(pending, sent)
	case pending != 0:
		from = pending
	case sent != 0:
		from = sent
	}
	if m.Within > never-max(from, 0) {
		return never
	}
	return from + m.Within
}

func (m *Message) appendCanonical(w *canonical) {
	w.text(m.State)
	w.number(m.First, m.Within, m.Due, m.Closed)
	w.number(m.Times[:]...)
	w.flags(m.Late, m.Watched)
}

func readMessage(r *canonicalReader) *Message {
	m := &Message{State: r.name(), First: r.number(), Within: r.number(), Due: r.number(), Closed: r.number()}
	for i := range m.Times {
		m.Times[i] = r.number()
	}
	r.flags(&m.Late, &m.Watched)
	return m
}

// message judges a fact about a message.
func (r *ruling) message() {
	state, known := messageNew, Message{}
	if m, ok := r.a.message(r.t.Key); ok {
		state, known = m.State, *m
	}
	cell := r.j.messageMachine(r.m).Lookup(state, r.t.Name)
	if cell.Act == machine.Reject {
		r.reject(noEdge)
		return
	}
	if cell.Act == machine.Move && (cell.When != machine.WhenLater || r.at > known.Closed) {
		r.outcome, r.to = Applied, cell.To
	}
	if r.outcome == Applied && r.to == MessageReplied && known.Due != 0 && r.at > known.Due {
		r.effects |= EffectLate
	}
	if r.outcome == Applied && r.to == MessagePending && r.m.Has(machine.SendStalled) {
		r.effects |= EffectWatch
	}
	if isAck(r.t.Name) {
		r.end(machine.SendStalled)
	}
	if r.t.Name == "message_stalled" {
		r.effects |= EffectStalled
		if t := r.a.Talk; t != nil && t.Acked && t.Row+1 >= stalledRow {
			r.put(machine.SendStalled, "", 0, "")
		}
	}
}

// messageMachine is the table for the messages of accounts of a machine.
func (j *Judge) messageMachine(m *machine.Machine) *machine.Machine {
	name := j.defaults.Message
	if name == "" {
		name = m.Definition().Messages
	}
	return j.table(name, "message@2")
}

// table returns a machine by name, or the standard one for "".
func (j *Judge) table(name, standard string) *machine.Machine {
	if name == "" {
		name = standard
	}
	m, ok := j.machines.Get(name)
	if !ok {
		return &machine.Machine{} // rejects everything
	}
	return m
}

// evolveMessage applies a fact to the messages of an account.
func (t *Talk) evolveMessage(e *Event) {
	if !e.legal() {
		return
	}
	var m Message
	if old, ok := t.messages.get(e.Key); ok {
		m = *old
	} else {
		m = newMessage(e)
	}
	m.take(e)
	t.tally(isAck(e.Trigger), e.Effects)
	t.messages = t.messages.put(e.Key, &m)
}

func newMessage(e *Event) Message { return Message{First: e.At, Within: waitsFor(e.Data)} }

// take applies a legal fact to its message.
func (m *Message) take(e *Event) {
	to, due := "", int64(0)
	if e.Outcome == Applied {
		to = intern(e.To)
		if to == MessageTimedOut {
			due = e.Data.time("due")
		}
	}
	m.fact(statusOf(e.Trigger), e.Outcome, to, e.At, due, e.Effects)
}

// fact is take, of what it looks at: the status that the trigger tells of, and
// the time for which a timeout was due.
func (m *Message) fact(status int, outcome Outcome, to string, at, due int64, effects Effects) {
	if status >= 0 && (m.Times[status] == 0 || at < m.Times[status]) {
		m.Times[status] = at
	}
	if outcome == Applied {
		m.State = to
		m.Late = effects&EffectLate != 0
		switch to {
		case MessageReplied, MessageFailed:
			m.Closed = at
		case MessageTimedOut:
			m.Closed = at
			m.Due = due
		default:
			m.Closed = 0
		}
	}
	m.Watched = (m.Watched || effects&EffectWatch != 0) && effects&EffectStalled == 0
}

// tally counts the messages in a row that stay pending, and notes that one left.
func (t *Talk) tally(ack bool, effects Effects) {
	if effects&EffectStalled != 0 {
		t.Row++
	}
	if ack {
		t.Acked, t.Row = true, 0
	}
}

// waitsFor is how long a reply is waited for, as the fact that makes a
// message says.
func waitsFor(d Data) int64 { return waitsWithin(d.count("reply_within")) }

func waitsWithin(n int64, ok bool) int64 {
	switch {
	case !ok:
		return replyWithinDefault
	case n <= 0 || n > math.MaxInt64/second:
		return never
	default:
		return n * second
	}
}

// forget drops closed messages that are too old, or too many. The one that was
// closed just now stays for the next event, however old its time is.
func (t *Talk) forget(now int64, justClosed string) {
	old := func() *node[*Message] {
		if root := t.messages.root; root != nil && root.oldest != nil && now-root.oldest.markedAt > closedFor {
			return root.oldest
		}
		return nil
	}
	for t.messages.root != nil && t.messages.root.marks > maxClosed {
		t.messages = t.messages.remove(t.messages.root.oldest.key)
	}
	var spared *Message
	for n := old(); n != nil; n = old() {
		if n.key == justClosed {
			spared = n.value
		}
		t.messages = t.messages.remove(n.key)
	}
	if spared != nil {
		t.messages = t.messages.put(justClosed, spared)
	}
}
