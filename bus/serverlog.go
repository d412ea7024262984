package bus

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// serverLog carries the embedded server's log to slog. What the server calls
// fatal does not end the process here: it is kept, and reported by StartServer.
type serverLog struct {
	log *slog.Logger

	once  sync.Once
	fatal chan struct{} // closed by the first Fatalf
	err   error         // valid once fatal is closed
}

func newServerLog(l *slog.Logger) *serverLog {
	return &serverLog{log: l.With("component", "nats-server"), fatal: make(chan struct{})}
}

func (l *serverLog) put(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "the NATS server says", "line", fmt.Sprintf(format, v...))
	}
}

// Noticef is the server's everyday chatter, below what an operator follows.
func (l *serverLog) Noticef(format string, v ...any) { l.put(slog.LevelDebug, format, v) }

// Warnf logs a warning.
func (l *serverLog) Warnf(format string, v ...any) { l.put(slog.LevelWarn, format, v) }

// Errorf logs an error.
func (l *serverLog) Errorf(format string, v ...any) { l.put(slog.LevelError, format, v) }

// Debugf logs for developers.
func (l *serverLog) Debugf(format string, v ...any) { l.put(slog.LevelDebug, format, v) }

// Tracef logs for developers.
func (l *serverLog) Tracef(format string, v ...any) { l.put(slog.LevelDebug, format, v) }

// Fatalf keeps the first fatal error.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.once.Do(func() {
		l.err = fmt.Errorf(format, v...)
		close(l.fatal)
	})
}
