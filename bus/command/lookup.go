package command

import (
	"context"
	"fmt"

	"github.com/musterhq/muster/domain"
)

// Owned calls f with the folded accounts of the partitions that this process
// owns, those of each partition as they are at one moment. The accounts must
// not be changed. The error is ctx's.
func (s *Set) Owned(ctx context.Context, f func(partition int, a *domain.Account)) error {
	for p := range s.writers {
		w := s.writer(p)
		if w == nil {
			continue
		}
		states, _, err := w.snapshotNow(ctx)
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		for _, st := range states {
			f(p, st.acct)
		}
	}
	return nil
}

// Account returns one folded account as it is between two groups, nil when
// nothing is stored of it. It must not be changed. The error is ErrNotOwner or
// ctx's.
func (s *Set) Account(ctx context.Context, id domain.AccountID) (*domain.Account, error) {
	w := s.writer(s.Partition(id))
	if w == nil {
		return nil, ErrNotOwner
	}
	found := make(chan *domain.Account, 1)
	look := func() {
		if st := w.slots[id]; st != nil {
			found <- st.acct
			return
		}
		found <- nil
	}
	select {
	case w.ctl <- look:
	case <-w.done:
		look() // nobody writes any more
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return <-found, nil
}
