package command

import (
	"sync"

	"github.com/musterhq/muster/domain"
)

// Look is one account as its partition's writer holds it: the fold of every
// event that was acknowledged, and of nothing else.
type Look struct {
	Account   *domain.Account // must not be changed; it stays as it is
	Partition int
	Seq       uint64 // stream sequence of the account's last event
	Damage    string // why its history is not whole; "" = it is
}

// Look returns the account, from memory, without waiting for the writer: who
// was answered before he looks finds what he was told. ok is false when nothing
// is stored of the account. The error is ErrNotOwner.
func (s *Set) Look(id domain.AccountID) (l Look, ok bool, err error) {
	w := s.writer(s.Partition(id))
	if w == nil {
		return Look{}, false, ErrNotOwner
	}
	return w.public.look(w, id)
}

// public lets other goroutines read slots. The writer's own reads need nothing;
// it holds the lock while it changes the map or what a look shows of a slot.
type public struct{ mu sync.RWMutex }

func (p *public) look(w *writer, id domain.AccountID) (l Look, ok bool, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	s := w.slots[id]
	if s == nil || s.acct == nil {
		return Look{}, false, nil
	}
	return Look{Account: s.acct, Partition: w.partition, Seq: s.seq, Damage: s.damage}, true, nil
}

// change runs f, which changes slots, while nobody looks. f must be short.
func (p *public) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}
