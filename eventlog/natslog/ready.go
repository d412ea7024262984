package natslog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/eventlog"
)

// readyWithin bounds the wait for a partition that was just created or whose
// servers have just started.
const readyWithin = 15 * time.Second

// awaitReady returns when the partition's stream answers appends. In a cluster
// a stream may be there before the server of this connection knows where its
// leader listens. It sends a record whose guard cannot hold, so that nothing
// is stored.
func (w *writer) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin,
		fmt.Errorf("stream %s did not answer within %v", eventlog.StreamName(w.partition), readyWithin))
	defer cancel()
	probe := &nats.Msg{
		Subject: w.subjects + "-",
		Header:  nats.Header{guardHeader: {strconv.FormatUint(math.MaxInt64, 10)}},
	}
	for wait := firstRetry; ; wait = min(2*wait, time.Second) {
		try, stop := context.WithTimeout(ctx, 2*time.Second)
		m, err := w.log.nc.RequestMsgWithContext(try, probe)
		stop()
		a := answer{err: err}
		if err == nil {
			a.body = m.Data
		}
		if _, err = outcome("-", a); !errors.Is(err, eventlog.ErrUnknown) {
			return nil // a conflict, or a stream that refuses: it answers
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
