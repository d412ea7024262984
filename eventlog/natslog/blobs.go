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

// blobWithin bounds the time of reading a blob to its end. The client's own bound
// of five seconds is too short for a snapshot on a machine that has other work,
// and what was not read in time is replayed from the log.
const blobWithin = 2 * time.Minute

// Get returns the blob's content, or eventlog.ErrNotFound. Its reader fails
// with an error when the content does not have the digest it was stored with.
func (b *Blobs) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, blobWithin, fmt.Errorf("blob %q was not read within %v", name, blobWithin))
	r, err := b.store.Get(ctx, name)
	switch {
	case err == nil:
		return &blobReader{r, cancel}, nil
	case errors.Is(err, jetstream.ErrObjectNotFound):
		err = eventlog.ErrNotFound
	}
	cancel()
	return nil, fmt.Errorf("get blob %q: %w", name, err)
}

// blobReader ends the bound of a blob that is closed.
type blobReader struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (r *blobReader) Close() error {
	defer r.cancel()
	return r.ReadCloser.Close()
}

// Delete removes the blob; it is no error when there is none.
func (b *Blobs) Delete(ctx context.Context, name string) error {
	if err := b.store.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("delete blob %q: %w", name, err)
	}
	return nil
}
