package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bucketName is where the tokens are kept, one key for each, by id.
const bucketName = "MUSTER_TOKENS"

// bucket is where tokens are kept.
type bucket struct {
	kv    jetstream.KeyValue
	watch jetstream.KeyWatcher
	stop  context.CancelFunc // ends the watcher
	done  chan struct{}      // closed when nothing follows the bucket any more
}

// Load opens the bucket, or makes it with this many replicas, reads the tokens
// and goes on to follow them until Close. From here on it is known who may come
// in. The connection stays the caller's; partitions is the number of those of the
// log.
func (t *Tokens) Load(ctx context.Context, nc *nats.Conn, replicas, partitions int) error {
	b, err := openBucket(ctx, nc, replicas)
	if err != nil {
		return fmt.Errorf("open the tokens: %w", err)
	}
	t.bucket = b
	t.mu.Lock()
	t.partitions = partitions
	t.mu.Unlock()
	known := make(chan struct{})
	go func() {
		defer close(b.done)
		t.follow(b.watch, known)
	}()
	select {
	case <-known:
		close(t.loaded)
		return nil
	case <-b.done:
		return errors.New("open the tokens: the server ended while they were read")
	case <-ctx.Done():
		return fmt.Errorf("open the tokens: %w", context.Cause(ctx))
	}
}

func openBucket(ctx context.Context, nc *nats.Conn, replicas int) (*bucket, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, bucketName)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucketName, Description: "Muster: access tokens, without their secrets", History: 5,
			Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
		})
	}
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the opening
	watch, err := kv.WatchAll(life)
	if err != nil {
		stop()
		return nil, err
	}
	return &bucket{kv: kv, watch: watch, stop: stop, done: make(chan struct{})}, nil
}

// follow takes what the watcher gives into memory until it is stopped. known is
// closed when everything that was there at the start has been taken.
func (t *Tokens) follow(w jetstream.KeyWatcher, known chan<- struct{}) {
	for e := range w.Updates() {
		switch {
		case e == nil: // all of the start
			close(known)
		case e.Operation() == jetstream.KeyValuePut:
			t.put(t.read(e))
		default:
			t.put(&Token{ID: e.Key(), Revoked: e.Created()}) // somebody has deleted it by hand
		}
	}
}

// read decodes a record. One that cannot be read counts as revoked.
func (t *Tokens) read(e jetstream.KeyValueEntry) *Token {
	var k Token
	if err := json.Unmarshal(e.Value(), &k); err != nil || k.ID != e.Key() {
		t.cfg.Logger.Error("the record of a token cannot be read; it counts as revoked", "id", e.Key(), "error", err)
		return &Token{ID: e.Key(), Revoked: e.Created()}
	}
	return &k
}

func (b *bucket) create(ctx context.Context, k *Token) error {
	body, err := json.Marshal(k)
	if err == nil {
		_, err = b.kv.Create(ctx, k.ID, body)
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("%w: there is one with the id %q already", ErrInvalid, k.ID)
	}
	if err != nil {
		return fmt.Errorf("keep token %s: %w", k.ID, err)
	}
	return nil
}

func (b *bucket) update(ctx context.Context, k *Token) error {
	body, err := json.Marshal(k)
	if err == nil {
		_, err = b.kv.Put(ctx, k.ID, body)
	}
	if err != nil {
		return fmt.Errorf("keep token %s: %w", k.ID, err)
	}
	return nil
}

func (b *bucket) close() {
	_ = b.watch.Stop() // its connection may have gone, or it may be closed already
	b.stop()
	<-b.done
}
