package offline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/natslog"
)

// OpenServer opens the log that a server keeps, and never creates one: there is
// none is an eventlog.ErrNotFound. close must be called.
func OpenServer(ctx context.Context, cfg bus.ConnectConfig) (log History, close func(), err error) {
	nc, err := bus.Connect(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	r, err := natslog.OpenReader(ctx, nc)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return r, func() { r.Close(); nc.Close() }, nil
}

// OpenData opens the log in the data folder of a server that is not running, by
// a server of its own that nobody else can reach. close must be called.
func OpenData(ctx context.Context, dir string) (log History, close func(), err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, nil, fmt.Errorf("open the data: %w: %w", eventlog.ErrNotFound, err)
	}
	lock, err := bus.LockDir(dir)
	if err != nil {
		return nil, nil, err
	}
	if err := FinishRepair(ctx, dir); err != nil {
		return nil, nil, errors.Join(err, lock.Unlock())
	}
	// The server cuts damaged blocks when it starts: what they hold is copied first.
	if _, _, err := ScanDamage(dir, slog.New(slog.DiscardHandler)); err != nil {
		return nil, nil, errors.Join(err, lock.Unlock())
	}
	srv, err := bus.StartServer(ctx, bus.ServerConfig{Dir: dir, Sync: bus.SyncGroup})
	if err != nil {
		return nil, nil, errors.Join(err, lock.Unlock())
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx)
		_ = lock.Unlock()
	}
	nc, err := srv.Connect("muster offline")
	if err != nil {
		stop()
		return nil, nil, err
	}
	r, err := natslog.OpenReader(ctx, nc)
	if err != nil {
		nc.Close()
		stop()
		return nil, nil, err
	}
	return r, func() { r.Close(); nc.Close(); stop() }, nil
}
