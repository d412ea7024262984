package seal_test

import (
	"testing"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natstest"
	"github.com/musterhq/muster/eventlog/seal"
)

// keysOf makes keys in a folder of the test's own.
func keysOf(t testing.TB, partitions int) *seal.Keys {
	t.Helper()
	keys, err := seal.Create(t.TempDir(), partitions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := keys.Close(); err != nil {
			t.Error(err)
		}
	})
	return keys
}

func wrap(t testing.TB, inner eventlog.Log, keys *seal.Keys) *seal.Log {
	t.Helper()
	log, err := seal.Wrap(inner, keys)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func TestSealedMemoryLog(t *testing.T) {
	eventlogtest.Run(t, func(t *testing.T, partitions int) eventlog.Log {
		return wrap(t, memlog.New(partitions), keysOf(t, partitions))
	})
}

func TestSealedBlobs(t *testing.T) {
	eventlogtest.RunBlobs(t, func(t *testing.T) eventlog.Blobs { return seal.WrapBlobs(new(memlog.Blobs), keysOf(t, 1)) })
}

func TestSealedServerLog(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	eventlogtest.Run(t, func(t *testing.T, partitions int) eventlog.Log {
		s.Wipe(t, nc)
		inner, err := natslog.Open(t.Context(), nc, natslog.Config{Partitions: partitions})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := inner.Close(); err != nil {
				t.Error(err)
			}
		})
		return wrap(t, inner, keysOf(t, partitions))
	})
}
