package attention

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/musterhq/muster/domain"
)

// turns are a contact's messages that nobody has answered, each as a hash of its
// id. A contact without any has no entry.
type turns struct {
	open []uint64
	told bool // it was told that nobody answers
}

func hashOf(message any) uint64 {
	text, _ := message.(string)
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// talk keeps the open turns, by the rules of domain.Evolve, and says whether that
// nobody answers may have changed.
func (s *shard) talk(number uint32, r *row, e *domain.Event) (changed bool) {
	if e.Kind != domain.KindConversation {
		return false
	}
	var t *turns
	if r.flags&flagMore != 0 {
		t = s.more[number].talks[e.Key]
	}
	switch {
	case e.Outcome == domain.Applied && e.Effects&domain.EffectOpensTurn != 0:
		m := s.extra(number, r)
		if m.talks == nil {
			m.talks = map[string]*turns{}
		}
		if t == nil {
			t = &turns{}
			m.talks[strings.Clone(e.Key)] = t
		}
		t.open = append(t.open, hashOf(e.Data["message"]))
		return false
	case t == nil:
		return false
	case e.Trigger == domain.AttentionNobodyAnswering:
		changed = !t.told
		t.told = true
		return changed
	case e.Outcome != domain.Applied:
		return false
	case e.Effects&domain.EffectClosesTurns != 0:
		t.open = nil
	case e.Effects&domain.EffectClaim != 0:
		if i := slices.Index(t.open, hashOf(e.Data["message"])); i >= 0 {
			t.open = slices.Delete(t.open, i, i+1)
		}
	}
	if len(t.open) > 0 {
		return false
	}
	delete(s.more[number].talks, e.Key)
	return t.told
}

// unanswered says whether it was told of some contact that nobody answers.
func (m *more) unanswered() bool {
	for _, t := range m.talks {
		if t.told {
			return true
		}
	}
	return false
}
