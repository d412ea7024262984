package hub

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/musterhq/muster/bus/connector"
)

var _ connector.Memory = (*MapMemory)(nil)

// MapMemory is a memory that ends with the process. The zero value is empty.
type MapMemory struct {
	mu     sync.RWMutex
	values map[memoryKey]string
}

type memoryKey struct{ source, key string }

// Get returns what was put under the source's key. It never fails.
func (m *MapMemory) Get(_ context.Context, source, key string) (value string, ok bool, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	value, ok = m.values[memoryKey{source, key}]
	return value, ok, nil
}

// PutNew keeps the value unless one is there. It never fails.
func (m *MapMemory) PutNew(_ context.Context, source, key, value string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.values[memoryKey{source, key}]; ok {
		return old, nil
	}
	m.set(memoryKey{source, key}, value)
	return value, nil
}

func (m *MapMemory) set(k memoryKey, value string) {
	if m.values == nil {
		m.values = map[memoryKey]string{}
	}
	m.values[k] = value
}

// Keys lists the source's keys with this prefix, sorted. It never fails.
func (m *MapMemory) Keys(_ context.Context, source, prefix string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var keys []string
	for k := range m.values {
		if k.source == source && strings.HasPrefix(k.key, prefix) {
			keys = append(keys, k.key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}
