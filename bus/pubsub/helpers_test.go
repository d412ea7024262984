package pubsub_test

import (
	"log/slog"
	"testing"
)

// testLog writes into the test's log.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}
