package natslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
)

var _ eventlog.Blobs = (*Blobs)(nil)

// blobBucket is the object store that holds the blobs.
const blobBucket = "MUSTER_BLOBS"

// Blobs keeps blobs in a JetStream object store. Use OpenBlobs.
type Blobs struct {
	store jetstream.ObjectStore
}

// OpenBlobs opens the object store, or creates it with this many replicas (0: 1).
func OpenBlobs(ctx context.Context, nc *nats.Conn, replicas int) (*Blobs, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open blobs: %w", err)
	}
	store, err := js.ObjectStore(ctx, blobBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		store, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: blobBucket, Description: "Muster: snapshots and saved views", Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open blobs: %w", err)
	}
	return &Blobs{store}, nil
}

// Put stores what r yields under the name; when it fails, the old content stays.
func (b *Blobs) Put(ctx context.Context, name string, r io.Reader) error {
	if _, err := b.store.Put(ctx, jetstream.ObjectMeta{Name: name}, r); err != nil {
		return fmt.Errorf("put blob %q: %w", name, err)
	}
	return nil
}

// blobStall is how long the next piece of a blob is waited for. The client's own
// bound of five seconds is one for the whole, which is too short for a snapshot on a
// machine that has other work; but a piece that is damaged on disk never comes.
const blobStall = 5 * time.Second

// Get returns the blob's content, or eventlog.ErrNotFound. Its reader fails
// with an error when the content does not have the digest it was stored with, and
// when a piece of it does not come.
func (b *Blobs) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stall := time.AfterFunc(blobStall, cancel)
	r, err := b.store.Get(rolling{ctx}, name)
	if inTime := stall.Stop(); err == nil && inTime {
		return &blobReader{r, name, cancel}, nil
	}
	cancel()
	switch {
	case err == nil:
		err = errors.Join(stalled(name), r.Close())
	case errors.Is(err, jetstream.ErrObjectNotFound):
		err = eventlog.ErrNotFound
	}
	return nil, fmt.Errorf("get blob %q: %w", name, err)
}

func stalled(name string) error {
	return fmt.Errorf("no piece of blob %q came for %v", name, blobStall)
}

// rolling is a context whose deadline is always the same time away. The client asks
// for it at each Read, so it bounds one piece and not the whole.
type rolling struct{ context.Context }

// Deadline is blobStall from now.
func (rolling) Deadline() (time.Time, bool) { return time.Now().Add(blobStall), true }

// blobReader tells a wait that was too long.
type blobReader struct {
	io.ReadCloser
	name string
	end  context.CancelFunc
}

// Read reads what has come, or waits for it. The client reads nothing, and makes
// no error of it, when its deadline has passed.
func (r *blobReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n == 0 && err == nil && len(p) > 0 {
		err = stalled(r.name)
	}
	return n, err
}

// Close ends the reading.
func (r *blobReader) Close() error {
	defer r.end()
	return r.ReadCloser.Close()
}

// Delete removes the blob; it is no error when there is none.
func (b *Blobs) Delete(ctx context.Context, name string) error {
	if err := b.store.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("delete blob %q: %w", name, err)
	}
	return nil
}
