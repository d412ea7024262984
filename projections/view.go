package projections

import (
	"io"

	"github.com/musterhq/muster/domain"
)

// Place says where an event stands.
type Place struct {
	Partition int
	Seq       uint64 // in the partition's stream
	// Account is the account's number within its partition: 0, 1, 2 … in the
	// order of the first event. It comes from the Roster, so that a view needs
	// neither the ids nor a map of them.
	Account uint32
}

// View is a fold of the history that answers questions. Its methods may be
// called from several goroutines: Apply, Save and Load of one partition never
// at the same time, those of different partitions and the view's own queries
// at any time. A query must never see half an event, and must not hold up
// Apply for longer than it takes to copy what it needs.
type View interface {
	// Name is the view's name, unique among the views of a Runner.
	Name() string

	// Version changes when the meaning of the view's state changes, so that a
	// state saved by an older one is not taken for the new one.
	Version() int

	// Apply folds one event in. The strings, maps and slices of e may be
	// changed once Apply returns; a view copies what it keeps. An event whose
	// sequence is not above the last one of its partition changes nothing.
	Apply(at Place, e *domain.Event)

	// Save writes the state of one partition.
	Save(partition int, w io.Writer) error

	// Load replaces the state of one partition by one that Save wrote. After
	// an error the state is undefined; Reset follows.
	Load(partition int, r io.Reader) error

	// Reset empties all partitions.
	Reset()
}

// DamageObserver is a View that wants to know of accounts whose history is
// damaged: an event is missing or could not be read.
type DamageObserver interface {
	View
	// Damaged is called before the event (if any) at the place is applied.
	Damaged(at Place)
}

// Settler is a View that puts work off while the history is replayed.
type Settler interface {
	View
	// Settle is called once, when the Runner has caught up and before it says so.
	Settle()
}

// Renewer is a View that can be folded anew beside itself: see Runner.Rebuild.
type Renewer interface {
	View
	// Renew returns an empty view of the same kind, with the same roster.
	Renew() View
	// Take replaces the state of one partition by that of a view that Renew made,
	// which is not used any more. A query sees either state, never half of one.
	Take(partition int, from View)
}
