package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/natslog"
)

// WriteHistory writes events into a data directory that has none yet, as a Muster
// that is started there afterwards would have written them. It returns how many
// they were.
func WriteHistory(ctx context.Context, dir string, partitions int, events iter.Seq[*domain.Event]) (n int, err error) {
	srv, err := bus.StartServer(ctx, bus.ServerConfig{Dir: dir, Sync: bus.SyncInterval})
	if err != nil {
		return 0, fmt.Errorf("write a history: %w", err)
	}
	defer func() { err = errors.Join(err, srv.Shutdown(context.WithoutCancel(ctx))) }()
	nc, err := srv.Connect("history")
	if err != nil {
		return 0, fmt.Errorf("write a history: %w", err)
	}
	defer nc.Close()
	log, err := natslog.Open(ctx, nc, natslog.Config{Partitions: partitions})
	if err != nil {
		return 0, fmt.Errorf("write a history: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	h := &historian{log: log, groups: make([][]eventlog.Entry, partitions), ends: map[string]end{}}
	for e := range events {
		if err := h.add(ctx, e); err != nil {
			return n, fmt.Errorf("write a history: %w", err)
		}
		n++
	}
	for p := range h.groups {
		if err := h.flush(ctx, p); err != nil {
			return n, fmt.Errorf("write a history: %w", err)
		}
	}
	return n, nil
}

// historian writes events in groups.
type historian struct {
	log    *natslog.Log
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

func (h *historian) add(ctx context.Context, e *domain.Event) error {
	account := string(e.Account)
	last := h.ends[account]
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
	h.ends[account] = last
	p := eventlog.Partition(account, len(h.groups))
	h.groups[p] = append(h.groups[p], entry)
	if len(h.groups[p]) == groupMax {
		return h.flush(ctx, p)
	}
	return nil
}

// flush stores a partition's group.
func (h *historian) flush(ctx context.Context, partition int) error {
	group := h.groups[partition]
	if len(group) == 0 {
		return nil
	}
	for i, r := range h.log.Append(ctx, partition, group) {
		if r.Err != nil {
			return fmt.Errorf("store an event of %q: %w", group[i].Account, r.Err)
		}
		last := h.ends[group[i].Account]
		last.seq, last.pending = r.Seq, false
		h.ends[group[i].Account] = last
	}
	h.groups[partition] = group[:0]
	return nil
}
