package sim

import (
	"time"

	"github.com/musterhq/muster/domain"
)

// contacts is how many customers an account has.
const contacts = 40

// fact plans one fact about a message or a conversation.
func (a *actor) fact(at int64, trigger, key string, d domain.Data) {
	a.add(step{at: at, what: talks, trigger: trigger, key: key, data: d})
}

// message plans the life of a message that the account sends.
func (a *actor) message(at int64) {
	a.n++
	key := name("m-", a.n)
	if a.kind == whatsapp1 {
		a.strictMessage(at, key)
		return
	}
	a.fact(at, "message_pending", key, nil)
	at = after(at, a.between(300*time.Millisecond, 2*time.Second))
	if a.chance(0.03) {
		a.fact(at, "message_failed", key, nil)
		return
	}
	if a.chance(0.995) { // else it stays pending
		a.fact(at, "message_sent", key, nil)
	}
	if !a.chance(0.9) {
		return
	}
	delivered := after(at, a.about(8*time.Second))
	if a.chance(0.85) { // a message that is read at once is not always called delivered
		a.fact(delivered, "message_delivered", key, nil)
	}
	if !a.chance(0.6) {
		return
	}
	read := after(delivered, a.about(4*time.Minute))
	a.fact(read, "message_read", key, nil)
	if a.chance(0.4) {
		a.fact(after(read, a.about(9*time.Minute)), "message_replied", key, nil)
	}
}

// strictMessage is a message of which only sending and the reply are told.
func (a *actor) strictMessage(at int64, key string) {
	a.fact(at, "message_sent", key, nil)
	if a.chance(0.3) {
		a.fact(after(at, a.about(6*time.Minute)), "message_replied", key, nil)
	}
}

// customer plans what a customer's message leads to.
func (a *actor) customer(at int64) {
	a.n++
	contact, message := name("c-", int64(a.rng.Uint64()%contacts)), name("in-", a.n)
	a.fact(at, "customer_message", contact, domain.Data{"message": message})
	claim := func(at int64, side, handler string) {
		a.fact(at, "claim", contact, domain.Data{"message": message, "side": side, "handler": handler})
	}
	at = after(at, a.between(500*time.Millisecond, 4*time.Second))
	switch a.pick([]float64{80, 4, 8, 6, 2}) {
	case 0:
		claim(at, "bot", "bot-1")
	case 1: // two bots want to answer
		claim(at, "bot", "bot-1")
		claim(after(at, 100*time.Millisecond), "bot", "bot-2")
	case 2: // a person takes over, and gives it back some time later
		a.fact(at, "take_over", contact, domain.Data{"agent": "dana"})
		at = after(at, a.between(20*time.Second, 5*time.Minute))
		claim(at, "human", "dana")
		at = after(at, a.between(time.Minute, 20*time.Minute))
		if a.chance(0.6) {
			a.fact(at, "hand_back", contact, nil)
			return
		}
		a.add(step{at: at, what: talks, trigger: "end", key: contact, by: domain.ByUser})
	case 3: // somebody answers from the phone
		a.fact(after(at, a.about(3*time.Minute)), "human_replied", contact, nil)
		a.fact(after(at, 30*time.Minute), "hand_back", contact, nil)
	}
}
