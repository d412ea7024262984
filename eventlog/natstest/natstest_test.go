package natstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/eventlog/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func stream(t *testing.T, nc *nats.Conn, replicas int) (context.Context, jetstream.JetStream) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}, Replicas: replicas})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, js
}

func TestServerKeepsItsStoreOverARestart(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	ctx, js := stream(t, nc, 1)
	if _, err := js.Publish(ctx, "s.a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	back := nc.StatusChanged(nats.CONNECTED)
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	<-back
	info, err := js.Stream(ctx, "S")
	if err != nil || info.CachedInfo().State.Msgs != 1 {
		t.Errorf("after the restart: %v", err)
	}
	s.Wipe(t, nc)
	if _, err := js.Stream(ctx, "S"); err == nil {
		t.Error("Wipe left the stream")
	}
}

func TestClusterReplicates(t *testing.T) {
	c := natstest.RunCluster(t)
	nc := c.Conn(t)
	ctx, js := stream(t, nc, 3)
	for range 3 {
		if _, err := js.Publish(ctx, "s.a", []byte("x")); err != nil {
			t.Fatal(err)
		}
		c.StepDown(t, nc, "S")
	}
	s, err := js.Stream(ctx, "S")
	if err != nil || s.CachedInfo().State.Msgs != 3 || len(s.CachedInfo().Cluster.Replicas) != 2 {
		t.Errorf("%+v, %v", s.CachedInfo(), err)
	}
}
