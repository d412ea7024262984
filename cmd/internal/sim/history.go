package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/musterhq/muster/cmd/internal/history"
	"github.com/musterhq/muster/domain"
)

// WriteHistory writes events into a data directory that has none yet, as a Muster
// that is started there afterwards would have written them. It returns how many
// they were.
func WriteHistory(ctx context.Context, dir string, partitions int, events iter.Seq[*domain.Event]) (n int, err error) {
	w, err := history.Open(ctx, dir, partitions)
	if err != nil {
		return 0, fmt.Errorf("write a history: %w", err)
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	for e := range events {
		if err := w.Add(ctx, e); err != nil {
			return n, fmt.Errorf("write a history: %w", err)
		}
		n++
	}
	if err := w.Flush(ctx); err != nil {
		return n, fmt.Errorf("write a history: %w", err)
	}
	return n, nil
}
