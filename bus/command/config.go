package command

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// Config is what a Set needs. Log and Judge are required; the rest has defaults.
type Config struct {
	Log   eventlog.Log
	Judge *domain.Judge

	// Blobs keeps snapshots; nil: none are read or written.
	Blobs eventlog.Blobs
	// SnapshotEvery is the number of events after which a partition's
	// snapshot is written (default 100 000).
	SnapshotEvery int
	// SnapshotAfter is the time after which one is written when anything has
	// changed (default 5 min).
	SnapshotAfter time.Duration

	// Now is the clock (default time.Now). It is read once per group.
	Now func() time.Time
	// Logger gets what an operator should know (default: discarded).
	Logger *slog.Logger

	// OnCommit, when set, is called by the partition's writer with the records
	// of each group, in sequence order, before the callers are answered. It
	// must not block and may keep the records.
	OnCommit func(partition int, records []eventlog.Record)
	// OnReplay, when set, gets the records that a load folds, in chunks and in
	// order, so that others need not read them a second time. It may block.
	OnReplay func(partition int, records []eventlog.Record)
	// OnEvents, when set, is called by the partition's writer with the stored
	// events of each group, after OnCommit. It must not keep or change them.
	OnEvents func(partition int, events []*domain.Event)
	// Hold, when set, is asked when a partition is taken over: until the channel
	// that it returns is closed, no deadline of the partition fires. It is for
	// facts that waited elsewhere while nobody judged: they came in time, and must
	// not be overtaken by their own deadlines. nil: nothing is waited for.
	Hold func(partition int) <-chan struct{}
	// MaxRecord is the largest record that the log takes, in bytes; 0: any.
	MaxRecord int
	// Writer returns the number that stands in a record as its writer (the
	// revision of the partition's lease); nil: 0.
	Writer func(partition int) uint64

	// Observer, when set, is told how the writers fare.
	Observer Observer

	// GroupMax bounds a group (default 1000), QueueMax a partition's queue (default 16384).
	GroupMax int
	QueueMax int
}

func (c Config) withDefaults() (Config, error) {
	if c.Log == nil || c.Judge == nil {
		return c, errors.New("command: Log and Judge are required")
	}
	if c.SnapshotEvery < 0 || c.SnapshotAfter < 0 || c.GroupMax < 0 || c.QueueMax < 0 || c.MaxRecord < 0 {
		return c, fmt.Errorf("command: negative limit in %+v", []int{c.SnapshotEvery, int(c.SnapshotAfter), c.GroupMax, c.QueueMax, c.MaxRecord})
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = 100_000
	}
	if c.SnapshotAfter == 0 {
		c.SnapshotAfter = 5 * time.Minute
	}
	if c.GroupMax == 0 {
		c.GroupMax = 1000
	}
	if c.QueueMax == 0 {
		c.QueueMax = 16384
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Writer == nil {
		c.Writer = func(int) uint64 { return 0 }
	}
	return c, nil
}
