package presence

import (
	"context"
	"sync"

	"github.com/musterhq/muster/domain"
)

// walker finds the accounts of a source. A walk looks at every account there is,
// so those who ask while one is going on share the next: a thousand workers that
// lapse together cost two walks.
type walker struct {
	ctx   context.Context // ends every walk
	fleet Fleet

	mu   sync.Mutex
	next *round // gathers who asks; nil: nobody does
	one  sync.Mutex
}

// round is one walk.
type round struct {
	found map[string][]*domain.Account
	err   error
	done  chan struct{}
}

// bySource returns the accounts of a source as they are at one moment after the
// call. The error is that of the walker's context.
func (w *walker) bySource(source string) ([]*domain.Account, error) {
	w.mu.Lock()
	r, first := w.next, w.next == nil
	if first {
		r = &round{found: map[string][]*domain.Account{}, done: make(chan struct{})}
		w.next = r
	}
	r.found[source] = nil
	w.mu.Unlock()
	if first {
		w.walk(r)
	}
	<-r.done
	return r.found[source], r.err
}

func (w *walker) walk(r *round) {
	w.one.Lock()
	defer w.one.Unlock()
	defer close(r.done)
	w.mu.Lock()
	w.next = nil // whoever asks from now on might miss what changes now
	w.mu.Unlock()
	r.err = w.fleet.Owned(w.ctx, func(_ int, a *domain.Account) {
		if list, asked := r.found[a.Source]; asked && !a.Forgotten {
			r.found[a.Source] = append(list, a)
		}
	})
}
