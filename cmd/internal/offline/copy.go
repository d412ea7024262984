package offline

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
)

// History is what can be archived: the reading half of a log.
type History interface {
	Partitions() int
	Info(ctx context.Context, partition int) (eventlog.Info, error)
	Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error]
	Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error]
}

// OpenFor opens an archive for what a history appends to it, and checks that
// the stream has everything that the archive has; else the error is an
// *AheadError.
func OpenFor(ctx context.Context, dir string, h History, limits archive.Limits) (*archive.Writer, error) {
	infos := make([]eventlog.Info, h.Partitions())
	incarnations := make([]string, h.Partitions())
	for p := range infos {
		info, err := h.Info(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("open archive: partition %d: %w", p, err)
		}
		infos[p], incarnations[p] = info, info.Incarnation
	}
	w, err := archive.Open(dir, incarnations, limits)
	if err != nil {
		return nil, err
	}
	for p, info := range infos {
		if w.Last(p) > info.Last {
			if err := w.Close(); err != nil { // which lets the manifest name all that is there
				return nil, fmt.Errorf("open archive: %w", err)
			}
			return nil, ahead(ctx, dir, infos)
		}
	}
	return w, nil
}

// Copying says how a history is archived.
type Copying struct {
	// Every is how often what came is written and synced, so the most that an
	// archive lags; default 1 s.
	Every time.Duration
	// Archived, when it is set, counts the records.
	Archived *atomic.Int64
	// OnProgress, when it is set, is told how far a partition has come: synced
	// says whether all up to last is on disk. It must not wait.
	OnProgress func(partition int, last uint64, synced bool)
}

// Copy archives what a history holds now and the archive does not, and syncs it.
func Copy(ctx context.Context, h History, w *archive.Writer, c Copying) error {
	return eachPartition(ctx, h, func(ctx context.Context, p int) error {
		for r, err := range h.Read(ctx, p, w.Last(p)) {
			if err != nil {
				return err
			}
			if err := c.add(w, p, r); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return c.flush(w, p)
	})
}

// Follow is Copy that goes on with what comes until ctx ends, which is no error.
func Follow(ctx context.Context, h History, w *archive.Writer, c Copying) error {
	if c.Every <= 0 {
		c.Every = time.Second
	}
	err := eachPartition(ctx, h, func(ctx context.Context, p int) error { return c.follow(ctx, h, w, p) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// follow hands the records from the reading goroutine to the writing one, which
// also watches the clock.
func (c Copying) follow(ctx context.Context, h History, w *archive.Writer, p int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	records := make(chan eventlog.Record, 1024)
	var broken error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(records)
		for r, err := range h.Follow(ctx, p, w.Last(p)) {
			if err != nil {
				broken = err
				return
			}
			select {
			case records <- r:
			case <-ctx.Done():
				return
			}
		}
	})
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	var err error
	for err == nil {
		select {
		case r, more := <-records:
			if !more {
				wg.Wait()
				if err := c.flush(w, p); err != nil {
					return err
				}
				return broken
			}
			err = c.add(w, p, r)
		case <-tick.C:
			err = c.flush(w, p)
		}
	}
	cancel()
	wg.Wait()
	return err
}

func (c Copying) add(w *archive.Writer, p int, r eventlog.Record) error {
	if err := w.Append(p, r); err != nil {
		return err
	}
	if c.Archived != nil {
		c.Archived.Add(1)
	}
	if c.OnProgress != nil {
		c.OnProgress(p, r.Seq, false)
	}
	return nil
}

func (c Copying) flush(w *archive.Writer, p int) error {
	last := w.Last(p)
	if err := w.Flush(p); err != nil {
		return err
	}
	if c.OnProgress != nil {
		c.OnProgress(p, last, true)
	}
	return nil
}

// eachPartition runs f for all partitions side by side; the first error ends all.
func eachPartition(ctx context.Context, h History, f func(context.Context, int) error) error {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for p := range h.Partitions() {
		wg.Go(func() {
			if err := f(work, p); err != nil {
				cancel(fmt.Errorf("archive partition %d: %w", p, err))
			}
		})
	}
	wg.Wait()
	return context.Cause(work)
}
