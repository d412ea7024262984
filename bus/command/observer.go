package command

import (
	"time"

	"github.com/musterhq/muster/domain"
)

// Observer is told how the writers fare. Its methods are called by the writers
// themselves, several at once, and must not block.
type Observer interface {
	// Group is called for each group that had something to store, when the log
	// has answered and before the callers are.
	Group(g *Group)
	// Answered is called when a caller has its answer; took is the time since
	// Submit. The error is the Answer's; the outcome holds without one.
	Answered(outcome domain.Outcome, err error, took time.Duration)
	// Snapshot is called when a partition's snapshot was written, and when one
	// was read at the start, with the time at which it was taken.
	Snapshot(partition int, taken time.Time)
}

// Group is how one group went. It and its Events must not be kept.
type Group struct {
	Partition int
	Began     time.Time       // judging began
	Judged    time.Time       // and ended; the log was given the records
	Stored    time.Time       // the log had answered
	Requests  int             // triggers of callers
	Records   int             // that were to be stored
	Last      uint64          // highest sequence of the partition
	Err       error           // the first failure among the records
	Events    []*domain.Event // stored, those that carry a trace context only
}

// observed tells the observer of a group that the log has answered.
func (w *writer) observed(b *batch, requests int, began, judged time.Time) {
	g := Group{
		Partition: w.partition, Began: began, Judged: judged, Stored: time.Now(),
		Requests: requests, Records: len(b.entries), Last: w.last,
	}
	for _, it := range b.items {
		if it.seq != 0 && it.decision.Event.Traceparent != "" {
			g.Events = append(g.Events, it.decision.Event)
		}
	}
	for _, d := range b.drafts {
		if d.fail != nil && g.Err == nil {
			g.Err = d.fail
		}
	}
	w.cfg.Observer.Group(&g)
}

// stamp is when a request came, if anybody wants to know.
func (w *writer) stamp() (at time.Time) {
	if w.cfg.Observer != nil {
		at = time.Now()
	}
	return at
}
