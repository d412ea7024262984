package app

import (
	"context"
	"fmt"
	"io"

	"github.com/musterhq/muster/eventlog"
)

// blobRoom is the free space, in bytes, below which no snapshot and no saved view
// is stored: they can be done without, and the rest is for the history.
const blobRoom = 64 << 20

// roomyBlobs are blobs that leave the last space on the disk to the history, and
// that store nothing more once the process ends because a part has failed: the
// server below may not answer then, and the end would wait for it.
type roomyBlobs struct {
	eventlog.Blobs
	free   func() (uint64, error) // bytes that can still be written; nil = it is not looked at
	broken func() bool            // the process ends because a part has failed
}

// Put stores what r yields, or says why it does not.
func (b *roomyBlobs) Put(ctx context.Context, name string, r io.Reader) error {
	if b.broken() {
		return fmt.Errorf("put blob %q: not while the process ends because of a failure", name)
	}
	if b.free != nil {
		// What cannot be measured is no reason to refuse.
		if free, err := b.free(); err == nil && free < blobRoom {
			return fmt.Errorf("put blob %q: only %d MiB are free on the disk, and the last %d MiB are left to the history",
				name, free>>20, blobRoom>>20)
		}
	}
	return b.Blobs.Put(ctx, name, r)
}
