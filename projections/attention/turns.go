package attention

import (
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/internal/turns"
)

// talk keeps the open turns and says whether that nobody answers may have
// changed.
func (s *shard) talk(number uint32, r *row, e *domain.Event) (changed bool) {
	switch {
	case e.Kind != domain.KindConversation:
		return false
	case turns.Opens(e):
		return s.extra(number, r).talks.Apply(e)
	case r.flags&flagMore == 0:
		return false
	}
	return s.more[number].talks.Apply(e)
}
