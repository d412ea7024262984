package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natslog/barrier"
	"github.com/musterhq/muster/eventlog/natslog/blockscan"
	"github.com/musterhq/muster/eventlog/seal"
)

func (a *App) connectConfig(name string) bus.ConnectConfig {
	return bus.ConnectConfig{
		URL: a.cfg.NATSURL, Name: name, User: a.cfg.User, Password: a.cfg.Password,
		Logger: a.log.With("component", "nats"), Wait: 30 * time.Second,
	}
}

// startServer locks the data directory and starts the embedded server on it.
// With an external server there is nothing to do.
func (a *App) startServer(ctx context.Context) error {
	if !a.cfg.Embedded() {
		return nil
	}
	lock, err := bus.LockDir(a.cfg.Data)
	if err != nil {
		return err
	}
	a.onEnd("data directory", time.Second, func(context.Context) error { return lock.Unlock() })
	if err := errIfErasing(a.cfg.Data); err != nil {
		return err
	}
	if err := offline.FinishRepair(ctx, a.cfg.Data); err != nil {
		return err
	}
	if a.hurt, a.holes, err = offline.ScanDamage(a.cfg.Data, a.log); err != nil {
		return err
	}
	return a.runServer(ctx, bus.Sync(a.cfg.Sync))
}

func (a *App) runServer(ctx context.Context, sync bus.Sync) (err error) {
	a.server, err = bus.StartServer(ctx, bus.ServerConfig{
		Dir: a.cfg.Data, Listen: a.cfg.NATSListen, Authenticate: a.door.tokens.Authenticate, TLS: a.door.tls, Sync: sync,
		Logger: a.log.With("component", "nats-server"),
	})
	if err != nil {
		return err
	}
	a.onEnd("NATS server", 20*time.Second, func(ctx context.Context) error {
		a.door.tokens.Close() // clients that wait to be let in would be waited for
		return a.server.Shutdown(ctx)
	})
	return nil
}

// openLog connects and opens the streams, with the barrier that the sync mode
// asks for.
func (a *App) openLog(ctx context.Context) (err error) {
	if a.nc, err = a.Connect("muster log"); err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	a.onEnd("log connection", 5*time.Second, func(context.Context) error { a.nc.Close(); return nil })
	cfg := natslog.Config{}
	if a.cfg.Origins["partitions"] != "default" { // asked for: data of another count is refused
		cfg.Partitions = a.cfg.Partitions
	}
	if a.cfg.Embedded() {
		b, err := a.openBarrier(ctx)
		if err != nil {
			return err
		}
		cfg.Barrier, cfg.Blocks = a.measured(b), blockscan.NewReader(a.storeDir())
	}
	if a.cfg.Erasable {
		cfg.RecordLayout = natslog.SealedLayout
	}
	stored, err := natslog.Open(ctx, a.nc, cfg)
	if err != nil {
		return err
	}
	a.onEnd("log", 5*time.Second, func(context.Context) error { return stored.Close() })
	if err := a.sealLog(ctx, stored); err != nil {
		return err
	}
	if !a.cfg.Embedded() {
		if err := a.tellDurability(ctx); err != nil {
			return err
		}
	}
	blobs, err := natslog.OpenBlobs(ctx, a.nc, a.events.Replicas())
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	roomy := &roomyBlobs{Blobs: blobs, broken: a.broken.Load}
	if a.cfg.Embedded() {
		roomy.free = a.diskFree
	}
	a.blobs = roomy
	if a.keys != nil {
		a.blobs = seal.WrapBlobs(roomy, a.keys)
	}
	return nil
}

// openBarrier proves that the group barrier sees what the server stores. When
// it does not, the server is started again with its own sync for every record.
func (a *App) openBarrier(ctx context.Context) (*barrier.Barrier, error) {
	mode := barrier.Mode(a.cfg.Sync)
	if mode == barrier.SyncGroup {
		if err := natslog.Probe(ctx, a.nc, a.storeDir(), ""); err != nil {
			if !errors.Is(err, natslog.ErrProbe) {
				return nil, fmt.Errorf("open the log: %w", err)
			}
			a.log.Warn("group sync cannot be relied on here; every record is synced by itself instead (--sync always), which is much slower", "reason", err)
			mode = barrier.SyncAlways
			if err := a.restartServer(ctx); err != nil {
				return nil, err
			}
		}
	}
	if mode == barrier.SyncInterval {
		a.log.Warn("sync mode interval: an acknowledged event survives the end of the process, but a power cut may lose the last moments")
	}
	b, err := barrier.Open(barrier.Config{
		StoreDir: a.storeDir(), Partitions: eventlog.MaxPartitions, Mode: mode, MarkFile: offline.MarkFile(a.cfg.Data),
	})
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	a.onEnd("barrier", 5*time.Second, func(context.Context) error { return b.Close() })
	return b, nil
}

// diskFree is the space in bytes that is left for the embedded server's store.
func (a *App) diskFree() (uint64, error) {
	free, _, err := bus.DiskFree(a.storeDir())
	return free, err
}

// storeDir is the folder that the embedded server was given.
func (a *App) storeDir() string { return filepath.Join(a.cfg.Data, "nats") }

// restartServer starts the server again, with its own sync for every record.
// What was to end the old one and its connection ends the new ones instead.
func (a *App) restartServer(ctx context.Context) error {
	a.nc.Close()
	if err := a.server.Shutdown(ctx); err != nil {
		return err
	}
	if err := a.runServer(ctx, bus.SyncAlways); err != nil {
		return err
	}
	a.ends = a.ends[:len(a.ends)-1]
	nc, err := a.Connect("muster log")
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	a.nc = nc
	return nil
}

// tellDurability says what an acknowledgement means on an external server.
func (a *App) tellDurability(ctx context.Context) error {
	d, err := bus.ServerDurability(ctx, a.nc)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	a.log.Info("external NATS server", "version", d.Version, "acknowledged", d.Ack(a.events.Replicas()))
	return nil
}
