package natslog_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natstest"
)

// open opens a log for the length of a test.
func open(t testing.TB, nc *nats.Conn, cfg natslog.Config) *natslog.Log {
	t.Helper()
	log, err := natslog.Open(t.Context(), nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

func TestOneServer(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	eventlogtest.Run(t, func(t *testing.T, partitions int) eventlog.Log {
		s.Wipe(t, nc)
		return open(t, nc, natslog.Config{Partitions: partitions})
	})
}

func TestCluster(t *testing.T) {
	c := natstest.RunCluster(t)
	nc := c.Conn(t)
	eventlogtest.Run(t, func(t *testing.T, partitions int) eventlog.Log {
		c.Wipe(t, nc)
		return open(t, nc, natslog.Config{Partitions: partitions, Replicas: 3})
	})
}

func TestBlobs(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	eventlogtest.RunBlobs(t, func(t *testing.T) eventlog.Blobs {
		s.Wipe(t, nc)
		blobs, err := natslog.OpenBlobs(t.Context(), nc, 1)
		if err != nil {
			t.Fatal(err)
		}
		return blobs
	})
}
