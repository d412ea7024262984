package command

import (
	"errors"
	"fmt"

	"github.com/musterhq/muster/domain"
)

// Answer is what a caller gets for a trigger. With a nil Err the verdict holds:
// it is in the log (or, for duplicate, conflict, invalid and heartbeat, nothing
// is), and Partition and Seq say up to where a reader must have read to see it.
type Answer struct {
	Verdict   domain.Verdict
	Partition int
	Seq       uint64
	Err       error
}

// The errors of an Answer and of Submit. All but ErrStopped-by-failure may be
// tried again with the same trigger id.
var (
	// ErrShuttingDown: the process takes no more triggers; ask again when it,
	// or another one, is up.
	ErrShuttingDown = errors.New("shutting down: no more triggers are taken; send it again in a moment")
	// ErrOverloaded: the partition's queue is full.
	ErrOverloaded = errors.New("overloaded: the partition's queue is full; send it again in a moment")
	// ErrNotOwner: this process does not write the account's partition.
	ErrNotOwner = errors.New("this process does not own the account's partition")
	// ErrContended: other writers kept winning the account.
	ErrContended = errors.New("another writer kept changing the account; send it again in a moment")
	// ErrUndecided: the log could not be reached for so long that the outcome
	// is not known. The same id sent again gets the earlier result if it was stored.
	ErrUndecided = errors.New("the log could not be reached: it is not known whether the trigger was stored; send it again with the same id")
)

// DamagedError refuses writes to an account whose history has a hole.
type DamagedError struct {
	Account domain.AccountID
	Reason  string // which version or hash is wrong, in words
}

// Error names the account and what to do.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("account %q is damaged (%s): its history is not whole, so writes are refused; "+
		"put the missing records back from an archive (muster repair)", e.Account, e.Reason)
}

// TooLargeError refuses a trigger whose record the log could not take.
type TooLargeError struct {
	Account domain.AccountID
	Size    int // of the record, in bytes
	Most    int // what the log takes
}

// Error says what to do.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("account %q: with what is kept beside it the trigger has %d bytes, and the log takes %d at most; send less data",
		e.Account, e.Size, e.Most)
}

// Retryable says whether the same trigger may succeed when it is sent again.
func Retryable(err error) bool {
	for _, e := range []error{ErrShuttingDown, ErrOverloaded, ErrNotOwner, ErrContended, ErrUndecided} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
