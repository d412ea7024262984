package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus"
)

// The names of the streams.
const (
	Stream     = "MUSTER_IN"
	ParkStream = "MUSTER_PARK"
)

// Limits are how much the two streams keep. A field that is 0 has its default.
type Limits struct {
	Bytes     int64 // of MUSTER_IN (default 1 GiB); beyond, publishers are refused
	ParkBytes int64 // of MUSTER_PARK (default 256 MiB); beyond, the oldest parked message goes
	Replicas  int   // of both, when they are created (default 1)
}

// The defaults of Limits.
const (
	DefaultBytes     = 1 << 30
	DefaultParkBytes = 256 << 20
)

// headRoom is what a parked message may need beyond the message as it was
// published: the reason, in its headers.
const headRoom = 4 << 10

// parkTwice is how long the same message is parked once, however often a reader
// that was stopped in between parks it.
const parkTwice = 10 * time.Minute

// Store is the two streams.
type Store struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	in   jetstream.Stream
	park jetstream.Stream

	bytes int64 // that the inbox may have
}

// Open finds the streams or creates them. What an operator has changed on them,
// other than their sizes, stays. The connection stays the caller's.
func Open(ctx context.Context, nc *nats.Conn, l Limits) (*Store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open the inbox: %w", err)
	}
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	if l.ParkBytes == 0 {
		l.ParkBytes = DefaultParkBytes
	}
	s := &Store{nc: nc, js: js, bytes: l.Bytes}
	if s.in, err = ensure(ctx, js, inConfig(nc, l)); err != nil {
		return nil, fmt.Errorf("open the inbox: %w", err)
	}
	if s.park, err = ensure(ctx, js, parkConfig(l)); err != nil {
		return nil, fmt.Errorf("open the inbox: %w", err)
	}
	return s, nil
}

func inConfig(nc *nats.Conn, l Limits) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: Stream, Description: "Muster: triggers that wait to be judged", Subjects: []string{bus.InboxSubjects},
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		MaxBytes: l.Bytes, MaxMsgSize: int32(nc.MaxPayload() - headRoom), Replicas: max(l.Replicas, 1), AllowDirect: true,
	}
}

func parkConfig(l Limits) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: ParkStream, Description: "Muster: triggers of the inbox that could not be judged, and why", Subjects: []string{bus.ParkSubjects},
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardOld,
		MaxBytes: l.ParkBytes, Replicas: max(l.Replicas, 1), Duplicates: parkTwice,
	}
}

// ensure creates a stream, or gives the one that is there its size and subjects.
func ensure(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if s, err = js.CreateStream(ctx, cfg); err == nil || !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return s, sized(&cfg, err)
		}
		s, err = js.Stream(ctx, cfg.Name) // another process was faster
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", cfg.Name, err)
	}
	is := s.CachedInfo().Config
	if is.Retention != cfg.Retention {
		return nil, fmt.Errorf("stream %s: Muster did not create it (its retention is %s, not %s); rename or remove it", cfg.Name, is.Retention, cfg.Retention)
	}
	if is.MaxBytes == cfg.MaxBytes && slices.Equal(is.Subjects, cfg.Subjects) {
		return s, nil
	}
	is.MaxBytes, is.Subjects = cfg.MaxBytes, cfg.Subjects
	s, err = js.UpdateStream(ctx, is)
	return s, sized(&cfg, err)
}

func sized(cfg *jetstream.StreamConfig, err error) error {
	if err != nil {
		return fmt.Errorf("stream %s of %d MiB: %w", cfg.Name, cfg.MaxBytes>>20, err)
	}
	return nil
}

// Refuse makes the inbox take nothing more, or again as much as before, without
// touching what is in it. A new start of Muster takes messages again.
func (s *Store) Refuse(ctx context.Context, refuse bool) error {
	info, err := s.in.Info(ctx)
	if err != nil {
		return fmt.Errorf("close the inbox: %w", err)
	}
	cfg := info.Config
	cfg.MaxBytes = s.bytes
	if refuse {
		cfg.MaxBytes = int64(max(info.State.Bytes, 1))
	}
	if _, err := s.js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("close the inbox: %w", err)
	}
	return nil
}

// Waiting is the number of messages that are not settled yet.
func (s *Store) Waiting(ctx context.Context) (uint64, error) {
	info, err := s.in.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("look at the inbox: %w", err)
	}
	return info.State.Msgs, nil
}
