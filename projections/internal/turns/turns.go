// Package turns keeps what a fleet's customers wait for: the messages that
// nobody has answered, by contact, and whether it was told that nobody does.
//
// It owns the rule of domain.Evolve reduced to that, for views that need to know
// whether an account asks for a human and no more of its conversations. It holds
// a hash of a message's id and not the id: some 100 bytes for a contact that
// waits. It cannot fail. It is not safe for use by several goroutines.
package turns

import (
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/internal/wire"
)

// Turns are the open turns of one account, by contact. A contact without any has
// no entry. The zero Turns are ready for use.
type Turns struct {
	contacts map[string]*contact
}

// contact is one contact's messages that nobody has answered, each as a hash of
// its id.
type contact struct {
	open []uint64
	told bool // it was told that nobody answers
}

func hashOf(message any) uint64 {
	text, _ := message.(string)
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// Opens says whether an event opens a turn: for an account that has none, no
// other event of a conversation changes anything.
func Opens(e *domain.Event) bool {
	return e.Kind == domain.KindConversation && e.Outcome == domain.Applied && e.Effects&domain.EffectOpensTurn != 0
}

// Empty says whether no contact waits.
func (t *Turns) Empty() bool { return len(t.contacts) == 0 }

// Apply keeps the open turns, by the rules of domain.Evolve, and says whether
// Unanswered may have changed. It keeps nothing of e.
func (t *Turns) Apply(e *domain.Event) (changed bool) {
	if e.Kind != domain.KindConversation {
		return false
	}
	c := t.contacts[e.Key]
	switch {
	case Opens(e):
		if t.contacts == nil {
			t.contacts = map[string]*contact{}
		}
		if c == nil {
			c = &contact{}
			t.contacts[strings.Clone(e.Key)] = c
		}
		c.open = append(c.open, hashOf(e.Data["message"]))
		return false
	case c == nil:
		return false
	case e.Trigger == domain.AttentionNobodyAnswering:
		changed = !c.told
		c.told = true
		return changed
	case e.Outcome != domain.Applied:
		return false
	case e.Effects&domain.EffectClosesTurns != 0:
		c.open = nil
	case e.Effects&domain.EffectClaim != 0:
		if i := slices.Index(c.open, hashOf(e.Data["message"])); i >= 0 {
			c.open = slices.Delete(c.open, i, i+1)
		}
	}
	if len(c.open) > 0 {
		return false
	}
	delete(t.contacts, e.Key)
	return c.told
}

// Unanswered says whether it was told of some contact that nobody answers.
func (t *Turns) Unanswered() bool {
	for _, c := range t.contacts {
		if c.told {
			return true
		}
	}
	return false
}

// Save writes the turns.
func (t *Turns) Save(out *wire.Writer) {
	out.Uint(uint64(len(t.contacts)))
	for _, name := range slices.Sorted(maps.Keys(t.contacts)) {
		c := t.contacts[name]
		out.String(name)
		out.Bool(c.told)
		out.Uint(uint64(len(c.open)))
		for _, h := range c.open {
			out.Uint(h)
		}
	}
}

// Load replaces the turns by saved ones.
func (t *Turns) Load(in *wire.Reader) {
	t.contacts = nil
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		name := in.String()
		c := &contact{told: in.Bool()}
		for k := in.Len(); k > 0 && in.Err() == nil; k-- {
			c.open = append(c.open, in.Uint())
		}
		if t.contacts == nil {
			t.contacts = map[string]*contact{}
		}
		t.contacts[name] = c
	}
}
