package inbox

import (
	"context"
	"log/slog"
	"time"
)

// Holder tells when what waited in the inbox at some moment has been judged. It
// looks at the stream, so it does not matter which process reads.
type Holder struct {
	Store   *Store
	Logger  *slog.Logger  // required
	Every   time.Duration // between two looks (default 50 ms)
	Patient time.Duration // without any progress, until it is given up (default 30 s)
}

// Hold returns a channel that is closed when every message that waits now has
// been judged or parked, when nothing has moved for Patient, or when ctx ends.
// The goroutine behind it ends at the same time; run starts it.
func (h Holder) Hold(ctx context.Context, run func(func())) <-chan struct{} {
	if h.Every == 0 {
		h.Every = 50 * time.Millisecond
	}
	if h.Patient == 0 {
		h.Patient = 30 * time.Second
	}
	done := make(chan struct{})
	first, last, err := h.look(ctx)
	if err == nil && first > last {
		close(done)
		return done
	}
	run(func() {
		defer close(done)
		h.await(ctx, first, last)
	})
	return done
}

// look returns the sequences of the oldest message that waits and of the last
// one that was ever stored. first > last: none waits.
func (h Holder) look(ctx context.Context) (first, last uint64, err error) {
	info, err := h.Store.in.Info(ctx)
	if err != nil {
		return 0, 0, err
	}
	if info.State.Msgs == 0 {
		return info.State.LastSeq + 1, info.State.LastSeq, nil
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

// await waits until the oldest message is one behind last. last 0: the first
// look has failed, and the next one says what waits.
func (h Holder) await(ctx context.Context, first, last uint64) {
	begin := time.Now()
	moved := begin
	tick := time.NewTicker(h.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, end, err := h.look(ctx)
		if err == nil && last == 0 {
			first, last = now, end
		}
		switch {
		case err == nil && now > last:
			h.Logger.Info("what waited in the inbox at the start is judged; deadlines fire from now on", "took", time.Since(begin).Round(time.Millisecond))
			return
		case err == nil && now > first:
			first, moved = now, time.Now()
		case time.Since(moved) >= h.Patient:
			h.Logger.Warn("what waited in the inbox at the start is not all judged, and nothing moves; deadlines fire from now on",
				"oldest", first, "waited_for", last, "without_progress", h.Patient)
			return
		}
	}
}
