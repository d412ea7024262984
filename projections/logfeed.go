package projections

import (
	"context"
	"errors"

	"github.com/musterhq/muster/eventlog"
)

// logFeed runs a log's Follow in a goroutine of its own, so that it can be
// waited for together with something else.
type logFeed struct {
	records chan eventlog.Record
	err     error // valid once records is closed
	cancel  context.CancelFunc
}

// errEnded is a Follow that ended although nobody had asked it to.
var errEnded = errors.New("the log's follower ended by itself")

// openLog starts to follow.
func openLog(ctx context.Context, log Source, partition int, after uint64) *logFeed {
	ctx, cancel := context.WithCancel(ctx)
	f := &logFeed{records: make(chan eventlog.Record, teeBatch), cancel: cancel}
	go func() {
		defer close(f.records)
		for rec, err := range log.Follow(ctx, partition, after) {
			if err != nil {
				f.err = err
				return
			}
			select {
			case f.records <- rec:
			case <-ctx.Done():
				return
			}
		}
	}()
	return f
}

// failure says why the follower ended.
func (f *logFeed) failure() error {
	if f.err != nil {
		return f.err
	}
	return errEnded
}

// stop ends the goroutine and waits until it is gone.
func (f *logFeed) stop() {
	f.cancel()
	for range f.records {
	}
}
