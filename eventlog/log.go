// Package eventlog is the contract of the history: where records are kept and
// what an append, a read and a follow promise.
//
// It owns the Log interface and its four append results. It stores bytes and
// knows nothing of what they mean; only its codec does. Authoritative is the
// log: everything else in Muster is a fold of it and can be rebuilt.
// DESIGN.md beside this file argues each promise and names its test.
package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
)

// ExpectPrevious is the Expect of an entry that follows another entry of the
// same account in the same group: it must directly follow that one.
const ExpectPrevious uint64 = math.MaxUint64

// Entry is one record to append.
type Entry struct {
	Account string // unescaped account id
	Expect  uint64 // stream sequence of the account's last record; 0 = it has none; or ExpectPrevious
	Data    []byte // the record; the log neither looks at it nor keeps the slice after Append returns
}

// Result is what became of an Entry: Seq and a nil Err when it is stored (and,
// as far as the log's sync mode promises, on disk), else one of ErrConflict,
// ErrRefused, ErrUnknown, and ErrFailed when the log itself is broken (test with
// errors.Is).
type Result struct {
	Seq uint64
	Err error
}

// The three ways in which an append is not a success.
var (
	// ErrConflict: nothing was stored, because the account's last record is
	// not the expected one. Somebody else wrote: reload and judge again.
	ErrConflict = errors.New("the account's last record is not the expected one")
	// ErrRefused: nothing was stored, and trying again will not help. The
	// wrapping error carries the server's words.
	ErrRefused = errors.New("the log refused the record")
	// ErrNoRoom is wrapped beside ErrRefused when the disk is too full for the
	// record: the same can be sent again when there is room.
	ErrNoRoom = errors.New("the disk is full")
	// ErrUnknown: it may be stored or not. Never judge again: read the
	// account's tail back and compare bytes.
	ErrUnknown = errors.New("it is not known whether the record was stored")
	// ErrFailed: the log can no longer keep its promise (a barrier failed, so
	// what was written may not be on disk). Nothing more is appended until the
	// process has been started again and has replayed what is really there.
	ErrFailed = errors.New("the log has failed and takes no more records")
	// ErrNotFound: there is no such record, account or blob.
	ErrNotFound = errors.New("not found")
)

// ConflictError is an ErrConflict that may know the account's real last sequence.
type ConflictError struct {
	Account string
	Last    uint64 // 0 when the server did not say
}

// Error says which account and, when known, its last sequence.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("account %q: %v (last %d)", e.Account, ErrConflict, e.Last)
}

// Unwrap makes errors.Is(err, ErrConflict) hold.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// Record is one stored record.
type Record struct {
	Partition int
	Seq       uint64 // sequence in the partition's stream
	Account   string // unescaped account id
	Data      []byte // must not be changed; may be kept
	Time      int64  // when the log stored it, unix ns
}

// Info is the state of one partition's stream.
type Info struct {
	First, Last uint64 // first and last sequence; Last 0 = nothing was ever stored
	Messages    uint64 // stored now; less than Last-First+1 means records are missing
	Incarnation string // changes when the stream is created anew
}

// Log is one fleet's history. All methods may be called from many goroutines,
// except that Append of one partition must not run twice at a time.
type Log interface {
	// Partitions is the number of partitions, fixed when the log was created.
	Partitions() int

	// Append stores a group in one partition and returns one Result per
	// entry, in order. Entries of different accounts are independent; entries
	// of one account are stored in the group's order and, when one fails, the
	// later ones of that account fail with the same class. A nil Err is given
	// only after the barrier that the sync mode asks for. Append returns when
	// every entry has a result, at the latest when ctx ends (ErrUnknown).
	Append(ctx context.Context, partition int, group []Entry) []Result

	// Sync passes the barrier: when it returns nil, every record of the
	// partition that can be read now is as durable as an acknowledged append.
	// A writer calls it before it answers for a record that it found by
	// reading back.
	Sync(ctx context.Context, partition int) error

	// Last returns the account's last record, or ErrNotFound.
	Last(ctx context.Context, account string) (Record, error)

	// Account yields the account's records with Seq >= from, oldest first.
	Account(ctx context.Context, account string, from uint64) iter.Seq2[Record, error]

	// Back yields the account's records with Seq <= from, the last one first.
	// What it costs grows with the records that are taken and not with the log,
	// if from is the sequence of one of them.
	Back(ctx context.Context, account string, from uint64) iter.Seq2[Record, error]

	// Read yields the partition's records with Seq > after, up to the last one
	// stored when Read began, in order, and ends. An error ends it, too.
	Read(ctx context.Context, partition int, after uint64) iter.Seq2[Record, error]

	// Follow is Read that goes on with new records until ctx ends (which ends
	// it without an error). It survives a lost connection by itself.
	Follow(ctx context.Context, partition int, after uint64) iter.Seq2[Record, error]

	// Info reports a partition's state.
	Info(ctx context.Context, partition int) (Info, error)

	// Close releases what the log holds. It does not stop a server.
	Close() error
}

// Blobs keeps named blobs beside the log: snapshots and saved views. They are
// disposable, so a Put is not a durable write.
type Blobs interface {
	Put(ctx context.Context, name string, r io.Reader) error
	Get(ctx context.Context, name string) (io.ReadCloser, error) // ErrNotFound
	Delete(ctx context.Context, name string) error
}
