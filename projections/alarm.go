package projections

import (
	"fmt"

	"github.com/musterhq/muster/domain"
)

// AlarmKind says what is wrong with a history.
type AlarmKind uint8

// The kinds of alarms.
const (
	// GapInStream: the sequence of a partition jumps, so records are missing.
	GapInStream AlarmKind = iota + 1
	// GapInAccount: the event number of an account is not the one that
	// follows its last, so an event is missing or stored twice.
	GapInAccount
	// Unreadable: a record cannot be decoded, or stands under another account
	// than the one it names. It is passed over.
	Unreadable
	// Poisoned: a view panicked over an event. It is halted, or has passed the
	// event over; the others have taken it.
	Poisoned
)

// String names the kind.
func (k AlarmKind) String() string {
	switch k {
	case GapInStream:
		return "gap in the stream"
	case GapInAccount:
		return "gap in an account's events"
	case Unreadable:
		return "unreadable record"
	case Poisoned:
		return "event that a view cannot take"
	}
	return "unknown"
}

// Alarm is one fault of the history, as the Runner met it.
type Alarm struct {
	Kind      AlarmKind
	Partition int
	Seq       uint64           // of the record at which it showed
	Account   domain.AccountID // "" for GapInStream
	Want, Got uint64           // the sequence or event number that should have come, and that did; of gaps only
	Err       error            // for Unreadable and Poisoned: why
	View      string           // for Poisoned: which
	Stack     []byte           // for Poisoned: where
}

// String tells the alarm in a sentence without a full stop.
func (a Alarm) String() string {
	where := fmt.Sprintf("partition %d, sequence %d", a.Partition, a.Seq)
	switch a.Kind {
	case GapInStream:
		return fmt.Sprintf("%s: records %d to %d of the stream are missing", where, a.Want, a.Got-1)
	case GapInAccount:
		return fmt.Sprintf("%s: account %q: event %d where event %d should stand", where, a.Account, a.Got, a.Want)
	}
	if a.Kind == Poisoned {
		return fmt.Sprintf("%s: account %q: the view %s: %v", where, a.Account, a.View, a.Err)
	}
	return fmt.Sprintf("%s: account %q: %v", where, a.Account, a.Err)
}
