package natslog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/musterhq/muster/eventlog/natslog/barrier"
)

// probePrefix begins the names of the scratch streams that Probe makes.
const probePrefix = "MUSTER_PROBE_"

// ErrProbe is wrapped when the probe shows that the barrier cannot be relied on.
var ErrProbe = errors.New("the server's store does not behave as the group barrier needs it")

// Probe proves that barrier.Files sees what this server acks: it publishes to a
// scratch stream and looks, after each ack, for the record in the file that the
// barrier has just synced. When it fails, use barrier.SyncAlways instead.
// account "" is the server's global account.
func Probe(ctx context.Context, nc *nats.Conn, storeDir, account string) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if err := dropProbes(ctx, js); err != nil { // of a run that was killed
		return fmt.Errorf("probe: %w", err)
	}
	name := probePrefix + nuid.Next()
	subject := "muster.probe." + name
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}, Storage: jetstream.FileStorage, Duplicates: smallestDedup})
	if err != nil {
		return fmt.Errorf("probe: create a scratch stream: %w", err)
	}
	err = probe(ctx, js, subject, barrier.StreamDir(storeDir, account, name), storeDir)
	return errors.Join(err, dropProbes(context.WithoutCancel(ctx), js))
}

func dropProbes(ctx context.Context, js jetstream.JetStream) error {
	names := js.StreamNames(ctx, jetstream.WithStreamListSubject("muster.probe.>"))
	for name := range names.Name() {
		if !strings.HasPrefix(name, probePrefix) {
			continue
		}
		if err := js.DeleteStream(ctx, name); err != nil {
			return fmt.Errorf("delete scratch stream %s: %w", name, err)
		}
	}
	if err := names.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return fmt.Errorf("list scratch streams: %w", err)
	}
	return nil
}

// probe publishes a few records and looks for each.
func probe(ctx context.Context, js jetstream.JetStream, subject, dir, top string) error {
	files, err := barrier.OpenFiles(dir, top)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProbe, err)
	}
	for range 3 {
		data := make([]byte, 64)
		_, _ = rand.Read(data) // never fails
		if _, err := js.Publish(ctx, subject, data); err != nil {
			return errors.Join(fmt.Errorf("probe: publish: %w", err), files.Close())
		}
		if err := files.Sync(true); err != nil {
			return errors.Join(fmt.Errorf("%w: %w", ErrProbe, err), files.Close())
		}
		seen, err := files.EndsWith(data)
		if err == nil && !seen {
			err = errors.New("an acked record does not stand at the end of the file that was synced")
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%w: %s: %w", ErrProbe, dir, err), files.Close())
		}
	}
	return files.Close()
}
