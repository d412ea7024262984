package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/eventlog/natstest"
)

// remembers puts things and looks for them.
func remembers(t *testing.T, m connector.Memory) {
	t.Helper()
	ctx := t.Context()
	if v, ok, err := m.Get(ctx, "eyun", "epoch/wid-1"); v != "" || ok || err != nil {
		t.Fatalf("before anything: %q, %v, %v", v, ok, err)
	}
	for _, put := range []struct{ source, key, value, want string }{
		{"eyun", "epoch/wid-1", "17", "17"}, {"eyun", "epoch/wid-1", "18", "17"}, {"eyun-2", "epoch/wid-1", "19", "19"},
		{"cloud", "waba/1/ünïque *>.", "a", "a"}, {"cloud", "waba/1/15550100001", "", ""}, {"cloud", "waba/2/x", "b", "b"},
	} {
		if got, err := m.PutNew(ctx, put.source, put.key, put.value); got != put.want || err != nil {
			t.Errorf("put %v: %q, %v", put, got, err)
		}
	}
	recalls(t, m)
}

func recalls(t *testing.T, m connector.Memory) {
	t.Helper()
	ctx := t.Context()
	if v, ok, err := m.Get(ctx, "eyun-2", "epoch/wid-1"); v != "19" || !ok || err != nil {
		t.Errorf("get: %q, %v, %v", v, ok, err)
	}
	if v, ok, err := m.Get(ctx, "cloud", "waba/1/15550100001"); v != "" || !ok || err != nil {
		t.Errorf("get an empty one: %q, %v, %v", v, ok, err)
	}
	if keys, err := m.Keys(ctx, "cloud", "waba/1/"); err != nil || !slices.Equal(keys, []string{"waba/1/15550100001", "waba/1/ünïque *>."}) {
		t.Errorf("keys: %q, %v", keys, err)
	}
	if keys, err := m.Keys(ctx, "none", ""); err != nil || len(keys) != 0 {
		t.Errorf("keys of nobody: %q, %v", keys, err)
	}
}

func TestMapMemory(t *testing.T) { remembers(t, &hub.MapMemory{}) }

// TestKVMemory: what was put is there after a restart, and for others at once.
func TestKVMemory(t *testing.T) {
	s := natstest.Run(t)
	open := func() *hub.KVMemory {
		m, err := hub.OpenMemory(t.Context(), s.Conn(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first, second := open(), open()
	remembers(t, first)
	if v, ok, err := second.Get(t.Context(), "eyun", "epoch/wid-1"); v != "17" || !ok || err != nil {
		t.Errorf("another process gets %q, %v, %v", v, ok, err)
	}
	if v, err := second.PutNew(t.Context(), "eyun-2", "epoch/wid-1", "99"); v != "19" || err != nil {
		t.Errorf("another process puts and gets %q, %v", v, err)
	}
	until(t, func() bool {
		keys, err := second.Keys(t.Context(), "cloud", "")
		return err == nil && len(keys) == 3
	})
	var wg sync.WaitGroup
	got := make([]string, 16)
	for i := range got { // the first one wins, whoever asks
		wg.Go(func() {
			m := []*hub.KVMemory{first, second}[i%2]
			got[i], _ = m.PutNew(context.WithoutCancel(t.Context()), "race", "key", fmt.Sprint(i))
		})
	}
	wg.Wait()
	if len(slices.Compact(got)) != 1 || got[0] == "" {
		t.Errorf("a race gave %q", got)
	}
	first.Close()
	second.Close()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	third := open()
	defer third.Close()
	recalls(t, third)
}

// TestMemoryThatCannotBeAsked: the error is one that makes the peer come again.
func TestMemoryThatCannotBeAsked(t *testing.T) {
	s := natstest.Run(t)
	m, err := hub.OpenMemory(t.Context(), s.Conn(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s.Stop()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var fault *connector.MemoryError
	if _, _, err := m.Get(ended, "a", "b"); !errors.As(err, &fault) {
		t.Errorf("get: %v", err)
	}
	if _, err := m.PutNew(ended, "a", "b", "c"); !errors.As(err, &fault) {
		t.Errorf("put: %v", err)
	}
}
