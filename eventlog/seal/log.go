package seal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"syscall"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

var _ eventlog.Log = (*Log)(nil)

// Log is a log whose records are sealed on their way in and opened on their way
// out. What of it is stored under an account's alias is known by its id here.
type Log struct {
	inner  eventlog.Log
	keys   *Keys
	latest []group // by partition
}

// group is what the last append of a partition has stored, by sequence.
type group struct {
	mu     sync.Mutex
	stored map[uint64]eventlog.Record
}

// Wrap seals a log with keys that were made for its number of partitions. Closing
// the Log closes inner, and not the keys.
func Wrap(inner eventlog.Log, keys *Keys) (*Log, error) {
	if n := inner.Partitions(); n != keys.partitions {
		return nil, fmt.Errorf("seal log: %w: they are of a log of %d partitions, not %d", ErrKeys, keys.partitions, n)
	}
	return &Log{inner, keys, make([]group, inner.Partitions())}, nil
}

// MaxRecord is the size of the largest record that can be sealed where sealed
// ones of a size are stored.
func MaxRecord(stored int) int { return (stored - 1024) / 2 }

// Partitions is the number of partitions.
func (l *Log) Partitions() int { return l.inner.Partitions() }

// Append seals a group and stores it. New accounts have their keys on disk before
// anything is stored.
func (l *Log) Append(ctx context.Context, partition int, group []eventlog.Entry) []eventlog.Result {
	results := make([]eventlog.Result, len(group))
	good := eventlog.CheckGroup(l.Partitions(), partition, group, results)
	for i, e := range group {
		if results[i].Err == nil && IsAlias(e.Account) {
			good = false
			results[i].Err = fmt.Errorf("%w: account %q: %w, or its id has the form that erased accounts have", eventlog.ErrRefused, e.Account, ErrErased)
		}
	}
	if !good {
		return l.appendGood(ctx, partition, group, results)
	}
	return l.append(ctx, partition, group)
}

// appendGood appends the entries that have no result yet.
func (l *Log) appendGood(ctx context.Context, partition int, group []eventlog.Entry, results []eventlog.Result) []eventlog.Result {
	var good []eventlog.Entry
	var at []int
	failed := map[string]error{}
	for i, e := range group {
		switch err := failed[e.Account]; {
		case results[i].Err != nil:
			failed[e.Account] = results[i].Err
		case err != nil:
			results[i] = eventlog.FollowsFailure(e.Account, err)
		default:
			good, at = append(good, e), append(at, i)
		}
	}
	if len(good) > 0 {
		for j, r := range l.append(ctx, partition, good) {
			results[at[j]] = r
		}
	}
	return results
}

// append is Append of a group that the contract allows.
func (l *Log) append(ctx context.Context, partition int, group []eventlog.Entry) []eventlog.Result {
	results := make([]eventlog.Result, len(group))
	if err := l.admit(group); err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	prev, err := l.previous(ctx, group)
	if err != nil {
		for i := range results {
			results[i].Err = fmt.Errorf("%w: %w", eventlog.ErrUnknown, err)
		}
		return results
	}
	var sealed []eventlog.Entry
	var at []int
	failed := map[string]error{}
	for i, e := range group {
		if err := failed[e.Account]; err != nil {
			results[i] = eventlog.FollowsFailure(e.Account, err)
			continue
		}
		k := l.keys.of(e.Account)
		data, err := k.seal(e.Data, prev[e.Account])
		if err != nil {
			results[i].Err = fmt.Errorf("%w: account %q: %w", eventlog.ErrRefused, e.Account, err)
			failed[e.Account] = results[i].Err
			continue
		}
		prev[e.Account] = codec.Hash(data)
		sealed, at = append(sealed, eventlog.Entry{Account: k.alias, Expect: e.Expect, Data: data}), append(at, i)
	}
	if len(sealed) == 0 {
		return results
	}
	stored := make(map[uint64]eventlog.Record, len(sealed))
	for j, r := range l.inner.Append(ctx, partition, sealed) {
		results[at[j]] = l.result(group[at[j]].Account, sealed[j].Data, r)
		if r.Err == nil {
			stored[r.Seq] = eventlog.Record{Partition: partition, Seq: r.Seq, Account: sealed[j].Account, Data: sealed[j].Data}
		}
	}
	l.latest[partition].mu.Lock()
	l.latest[partition].stored = stored
	l.latest[partition].mu.Unlock()
	return results
}

// AsStored returns records that the last append of the partition has stored as
// they are stored, with the times of those that are given. Others are left out.
func (l *Log) AsStored(partition int, records []eventlog.Record) []eventlog.Record {
	g := &l.latest[partition]
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]eventlog.Record, 0, len(records))
	for _, r := range records {
		if s, ok := g.stored[r.Seq]; ok {
			s.Time = r.Time
			out = append(out, s)
		}
	}
	return out
}

// admit gives new accounts keys.
func (l *Log) admit(group []eventlog.Entry) error {
	var fresh []string
	for _, e := range group {
		if l.keys.of(e.Account) == nil {
			fresh = append(fresh, e.Account)
		}
	}
	err := l.keys.ensure(fresh)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: %w: %w", eventlog.ErrRefused, eventlog.ErrNoRoom, err)
	case errors.Is(err, ErrKeys):
		return fmt.Errorf("%w: %w", eventlog.ErrFailed, err)
	}
	return fmt.Errorf("%w: %w", eventlog.ErrRefused, err)
}

// lookups is how many accounts' last records are read side by side.
const lookups = 16

