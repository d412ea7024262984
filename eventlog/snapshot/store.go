package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/musterhq/muster/eventlog"
)

// places are the names under which a partition's two snapshots are kept.
func places(partition int) [2]string {
	return [2]string{fmt.Sprintf("snapshot/%02d/a", partition), fmt.Sprintf("snapshot/%02d/b", partition)}
}

// Save writes a snapshot over the older, or the useless, of the partition's two.
// The entries are taken in another goroutine, but never after Save returns.
// When it fails, the other snapshot is still there.
func Save(ctx context.Context, blobs eventlog.Blobs, h Header, entries iter.Seq[Entry]) error {
	name := target(ctx, blobs, h)
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := Write(w, h, entries)
		w.CloseWithError(err)
		written <- err
	}()
	err := blobs.Put(ctx, name, r)
	r.CloseWithError(errors.New("the store has stopped reading")) // frees the writer when Put gave up early
	if werr := <-written; werr != nil && err == nil {
		err = werr
	}
	if err != nil {
		return fmt.Errorf("save snapshot of partition %d: %w", h.Partition, err)
	}
	return nil
}

// Discard deletes the partition's snapshots.
func Discard(ctx context.Context, blobs eventlog.Blobs, partition int) error {
	for _, name := range places(partition) {
		if err := blobs.Delete(ctx, name); err != nil {
			return fmt.Errorf("discard snapshots of partition %d: %w", partition, err)
		}
	}
	return nil
}

// target is where a snapshot with this header is to go: a place that holds
// nothing of use for the same stream, or else the older one. One that reaches
// further than h is of no use: the stream does not have what it saw.
func target(ctx context.Context, blobs eventlog.Blobs, h Header) string {
	names := places(h.Partition)
	var last [2]uint64
	for i, name := range names {
		old, err := peek(ctx, blobs, name)
		same := Want{Fold: h.Fold, Partition: h.Partition, Partitions: h.Partitions, Incarnation: h.Incarnation}
		if err != nil || same.check(old) != nil || old.Last > h.Last {
			return name
		}
		last[i] = old.Last
	}
	if last[0] <= last[1] {
		return names[0]
	}
	return names[1]
}

// peek reads a snapshot's header.
func peek(ctx context.Context, blobs eventlog.Blobs, name string) (Header, error) {
	r, err := blobs.Get(ctx, name)
	if err != nil {
		return Header{}, err
	}
	defer r.Close()
	return readHeader(newBody(r))
}

// Load offers the partition's snapshots to use, the newest first, until use
// takes one: it must read all entries, return the error it meets among them,
// and begin anew each time it is called, for what it got before was no good.
// An error of its own means that it does not want the snapshot.
//
// It returns the header of the one that was taken, and what was wrong with
// those that were not, for counting. The error is eventlog.ErrNotFound when
// none was taken, or ctx's.
func Load(ctx context.Context, blobs eventlog.Blobs, want Want, use func(Header, iter.Seq2[Entry, error]) error) (Header, []*Error, error) {
	names, refused := newestFirst(ctx, blobs, want)
	for _, name := range names {
		h, err := load(ctx, blobs, name, want, use)
		if err == nil {
			return h, refused, nil
		}
		if ctx.Err() != nil {
			return Header{}, refused, fmt.Errorf("load snapshot of partition %d: %w", want.Partition, context.Cause(ctx))
		}
		refused = append(refused, err)
	}
	return Header{}, refused, fmt.Errorf("load snapshot of partition %d: %w", want.Partition, eventlog.ErrNotFound)
}

// newestFirst returns the names of the partition's snapshots whose headers are
// right, and what is wrong with the others.
func newestFirst(ctx context.Context, blobs eventlog.Blobs, want Want) (names []string, refused []*Error) {
	var last uint64
	for _, name := range places(want.Partition) {
		h, err := peek(ctx, blobs, name)
		if errors.Is(err, eventlog.ErrNotFound) {
			continue
		}
		if err == nil {
			err = want.check(h)
		}
		switch {
		case err != nil:
			refused = append(refused, refusal(name, err))
		case len(names) > 0 && h.Last > last:
			names = []string{name, names[0]}
		default:
			names, last = append(names, name), h.Last
		}
	}
	return names, refused
}

// refusal is the *Error in err; one that is not the format's is the store's.
func refusal(name string, err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Reason: Unreadable, Detail: name, Err: err}
	}
	return e
}

// load offers one snapshot to use; nil means that it was whole and was taken.
func load(ctx context.Context, blobs eventlog.Blobs, name string, want Want, use func(Header, iter.Seq2[Entry, error]) error) (Header, *Error) {
	r, err := blobs.Get(ctx, name)
	if err != nil {
		return Header{}, refusal(name, err)
	}
	defer r.Close()
	h, entries, err := Read(r, want)
	if err != nil {
		return h, refusal(name, err)
	}
	whole := false
	var wrong error
	err = use(h, func(yield func(Entry, error) bool) {
		for e, err := range entries {
			if err != nil {
				wrong = err
			}
			if !yield(e, err) {
				return
			}
		}
		whole = wrong == nil
	})
	switch {
	case wrong != nil:
		return h, refusal(name, wrong)
	case err != nil:
		return h, &Error{Reason: NotUsed, Detail: name, Err: err}
	case !whole:
		return h, unusable(NotUsed, "%s was not read to its end", name)
	}
	return h, nil
}
