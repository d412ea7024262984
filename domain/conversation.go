package domain

import (
	"slices"

	"github.com/musterhq/muster/domain/machine"
)

// The states of a conversation: who is in charge.
const (
	ConversationBot   = "BOT"
	ConversationHuman = "HUMAN"
	ConversationEnded = "ENDED"
)

const (
	answerWithin = 15 * 60 * second
	maxClaims    = 256
	claimedHuman = "human" // the handler of what a human answered without a claim

	humanInCharge  = "human_in_charge"
	botInCharge    = "bot_in_charge"
	ended          = "ended"
	alreadyClaimed = "already_claimed"
)

// Conversation is what an account keeps of one contact.
type Conversation struct {
	State      string
	Turns      []Turn  // messages of the customer that nobody has answered, in the order in which they were told
	Claims     []Claim // the last 256, oldest first
	Granted    bool    // a claim was granted
	Unanswered bool    // it was told that nobody answers
}

// Turn is a customer's message that waits for an answer.
type Turn struct {
	Message string
	At      int64 // unix ns
}

// Claim says who answers, or has answered, a message.
type Claim struct {
	Message string
	Handler string
}

// marked says whether nobody answers in the conversation.
func (c *Conversation) marked() (int64, bool) { return 0, c.Unanswered }

// deadline is when a customer has waited too long for those who answer here.
func (c *Conversation) deadline() (at int64, rank int) {
	at = never
	if c.Unanswered || c.State == ConversationEnded || c.State == ConversationBot && !c.Granted {
		return at, RankUnanswered
	}
	for _, turn := range c.Turns {
		at = min(at, turn.At+answerWithin)
	}
	return at, RankUnanswered
}

func (c *Conversation) open(message string) int {
	return slices.IndexFunc(c.Turns, func(t Turn) bool { return t.Message == message })
}

// handler says who claimed a message.
func (c *Conversation) handler(message string) (handler string, claimed bool) {
	for i := range c.Claims {
		if c.Claims[i].Message == message {
			return c.Claims[i].Handler, true
		}
	}
	return "", false
}

// claim remembers who answers a message, and closes its turn. It changes only
// copies of the slices, unless nobody else has the conversation.
func (c *Conversation) claim(message, handler string, owned bool) {
	if i := c.open(message); i >= 0 {
		if !owned {
			c.Turns = slices.Clone(c.Turns)
		}
		c.Turns = slices.Delete(c.Turns, i, i+1)
	}
	kept := c.Claims
	if len(kept) >= maxClaims {
		kept = kept[len(kept)-maxClaims+1:]
	}
	if !owned {
		kept = append(make([]Claim, 0, len(kept)+1), kept...)
	}
	c.Claims = append(kept, Claim{Message: message, Handler: handler})
}

func (c *Conversation) appendCanonical(w *canonical) {
	w.text(c.State)
	w.number(int64(len(c.Turns)))
	for _, t := range c.Turns {
		w.text(t.Message)
		w.number(t.At)
	}
	w.number(int64(len(c.Claims)))
	for _, one := range c.Claims {
		w.text(one.Message)
		w.text(one.Handler)
	}
	w.flags(c.Granted, c.Unanswered)
}

func readConversation(r *canonicalReader) *Conversation {
	c := &Conversation{State: r.name()}
	for range r.count() {
		c.Turns = append(c.Turns, Turn{Message: r.text(), At: r.number()})
	}
	for range r.count() {
		c.Claims = append(c.Claims, Claim{Message: r.text(), Handler: r.text()})
	}
	r.flags(&c.Granted, &c.Unanswered)
	return c
}

