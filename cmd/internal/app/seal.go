package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/seal"
)

// KeysDir is the folder of the keys within a data directory.
func KeysDir(data string) string { return filepath.Join(data, "keys") }

// history is the log as the parts of the App know it: plain records, also when
// they are stored sealed.
type history struct {
	eventlog.Log
	stored *natslog.Log // as it is on disk, for what copies bytes
	sealed *seal.Log    // nil: records are stored as they are
}

// Replicas is how many servers keep each stream.
func (h *history) Replicas() int { return h.stored.Replicas() }

// MaxRecord is the size of the largest record that can be appended.
func (h *history) MaxRecord() int {
	if h.sealed != nil {
		return seal.MaxRecord(h.stored.MaxRecord())
	}
	return h.stored.MaxRecord()
}

// errNoKeys: the history is sealed, and the keys are not there.
var errNoKeys = errors.New("the folder of the keys is missing; put it back: without it everything personal in the history is lost")

// sealLog makes the log that the App works with, and the keys of a new one.
func (a *App) sealLog(ctx context.Context, stored *natslog.Log) error {
	a.events = &history{Log: stored, stored: stored}
	if !a.cfg.Erasable {
		return nil
	}
	dir := KeysDir(a.cfg.Data)
	open := seal.Open
	if !seal.Exist(dir) {
		for p := range stored.Partitions() {
			info, err := stored.Info(ctx, p)
			if err != nil {
				return fmt.Errorf("open the log: %w", err)
			}
			if info.Last > 0 {
				return fmt.Errorf("open the log: %s: %w", dir, errNoKeys)
			}
		}
		open = seal.Create
	}
	keys, err := open(dir, stored.Partitions())
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	a.onEnd("keys", time.Second, func(context.Context) error { return keys.Close() })
	sealed, err := seal.Wrap(stored, keys)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	a.keys, a.events = keys, &history{Log: sealed, stored: stored, sealed: sealed}
	a.hurt = named(a.hurt, keys)
	return nil
}

// named is the damage by the ids of accounts where it is by their aliases.
func named(d offline.Damaged, keys *seal.Keys) offline.Damaged {
	out := make(offline.Damaged, len(d))
	for name, why := range d {
		if id, ok := keys.Account(name); ok {
			name = id
		}
		out[name] = why
	}
	return out
}
