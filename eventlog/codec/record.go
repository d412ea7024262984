package codec

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/musterhq/muster/domain"
)

// Version is the format version of the records written here, and the highest
// one that can be read.
const Version = 1

// maxDepth bounds how deep maps and arrays may lie within each other in a
// record's or a trigger's data. It keeps hostile input from using up the stack.
const maxDepth = 32

var (
	// ErrMalformed: the bytes are no record, or no trigger. The wrapping error
	// says what is wrong and where.
	ErrMalformed = errors.New("malformed")
	// ErrRecordVersion: the record was written by a newer Muster. The wrapping
	// error is a *VersionError.
	ErrRecordVersion = errors.New("unknown record version")
	// ErrUnencodable: the event cannot be written as a record, because no
	// reader would take it back. The wrapping error names the field.
	ErrUnencodable = errors.New("event cannot be encoded")
)

// VersionError says which format version was met. It is an ErrRecordVersion.
type VersionError struct {
	Got uint64
}

// Error says what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("record version %d was written by a newer Muster; upgrade", e.Got)
}

// Unwrap makes errors.Is(err, ErrRecordVersion) hold.
func (e *VersionError) Unwrap() error { return ErrRecordVersion }

// Hash is what the account's next record carries as Prev: the first 16 bytes
// of the record's SHA-256.
func Hash(record []byte) [16]byte {
	sum := sha256.Sum256(record)
	return [16]byte(sum[:16])
}

// Link is the end of an account's chain of records as seen so far: the last
// version, and the hash of the last record. The zero Link is that of an
// account without events.
type Link struct {
	Version uint64
	Hash    [16]byte
}

// Check reports whether e directly follows the link: its version is the next
// one and its Prev is the link's hash. seq is the sequence of e's record in its
// stream and is only told in the error, a *ChainError.
func (l Link) Check(seq uint64, e *domain.Event) error {
	if e.Version == l.Version+1 && e.Prev == l.Hash {
		return nil
	}
	return &ChainError{
		Account:      e.Account,
		Seq:          seq,
		WantVersion:  l.Version + 1,
		GotVersion:   e.Version,
		HashMismatch: e.Prev != l.Hash,
	}
}

// LinkOf is the link after an event and its record.
func LinkOf(e *domain.Event, record []byte) Link {
	return Link{Version: e.Version, Hash: Hash(record)}
}

// ChainError says where an account's history is broken: records are missing
// (the versions differ), or a record is not the one that was written (the
// hashes differ), or both.
type ChainError struct {
	Account      domain.AccountID
	Seq          uint64 // of the record that does not fit, in its partition's stream
	WantVersion  uint64
	GotVersion   uint64
	HashMismatch bool
}

// Error names the account, the place and what is wrong there.
func (e *ChainError) Error() string {
	switch {
	case e.GotVersion > e.WantVersion:
		return fmt.Sprintf("account %q: versions %d to %d are missing before sequence %d",
			e.Account, e.WantVersion, e.GotVersion-1, e.Seq)
	case e.GotVersion < e.WantVersion:
		return fmt.Sprintf("account %q: version %d at sequence %d comes after version %d",
			e.Account, e.GotVersion, e.Seq, e.WantVersion-1)
	default:
		return fmt.Sprintf("account %q: the record before version %d (sequence %d) is not the one that was written",
			e.Account, e.GotVersion, e.Seq)
	}
}
