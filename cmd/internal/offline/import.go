package offline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/history"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/trace"
	"github.com/musterhq/muster/eventlog/codec"
)

// Imported says what an import did.
type Imported struct {
	Accounts int `json:"accounts"`
	Events   int `json:"events"`   // of the trace
	Appended int `json:"appended"` // of them, now
	Present  int `json:"present"`  // of them, before: the trace was imported once, wholly or in part
}

// HistoryError says that accounts of a trace have a history already, another
// than the trace gives. Nothing was written.
type HistoryError struct {
	Accounts []domain.AccountID // by id
}

// accountsNamed is how many accounts an error names.
const accountsNamed = 20

// Error names the accounts.
func (e *HistoryError) Error() string {
	names := make([]string, 0, accountsNamed)
	for _, id := range e.Accounts[:min(len(e.Accounts), accountsNamed)] {
		names = append(names, string(id))
	}
	more := ""
	if n := len(e.Accounts) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("nothing was imported: these accounts have a history already: %s%s", strings.Join(names, ", "), more)
}

// Import writes what a trace was judged to, the times of its virtual clock being
// those of recording, into the data folder of a server that is not running. All
// accounts are looked at before the first event is written. partitions counts
// for a folder that is made; 0: the default.
func Import(ctx context.Context, dir string, partitions int, res *trace.Result) (out *Imported, err error) {
	lock, err := bus.LockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	w, err := history.Open(ctx, dir, partitions)
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	im := importing{w: w, events: map[domain.AccountID][]*domain.Event{}}
	for _, e := range res.Events {
		im.events[e.Account] = append(im.events[e.Account], e)
	}
	if err := im.check(ctx); err != nil {
		return nil, err
	}
	im.out.Accounts, im.out.Events = len(im.events), len(res.Events)
	for _, e := range res.Events {
		if e.Version <= im.present[e.Account] {
			im.out.Present++
			continue
		}
		if err := w.Add(ctx, e); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		im.out.Appended++
	}
	if err := w.Flush(ctx); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return &im.out, nil
}

type importing struct {
	w       *history.Writer
	events  map[domain.AccountID][]*domain.Event
	present map[domain.AccountID]uint64 // how many are there
	out     Imported
}

// check compares the accounts' events with what the log has of them.
func (im *importing) check(ctx context.Context) error {
	im.present = map[domain.AccountID]uint64{}
	var other HistoryError
	for id, events := range im.events {
		same, err := im.compare(ctx, id, events)
		if err != nil {
			return fmt.Errorf("import: account %q: %w", id, err)
		}
		if !same {
			other.Accounts = append(other.Accounts, id)
		}
	}
	if len(other.Accounts) > 0 {
		slices.Sort(other.Accounts)
		return &other
	}
	return nil
}

// compare says whether the account's records are the first of these events, or
// all of them with others behind.
func (im *importing) compare(ctx context.Context, id domain.AccountID, events []*domain.Event) (same bool, err error) {
	var prev [16]byte
	for r, err := range im.w.Log.Account(ctx, string(id), 0) {
		if err != nil {
			return false, err
		}
		n := im.present[id]
		if n == uint64(len(events)) {
			break
		}
		e := *events[n]
		e.Prev = prev
		record, err := codec.Encode(&e)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(record, r.Data) {
			return false, nil
		}
		prev = codec.Hash(record)
		im.present[id]++
		im.w.After(&r)
	}
	return true, nil
}
