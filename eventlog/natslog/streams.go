package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
)

// The keys of a stream's metadata that say how the log is laid out.
const (
	metaPartitions = "muster.partitions"
	metaHash       = "muster.hash"
	metaRecord     = "muster.record"
)

// ErrLayout is wrapped when the log that is there does not fit the one that
// was asked for, or is not whole.
var ErrLayout = errors.New("the stored log does not fit")

// smallestDedup is the shortest window for message ids that the server allows.
// No id is ever sent: the guard makes a second append harmless.
const smallestDedup = 100 * time.Millisecond

// layout is what the streams say about themselves.
type layout struct {
	partitions, replicas int
}

// streamConfig is the stream of one partition.
func streamConfig(partition int, cfg Config) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        eventlog.StreamName(partition),
		Description: "Muster: the history of the accounts of partition " + strconv.Itoa(partition),
		Subjects:    []string{eventlog.PartitionSubjects(partition)},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew, // should somebody set a limit: refuse, never drop history
		MaxMsgs:     -1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1,
		Replicas:    cfg.Replicas,
		Duplicates:  smallestDedup,
		Compression: jetstream.NoCompression,
		DenyDelete:  true,
		AllowDirect: cfg.Replicas == 1, // with more, a direct get may be stale
		Metadata: map[string]string{
			metaPartitions: strconv.Itoa(cfg.Partitions),
			metaHash:       eventlog.HashName,
			metaRecord:     cfg.RecordLayout,
		},
	}
}

// openStreams finds the log's streams or creates them. Stream 00 is created
// last: while it is missing and the others hold nothing, a creation was
// interrupted; once it is there, all must be there.
func openStreams(ctx context.Context, js jetstream.JetStream, cfg Config) (layout, error) {
	found, err := findStreams(ctx, js)
	if err != nil {
		return layout{}, err
	}
	if zero := found[eventlog.StreamName(0)]; zero != nil {
		return checkStreams(zero, found, cfg)
	}
	for name, info := range found {
		if info.State.LastSeq > 0 {
			return layout{}, fmt.Errorf("%w: stream %s holds records but stream %s is missing; the server did not load it, "+
				"or it was deleted: look at the server's log, and put the stream's folder back from a backup before you start again",
				ErrLayout, name, eventlog.StreamName(0))
		}
	}
	if cfg.Partitions == 0 {
		cfg.Partitions = DefaultPartitions
	}
	for p := cfg.Partitions - 1; p >= 0; p-- {
		if _, err := js.CreateOrUpdateStream(ctx, streamConfig(p, cfg)); err != nil {
			return layout{}, fmt.Errorf("create stream %s: %w", eventlog.StreamName(p), err)
		}
	}
	return layout{cfg.Partitions, cfg.Replicas}, nil
}

// findStreams returns the log's streams by name.
func findStreams(ctx context.Context, js jetstream.JetStream) (map[string]*jetstream.StreamInfo, error) {
	found := map[string]*jetstream.StreamInfo{}
	list := js.ListStreams(ctx, jetstream.WithStreamListSubject(eventlog.SubjectPrefix+">"))
	for info := range list.Info() {
		if strings.HasPrefix(info.Config.Name, strings.TrimSuffix(eventlog.StreamName(0), "00")) {
			found[info.Config.Name] = info
		}
	}
	if err := list.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, fmt.Errorf("list streams: %w", err)
	}
	return found, nil
}

// checkStreams holds what is there to what was asked for.
func checkStreams(zero *jetstream.StreamInfo, found map[string]*jetstream.StreamInfo, cfg Config) (layout, error) {
	meta := zero.Config.Metadata
	n, err := strconv.Atoi(meta[metaPartitions])
	if err != nil || n < 1 || n > eventlog.MaxPartitions {
		return layout{}, fmt.Errorf("%w: stream %s does not say how many partitions the log has (%s = %q): Muster did not create it; "+
			"rename or remove it, or use another server or data directory", ErrLayout, zero.Config.Name, metaPartitions, meta[metaPartitions])
	}
	if cfg.Partitions != 0 && cfg.Partitions != n {
		return layout{}, fmt.Errorf("%w: it has %d partitions and was opened with %d; the number is fixed when a log is created: "+
			"open it with %d, or export its history and import it into a new log of %d", ErrLayout, n, cfg.Partitions, n, cfg.Partitions)
	}
	if meta[metaHash] != eventlog.HashName {
		return layout{}, fmt.Errorf("%w: its accounts are placed by the hash %q, this program knows only %q: use the version of Muster that created it",
			ErrLayout, meta[metaHash], eventlog.HashName)
	}
	switch have := meta[metaRecord]; {
	case have == cfg.RecordLayout:
	case have == SealedLayout:
		return layout{}, fmt.Errorf("%w: its accounts can be erased, which is fixed when a log is created: go on with it so (--erasable)", ErrLayout)
	case cfg.RecordLayout == SealedLayout:
		return layout{}, fmt.Errorf("%w: its accounts cannot be erased, which is fixed when a log is created: go on with it without --erasable, "+
			"or use another data directory", ErrLayout)
	default:
		return layout{}, fmt.Errorf("%w: its records have layout %q, this program reads and writes %q: use a version of Muster that knows it",
			ErrLayout, have, cfg.RecordLayout)
	}
	for p := range n {
		name := eventlog.StreamName(p)
		if found[name] == nil {
			return layout{}, fmt.Errorf("%w: stream %s is missing of a log of %d; the server did not load it, or it was deleted: "+
				"look at the server's log, and put the stream's folder back from a backup before you start again", ErrLayout, name, n)
		}
	}
	return layout{n, zero.Config.Replicas}, nil
}
