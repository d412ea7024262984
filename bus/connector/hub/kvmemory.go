package hub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/eventlog"
)

// MemoryBucket is the key-value bucket of what connectors remember: one key for
// each thing, <source>.<key> with both written as account tokens are.
const MemoryBucket = "MUSTER_HOOKS"

var _ connector.Memory = (*KVMemory)(nil)

// KVMemory is a memory in a JetStream key-value bucket, with all of it in this
// process, too. Values never change and are never removed. What was put in the
// last moments before a power cut may be lost; connectors then learn it again.
// Use OpenMemory; Close ends it.
type KVMemory struct {
	kv     jetstream.KeyValue
	cache  MapMemory
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// memoryWithin bounds one call of the bucket.
const memoryWithin = 5 * time.Second

// OpenMemory opens the bucket, or creates it with this many replicas (0: 1), and
// reads it whole.
func OpenMemory(ctx context.Context, nc *nats.Conn, replicas int) (*KVMemory, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open the memory of connectors: %w", err)
	}
	kv, err := js.KeyValue(ctx, MemoryBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: MemoryBucket, Description: "Muster: what connectors remember between two webhooks", History: 1,
			Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open the memory of connectors: %w", err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watch, err := kv.WatchAll(life)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("read the memory of connectors: %w", err)
	}
	m := &KVMemory{kv: kv, cancel: cancel}
	whole := make(chan struct{})
	m.wg.Go(func() { m.follow(watch, whole) })
	select {
	case <-whole:
		return m, nil
	case <-ctx.Done():
		m.Close()
		return nil, fmt.Errorf("read the memory of connectors: %w", context.Cause(ctx))
	}
}

// Close ends following the bucket.
func (m *KVMemory) Close() {
	m.cancel()
	m.wg.Wait()
}

// follow keeps the cache up to date; whole is closed when all that was there at
// the beginning is in it, or when the watch has ended.
func (m *KVMemory) follow(watch jetstream.KeyWatcher, whole chan struct{}) {
	first := true
	for e := range watch.Updates() {
		switch {
		case e != nil && e.Operation() == jetstream.KeyValuePut:
			m.learn(e.Key(), string(e.Value()))
		case e == nil && first:
			first = false
			close(whole)
		}
	}
	if first {
		close(whole)
	}
}

// learn takes one entry of the bucket; a key that is none is left out.
func (m *KVMemory) learn(name, value string) {
	s, k, ok := strings.Cut(name, ".")
	source, err1 := eventlog.ParseToken(s)
	key, err2 := eventlog.ParseToken(k)
	if !ok || err1 != nil || err2 != nil {
		return
	}
	m.cache.mu.Lock()
	defer m.cache.mu.Unlock()
	m.cache.set(memoryKey{source, key}, value)
}

func memoryName(source, key string) string { return eventlog.Token(source) + "." + eventlog.Token(key) }

// Get returns what was put under the source's key, by this process or another.
func (m *KVMemory) Get(ctx context.Context, source, key string) (value string, ok bool, err error) {
	if value, ok, _ := m.cache.Get(ctx, source, key); ok {
		return value, true, nil
	}
	bounded, cancel := context.WithTimeout(ctx, memoryWithin)
	defer cancel()
	e, err := m.kv.Get(bounded, memoryName(source, key))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return "", false, nil
	case err != nil:
		return "", false, &connector.MemoryError{Err: err}
	}
	m.learn(e.Key(), string(e.Value()))
	return string(e.Value()), true, nil
}

// PutNew keeps the value unless one is there, and returns the one that is there
// then.
func (m *KVMemory) PutNew(ctx context.Context, source, key, value string) (string, error) {
	if old, ok, _ := m.cache.Get(ctx, source, key); ok {
		return old, nil
	}
	bounded, cancel := context.WithTimeout(ctx, memoryWithin)
	defer cancel()
	name := memoryName(source, key)
	_, err := m.kv.Create(bounded, name, []byte(value))
	if errors.Is(err, jetstream.ErrKeyExists) {
		old, ok, err := m.Get(ctx, source, key)
		if err == nil && !ok {
			err = &connector.MemoryError{Err: fmt.Errorf("key %s is there and cannot be read", name)}
		}
		return old, err
	}
	if err != nil {
		return "", &connector.MemoryError{Err: err}
	}
	m.learn(name, value)
	return value, nil
}

// Keys lists the source's keys with this prefix, sorted. What another process has
// put a moment ago may be missing.
func (m *KVMemory) Keys(ctx context.Context, source, prefix string) ([]string, error) {
	return m.cache.Keys(ctx, source, prefix)
}
