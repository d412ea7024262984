package talk

import (
	"maps"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/internal/lengths"
	"github.com/musterhq/muster/projections/internal/wire"
)

// Funnel is what became of messages. Made, Entered, Late and Delay count since
// the beginning of the history and lose nothing when a message or an account is
// forgotten; Open and Closed are what is known now. A fact about a message that
// was forgotten (24 h after it was closed) makes it again.
type Funnel struct {
	Made    uint64            // messages
	Entered map[string]uint64 // how often a message came into a state; one that timed out and was then replied to counts in both
	Late    uint64            // replies that came after the timeout
	Delay   lengths.Lengths   // from the first of pending and sent (of the first fact, if neither came before the reply) to the reply

	Open   map[string]int // messages by state: PENDING, SENT, DELIVERED, READ
	Closed int            // messages that are REPLIED, TIMED_OUT or FAILED and not forgotten yet
}

// Sides is who is in charge of the conversations.
type Sides struct {
	Conversations map[string]int    // by state: BOT, HUMAN, ENDED
	Waiting       map[string]int    // those of them with a customer's message that nobody has answered
	Unanswered    int               // those of which it was told that nobody answers
	Claims        map[string]uint64 // granted since the beginning, by side: bot, human
}

// Funnel tells what became of all messages.
func (v *View) Funnel() Funnel {
	f := Funnel{Entered: map[string]uint64{}, Open: map[string]int{}}
	for _, s := range v.Parts() {
		s.mu.RLock()
		f.Made += s.told.made
		f.Late += s.told.late
		f.Delay.Merge(&s.told.delay)
		addAll(f.Entered, s.told.entered)
		addAll(f.Open, s.now.open)
		f.Closed += s.shown.Messages
		s.mu.RUnlock()
	}
	for _, n := range f.Open {
		f.Closed -= n
	}
	return f
}

// Sides tells who is in charge of all conversations.
func (v *View) Sides() Sides {
	n := Sides{Conversations: map[string]int{}, Waiting: map[string]int{}, Claims: map[string]uint64{}}
	for _, s := range v.Parts() {
		s.mu.RLock()
		addAll(n.Conversations, s.now.side)
		addAll(n.Waiting, s.now.waiting)
		n.Unanswered += s.now.unanswered
		addAll(n.Claims, s.told.claims)
		s.mu.RUnlock()
	}
	return n
}

func addAll[N int | uint64](sum, counts map[string]N) {
	for name, n := range counts {
		if n != 0 {
			sum[name] += n
		}
	}
}

// told counts what happened, since the beginning.
type told struct {
	made, late      uint64
	entered, claims map[string]uint64
	delay           lengths.Lengths
}

// take counts an event; before and after are what was known of its account. The
// event's To is the shard's own.
func (n *told) take(e *domain.Event, before, after *domain.Talk) {
	if e.Outcome != domain.Applied {
		return
	}
	if e.Effects&domain.EffectClaim != 0 {
		if side, _ := e.Data["side"].(string); side == "human" {
			n.claims["human"]++
		} else {
			n.claims["bot"]++
		}
	}
	if e.Kind != domain.KindMessage {
		return
	}
	if _, known := before.Message(e.Key); !known {
		n.made++
	}
	n.entered[e.To]++
	m, ok := after.Message(e.Key)
	if !ok || e.To != domain.MessageReplied {
		return
	}
	if m.Late {
		n.late++
	}
	n.delay.Add(max(0, time.Duration(e.At-begun(m))))
}

// begun is when the wait for a reply began.
func begun(m *domain.Message) int64 {
	pending, sent := m.TimeOf("pending"), m.TimeOf("sent")
	switch {
	case pending != 0 && (sent == 0 || pending < sent):
		return pending
	case sent != 0:
		return sent
	}
	return m.First
}

func (n *told) save(out *wire.Writer) {
	out.Uint(n.made)
	out.Uint(n.late)
	for _, counts := range []map[string]uint64{n.entered, n.claims} {
		out.Uint(uint64(len(counts)))
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			out.String(name)
			out.Uint(counts[name])
		}
	}
	n.delay.Save(out)
}

func (n *told) load(in *wire.Reader) {
	n.made, n.late = in.Uint(), in.Uint()
	for _, counts := range []map[string]uint64{n.entered, n.claims} {
		for k := in.Len(); k > 0 && in.Err() == nil; k-- {
			name := in.String()
			counts[name] = in.Uint()
		}
	}
	n.delay.Load(in)
}

// now counts what is known and shown: open messages, and conversations.
type now struct {
	open, side, waiting map[string]int
	unanswered          int
}

func newNow() now {
	return now{open: map[string]int{}, side: map[string]int{}, waiting: map[string]int{}}
}

func (n *now) message(m *domain.Message, d int) {
	switch m.State {
	case domain.MessageReplied, domain.MessageTimedOut, domain.MessageFailed:
	default:
		n.open[m.State] += d
	}
}

func (n *now) conversation(c *domain.Conversation, d int) {
	n.side[c.State] += d
	if len(c.Turns) > 0 {
		n.waiting[c.State] += d
	}
	if c.Unanswered {
		n.unanswered += d
	}
}

// key counts what an account has under the key of an event: nothing else of what
// is counted here changes by it.
func (n *now) key(t *domain.Talk, e *domain.Event, d int) {
	switch e.Kind {
	case domain.KindMessage:
		if m, ok := t.Message(e.Key); ok {
			n.message(m, d)
		}
	case domain.KindConversation:
		if c, ok := t.Conversation(e.Key); ok {
			n.conversation(c, d)
		}
	}
}

// all counts everything that an account has.
func (n *now) all(t *domain.Talk, d int) {
	t.MessagesBehind("", domain.AllMessages, func(_ string, m *domain.Message) bool {
		n.message(m, d)
		return true
	})
	t.ConversationsBehind("", domain.AllConversations, func(_ string, c *domain.Conversation) bool {
		n.conversation(c, d)
		return true
	})
}
