// Package barrier makes records that an embedded nats-server has acked
// durable: one fdatasync for a whole group of them instead of one for each.
//
// It owns no data, only open files of the server's store, whose layout it
// knows: <store>/jetstream/<account>/streams/<stream>/msgs/<n>.blk, each block
// written in order by one write(2) per record before the record's ack, a new
// block with the next number. Because that layout is the server's and not
// ours, it is checked twice: the caller proves it once with a probe before it
// relies on it (natslog.Probe), and every Pass demands that records which were
// just acked have made a file grow.
//
// When a Pass fails, what was acked since the last one may not be on disk.
// The caller must not acknowledge it and must not try again: after a failed
// fsync the kernel may call the pages clean that it could not write.
//
// It also keeps a mark per partition, the highest sequence ever acknowledged,
// in a small file that is written but not synced: a stream that ends below its
// mark has lost acknowledged records at its end, which nothing else shows.
package barrier

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/musterhq/muster/eventlog"
)

// Mode is what makes an acknowledged record durable.
type Mode string

// The modes.
const (
	SyncGroup    Mode = "group"    // the barrier, once per group
	SyncAlways   Mode = "always"   // the server's own fsync, once per record
	SyncInterval Mode = "interval" // the server's own fsync now and then: a power cut may lose the last moments
)

// ParseMode reads a mode's name.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case SyncGroup, SyncAlways, SyncInterval:
		return m, nil
	}
	return "", fmt.Errorf("unknown sync mode %q: it is %s, %s or %s", s, SyncGroup, SyncAlways, SyncInterval)
}

// DefaultReserve is the free space below which appends are refused.
const DefaultReserve = 32 << 20

// Config is what a barrier works on.
type Config struct {
	StoreDir   string // the folder that the server was given for its store
	Account    string // the server's account; "": the global one, $G
	Partitions int
	Mode       Mode
	MarkFile   string // the file of the marks; "": none
	Reserve    int64  // bytes that must stay free; 0: DefaultReserve; negative: not looked at
}

// Barrier is the barrier of one log. It satisfies natslog.Barrier.
type Barrier struct {
	cfg   Config
	marks *marks
	parts []part
}

type part struct {
	mu    sync.Mutex
	files *Files // nil until the first Pass
}

// Open returns a barrier. It opens the marks; the streams' files are opened by
// each partition's first Pass, which finds everything that is there not yet
// synced and syncs all of it.
func Open(cfg Config) (*Barrier, error) {
	if _, err := ParseMode(string(cfg.Mode)); err != nil {
		return nil, fmt.Errorf("open barrier: %w", err)
	}
	if cfg.Reserve == 0 {
		cfg.Reserve = DefaultReserve
	}
	b := &Barrier{cfg: cfg, parts: make([]part, cfg.Partitions)}
	if cfg.MarkFile != "" {
		m, err := openMarks(cfg.MarkFile)
		if err != nil {
			return nil, fmt.Errorf("open barrier: %w", err)
		}
		b.marks = m
	}
	return b, nil
}

// StreamDir is where a server keeps a stream's files; account "" is $G.
func StreamDir(storeDir, account, stream string) string {
	if account == "" {
		account = "$G"
	}
	return filepath.Join(storeDir, "jetstream", account, "streams", stream)
}

// Mode is how the barrier was opened.
func (b *Barrier) Mode() Mode { return b.cfg.Mode }

// Pass makes durable what the partition's stream holds, as far as the mode
// promises it, and then writes the mark. acked is how many records were just
// acked: if there are any, a file must have grown.
func (b *Barrier) Pass(partition, acked int, last uint64) error {
	if partition < 0 || partition >= len(b.parts) {
		return fmt.Errorf("barrier: there is no partition %d of %d", partition, len(b.parts))
	}
	p := &b.parts[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := b.sync(p, partition, acked > 0); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	if b.marks != nil && last > 0 {
		if err := b.marks.raise(partition, last); err != nil {
			return fmt.Errorf("barrier: %w", err)
		}
	}
	return nil
}

// sync does what the mode asks for. Every mode but interval begins with all
// that an earlier run may have left unsynced.
func (b *Barrier) sync(p *part, partition int, grown bool) error {
	if b.cfg.Mode == SyncInterval {
		return nil
	}
	if p.files == nil {
		f, err := OpenFiles(StreamDir(b.cfg.StoreDir, b.cfg.Account, eventlog.StreamName(partition)), b.cfg.StoreDir)
		if err != nil {
			return err
		}
		p.files = f
		grown = false // all was synced just now
	}
	if b.cfg.Mode == SyncAlways {
		return nil
	}
	return p.files.Sync(grown)
}

// Room refuses an append for which the disk may have no room (eventlog.ErrNoRoom),
// so that the server never meets a full disk: it would stop the stream for good.
func (b *Barrier) Room(bytes int) error {
	if b.cfg.Reserve < 0 {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(b.cfg.StoreDir, &st); err != nil {
		return fmt.Errorf("ask for free space: %w", &os.PathError{Op: "statfs", Path: b.cfg.StoreDir, Err: err})
	}
	free := int64(st.Bavail) * int64(st.Bsize)
	if need := b.cfg.Reserve + 2*int64(bytes); free < need {
		return fmt.Errorf("%w: %d MiB are free at %s and %d MiB are needed; free some space and send again",
			eventlog.ErrNoRoom, free>>20, b.cfg.StoreDir, need>>20+1)
	}
	return nil
}

// Close closes the files.
func (b *Barrier) Close() error {
	var errs []error
	for i := range b.parts {
		p := &b.parts[i]
		p.mu.Lock()
		if p.files != nil {
			errs = append(errs, p.files.Close())
			p.files = nil
		}
		p.mu.Unlock()
	}
	if b.marks != nil {
		errs = append(errs, b.marks.close())
	}
	return errors.Join(errs...)
}
