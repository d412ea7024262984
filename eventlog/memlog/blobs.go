package memlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/musterhq/muster/eventlog"
)

var _ eventlog.Blobs = (*Blobs)(nil)

// Blobs keeps blobs in memory. The zero value is ready for use.
type Blobs struct {
	mu    sync.Mutex
	named map[string][]byte
}

// Put stores what r yields under the name; when r fails, nothing changes.
func (b *Blobs) Put(ctx context.Context, name string, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("put blob %q: %w", name, err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put blob %q: %w", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.named == nil {
		b.named = map[string][]byte{}
	}
	b.named[name] = data
	return nil
}

// Get returns the blob's content, or eventlog.ErrNotFound.
func (b *Blobs) Get(_ context.Context, name string) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.named[name]
	if !ok {
		return nil, fmt.Errorf("get blob %q: %w", name, eventlog.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// Delete removes the blob; it is no error when there is none.
func (b *Blobs) Delete(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.named, name)
	return nil
}
