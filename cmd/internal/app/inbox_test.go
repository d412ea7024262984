package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// refusals notes what an inbox is told; the second time it fails.
type refusals struct{ told []bool }

func (r *refusals) Refuse(_ context.Context, refuse bool) error {
	r.told = append(r.told, refuse)
	if len(r.told) == 2 {
		return errors.New("no leader")
	}
	return nil
}

func TestTheInboxIsClosedWhileTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var free atomic.Uint64
		free.Store(1 << 30)
		in := &refusals{}
		go guardInbox(ctx, in, slog.New(slog.DiscardHandler), func() (uint64, error) { return free.Load(), nil }, time.Second)
		for _, step := range []struct {
			free uint64
			want []bool
		}{
			{100 << 20, nil},
			{63 << 20, []bool{true}},
			{80 << 20, []bool{true}},               // not yet
			{97 << 20, []bool{true, false}},        // which fails
			{97 << 20, []bool{true, false, false}}, // and is tried again
			{97 << 20, []bool{true, false, false}}, // with success
			{1, []bool{true, false, false, true}},  // full again
			{200 << 20, []bool{true, false, false, true, false}},
		} {
			free.Store(step.free)
			<-time.After(time.Second)
			synctest.Wait()
			if !slices.Equal(in.told, step.want) {
				t.Fatalf("with %d MiB free the inbox was told %v, want %v", step.free>>20, in.told, step.want)
			}
		}
		cancel()
	})
}
