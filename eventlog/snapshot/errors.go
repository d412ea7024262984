package snapshot

import (
	"errors"
	"fmt"
	"io"
)

// Reason says in one word what is wrong with a snapshot, for counting.
type Reason string

// The reasons.
const (
	Damaged        Reason = "damaged"         // the bytes are not those that were written
	Truncated      Reason = "truncated"       // the bytes end too early
	NewerFormat    Reason = "newer_format"    // written by a newer Muster
	OtherFold      Reason = "other_fold"      // the states are those of another version of the fold
	OtherPartition Reason = "other_partition" // of another partition, or another number of partitions
	OtherStream    Reason = "other_stream"    // the stream was created anew since
	Unreadable     Reason = "unreadable"      // the store failed while it was read
	NotUsed        Reason = "not_used"        // its reader gave up on it
)

// Error is why a snapshot is of no use. It is never a reason to stop: fold the
// log from the start instead.
type Error struct {
	Reason Reason
	Detail string // in words
	Err    error  // the cause; may be nil
}

// Error says what is wrong.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("snapshot %s: %s: %v", e.Reason, e.Detail, e.Err)
	}
	return fmt.Sprintf("snapshot %s: %s", e.Reason, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func unusable(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// sourceError is an error of the reader that a snapshot comes from, to tell it
// from bytes that are wrong.
type sourceError struct{ error }

// Unwrap returns the reader's error.
func (e sourceError) Unwrap() error { return e.error }

// asError turns an error met while reading what into an *Error.
func asError(what string, err error) *Error {
	var mine *Error
	var source sourceError
	switch {
	case errors.As(err, &mine):
		return mine
	case errors.As(err, &source):
		return &Error{Reason: Unreadable, Detail: what, Err: source.error}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Reason: Truncated, Detail: what, Err: io.ErrUnexpectedEOF}
	}
	return &Error{Reason: Damaged, Detail: what, Err: err}
}