// previous returns, for each account of the group, the hash of the stored record
// that its first entry is to follow. For an entry that will meet a conflict it
// does not matter.
func (l *Log) previous(ctx context.Context, group []eventlog.Entry) (map[string][16]byte, error) {
	prev := make(map[string][16]byte, len(group))
	var mu sync.Mutex
	var wg sync.WaitGroup
	var broken error
	slots := make(chan struct{}, lookups)
	first := map[string]bool{}
	for _, e := range group {
		if first[e.Account] {
			continue
		}
		first[e.Account] = true
		k := l.keys.of(e.Account)
		seq, hash := k.last()
		if e.Expect == 0 || seq == e.Expect {
			if seq == e.Expect {
				mu.Lock()
				prev[e.Account] = hash
				mu.Unlock()
			}
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r, err := l.inner.Last(ctx, k.alias)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && r.Seq == e.Expect:
				prev[e.Account] = codec.Hash(r.Data)
			case err != nil && !errors.Is(err, eventlog.ErrNotFound):
				broken = err
			}
		})
	}
	wg.Wait()
	return prev, broken
}

// result is a result of the inner log for the caller, who knows no aliases.
func (l *Log) result(account string, stored []byte, r eventlog.Result) eventlog.Result {
	if r.Err == nil {
		l.keys.of(account).saw(r.Seq, codec.Hash(stored))
		return r
	}
	var conflict *eventlog.ConflictError
	if errors.As(r.Err, &conflict) {
		r.Err = &eventlog.ConflictError{Account: account, Last: conflict.Last}
	}
	return r
}

// Sync passes the barrier.
func (l *Log) Sync(ctx context.Context, partition int) error { return l.inner.Sync(ctx, partition) }

// name is the account as it is stored; ok is false when nothing can be.
func (l *Log) name(account string) (string, bool) {
	if alias, ok := l.keys.Alias(account); ok {
		return alias, true
	}
	return account, IsAlias(account)
}

// Last returns the account's last record, or ErrNotFound. The id of an erased
// account is its alias.
func (l *Log) Last(ctx context.Context, account string) (eventlog.Record, error) {
	name, ok := l.name(account)
	if !ok {
		return eventlog.Record{}, fmt.Errorf("last record of account %q: %w", account, eventlog.ErrNotFound)
	}
	r, err := l.inner.Last(ctx, name)
	if err != nil {
		return r, err
	}
	return l.opened(r), nil
}

// Account yields the account's records with Seq >= from, oldest first.
func (l *Log) Account(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error] {
	return l.along(ctx, account, func(name string) iter.Seq2[eventlog.Record, error] { return l.inner.Account(ctx, name, from) })
}

// Back yields the account's records with Seq <= from, the last one first.
func (l *Log) Back(ctx context.Context, account string, from uint64) iter.Seq2[eventlog.Record, error] {
	return l.along(ctx, account, func(name string) iter.Seq2[eventlog.Record, error] { return l.inner.Back(ctx, name, from) })
}

// along opens the records of an account, which inner reads by the name under which
// they are stored. There are none of one without a name.
func (l *Log) along(ctx context.Context, account string, inner func(name string) iter.Seq2[eventlog.Record, error]) iter.Seq2[eventlog.Record, error] {
	if name, ok := l.name(account); ok {
		return l.all(inner(name))
	}
	return func(yield func(eventlog.Record, error) bool) {
		if err := context.Cause(ctx); err != nil {
			yield(eventlog.Record{}, err)
		}
	}
}

// Read yields the partition's records with Seq > after.
func (l *Log) Read(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return l.all(l.inner.Read(ctx, partition, after))
}

// Follow is Read that goes on with new records until ctx ends.
func (l *Log) Follow(ctx context.Context, partition int, after uint64) iter.Seq2[eventlog.Record, error] {
	return l.all(l.inner.Follow(ctx, partition, after))
}

func (l *Log) all(inner iter.Seq2[eventlog.Record, error]) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range inner {
			if err == nil {
				r = l.opened(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// ErrOpen is wrapped when a stored record is not one that its account's key has sealed.
var ErrOpen = errBox

// Unseal opens a stored record in place: the account's id stands for its alias then,
// and the data is as it was before it was sealed. ok is false when there is no key for
// it, which leaves the record as it is; an ErrOpen does, too.
func (k *Keys) Unseal(r *eventlog.Record) (ok bool, err error) {
	e := k.ofAlias(r.Account)
	if e == nil {
		return false, nil
	}
	plain, err := e.open(r.Data)
	if err != nil {
		return true, fmt.Errorf("account %q, stored as %s: %w", e.id, e.alias, ErrOpen)
	}
	r.Account, r.Data = e.id, plain
	return true, nil
}

// Plain returns the data of a stored record of an account as Log gives it.
func (k *Keys) Plain(account string, stored []byte) []byte {
	if e := k.of(account); e != nil {
		if plain, err := e.open(stored); err == nil {
			return plain
		}
	}
	return stored
}

// opened is a stored record as it was before it was sealed. Without a key it
// stays as it is stored: a record of the account that its alias names. One that
// its key does not open does, too, under the account's id, so that who folds it
// finds that it does not belong there and calls the account damaged.
func (l *Log) opened(r eventlog.Record) eventlog.Record {
	k := l.keys.ofAlias(r.Account)
	if k == nil {
		return r
	}
	k.saw(r.Seq, codec.Hash(r.Data))
	r.Account = k.id
	if plain, err := k.open(r.Data); err == nil {
		r.Data = plain
	}
	return r
}

// Info reports a partition's state.
func (l *Log) Info(ctx context.Context, partition int) (eventlog.Info, error) {
	return l.inner.Info(ctx, partition)
}

// Close closes the inner log.
func (l *Log) Close() error { return l.inner.Close() }