// conversation judges a fact about a conversation.
func (r *ruling) conversation() {
	c := Conversation{State: ConversationBot}
	if known, ok := r.a.conversation(r.t.Key); ok {
		c = *known
	}
	if r.t.Name == "claim" {
		r.claim(&c)
		return
	}
	cell := r.j.table(r.j.defaults.Conversation, "conversation@1").Lookup(c.State, r.t.Name)
	if cell.Act == machine.Reject {
		r.reject(noEdge)
		return
	}
	if r.t.Name == "end" && c.State == ConversationHuman && r.t.By != ByUser {
		r.reject(humanInCharge)
		return
	}
	if r.t.Name == "customer_message" {
		message := r.t.Data.text("message")
		if _, claimed := c.handler(message); claimed || c.open(message) >= 0 {
			return
		}
		r.outcome = Applied
		r.effects |= EffectOpensTurn
	}
	if cell.Act == machine.Move {
		r.outcome, r.to = Applied, cell.To
	}
	if (r.t.Name == "human_replied" || r.t.Name == "end") && len(c.Turns) > 0 {
		r.outcome = Applied
		r.effects |= EffectClosesTurns
	}
}

// claim judges "may I answer this message?".
func (r *ruling) claim(c *Conversation) {
	d := r.t.Data
	side := d.text("side")
	handler, claimed := c.handler(d.text("message"))
	switch {
	case c.State == ConversationEnded:
		r.reject(ended)
	case c.State == ConversationHuman && side != "human":
		r.reject(humanInCharge)
	case c.State == ConversationBot && side != "bot":
		r.reject(botInCharge)
	case claimed && handler == d.text("handler"): // granted before
	case claimed:
		r.reject(alreadyClaimed)
	default:
		r.outcome = Applied
		r.effects |= EffectClaim
	}
}

// evolveConversation applies a fact to the conversations of an account. Any
// legal one makes its contact known.
func (t *Talk) evolveConversation(e *Event) {
	if !e.legal() {
		return
	}
	c := Conversation{State: ConversationBot}
	if old, ok := t.conversations.get(e.Key); ok {
		if !e.turns() {
			return
		}
		c = *old
	}
	c.take(e)
	t.conversations = t.conversations.put(e.Key, &c)
}

// turns says whether a legal event changes a conversation that is known.
func (e *Event) turns() bool { return e.Outcome != Noop || e.Trigger == "nobody_answering" }

// take applies a legal fact to its conversation. It changes only copies of the
// slices, and keeps the event's strings.
func (c *Conversation) take(e *Event) {
	t := turning{outcome: e.Outcome, effects: e.Effects, at: e.At, unanswered: e.Trigger == "nobody_answering"}
	if e.Outcome == Applied {
		t.to = intern(e.To)
	}
	if e.Effects&(EffectOpensTurn|EffectClaim) != 0 {
		t.message, t.handler = e.Data.text("message"), e.Data.text("handler")
	}
	c.turn(&t, false)
}

// turning is what a conversation takes from a legal fact.
type turning struct {
	outcome          Outcome
	effects          Effects
	at               int64
	unanswered       bool // it tells that nobody answers
	to               string
	message, handler string
}

// turn applies a fact and keeps its strings. It changes only copies of the
// slices, unless the conversation is owned: nobody else has it.
func (c *Conversation) turn(t *turning, owned bool) {
	switch {
	case t.outcome == Applied:
		c.State = t.to
	case t.unanswered:
		c.Unanswered = true
	}
	if t.effects&EffectOpensTurn != 0 {
		if !owned {
			c.Turns = slices.Clip(c.Turns)
		}
		c.Turns = append(c.Turns, Turn{Message: t.message, At: t.at})
	}
	if t.effects&EffectClosesTurns != 0 {
		for _, turn := range slices.Clone(c.Turns) {
			c.claim(turn.Message, claimedHuman, owned)
		}
	}
	if t.effects&EffectClaim != 0 {
		c.claim(t.message, t.handler, owned)
		c.Granted = true
	}
	if len(c.Turns) == 0 {
		c.Unanswered = false
		if c.Turns = c.Turns[:0]; !owned {
			c.Turns = nil
		}
	}
}
