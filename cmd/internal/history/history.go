package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/natslog"
)

// Writer writes events. It is not safe for use by several goroutines.
type Writer struct {
	Log *natslog.Log

	dir    string
	srv    *bus.Server
	nc     *nats.Conn
	groups [][]eventlog.Entry
	ends   map[string]end
}

// end is the last record of an account.
type end struct {
	hash    [16]byte
	seq     uint64
	pending bool // it lies in the group that is gathered
}

// groupMax bounds a group, as that of a writer.
const groupMax = 1000

// Open opens the log in a data folder, by a server of its own that nobody else
// can reach, and creates what is not there. partitions 0: as many as there are,
// or the default. The caller keeps others away from the folder.
func Open(ctx context.Context, dir string, partitions int) (*Writer, error) {
	srv, err := bus.StartServer(ctx, bus.ServerConfig{Dir: dir, Sync: bus.SyncInterval})
	if err != nil {
		return nil, fmt.Errorf("open the data: %w", err)
	}
	w := &Writer{dir: dir, srv: srv, ends: map[string]end{}}
	if w.nc, err = srv.Connect("history"); err == nil {
		w.Log, err = natslog.Open(ctx, w.nc, natslog.Config{Partitions: partitions})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the data: %w", err), w.stop(ctx))
	}
	w.groups = make([][]eventlog.Entry, w.Log.Partitions())
	return w, nil
}

// After says that an account has events up to this record; the next one that is
// added follows it.
func (w *Writer) After(r *eventlog.Record) {
	w.ends[r.Account] = end{hash: codec.Hash(r.Data), seq: r.Seq}
}

// Add writes the next event of its account. It sets e.Prev.
func (w *Writer) Add(ctx context.Context, e *domain.Event) error {
	account := string(e.Account)
	last := w.ends[account]
	e.Prev = last.hash
	record, err := codec.Encode(e)
	if err != nil {
		return err
	}
	entry := eventlog.Entry{Account: account, Expect: last.seq, Data: record}
	if last.pending {
		entry.Expect = eventlog.ExpectPrevious
	}
	last.hash, last.pending = codec.Hash(record), true
	w.ends[account] = last
	p := eventlog.Partition(account, len(w.groups))
	w.groups[p] = append(w.groups[p], entry)
	if len(w.groups[p]) == groupMax {
		return w.flush(ctx, p)
	}
	return nil
}

// flush stores a partition's group.
func (w *Writer) flush(ctx context.Context, partition int) error {
	group := w.groups[partition]
	if len(group) == 0 {
		return nil
	}
	for i, r := range w.Log.Append(ctx, partition, group) {
		if r.Err != nil {
			return fmt.Errorf("store an event of %q: %w", group[i].Account, r.Err)
		}
		last := w.ends[group[i].Account]
		last.seq, last.pending = r.Seq, false
		w.ends[group[i].Account] = last
	}
	w.groups[partition] = group[:0]
	return nil
}

// Flush stores what was added.
func (w *Writer) Flush(ctx context.Context) error {
	for p := range w.groups {
		if err := w.flush(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the server, and syncs its files when all went well until here.
// What was not flushed is not written.
func (w *Writer) Close(ctx context.Context) error {
	if err := w.stop(ctx); err != nil {
		return err
	}
	return syncTree(w.dir)
}

func (w *Writer) stop(ctx context.Context) error {
	var err error
	if w.Log != nil {
		err = w.Log.Close()
	}
	if w.nc != nil {
		w.nc.Close()
	}
	return errors.Join(err, w.srv.Shutdown(context.WithoutCancel(ctx)))
}

// syncTree makes all files of a folder, and their names, survive a power cut.
func syncTree(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
	if err != nil {
		return fmt.Errorf("sync the data: %w", err)
	}
	return nil
}
