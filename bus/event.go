package bus

import (
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// Event is a stored event as users see it: the form of `muster timeline`, of
// `muster tail`, and, with its place, of the feed. Times are RFC 3339 in UTC.
type Event struct {
	Version     uint64                 `json:"version"`
	Seq         uint64                 `json:"seq"` // in the partition's stream
	At          string                 `json:"at,omitempty"`
	Recorded    string                 `json:"recorded,omitempty"` // when it was judged
	Trigger     string                 `json:"trigger,omitempty"`
	Key         string                 `json:"key,omitempty"` // message or contact
	Outcome     string                 `json:"outcome,omitempty"`
	From        string                 `json:"from,omitempty"`
	To          string                 `json:"to,omitempty"`
	Verdict     string                 `json:"verdict,omitempty"` // why it was rejected or stale
	ID          string                 `json:"id,omitempty"`
	Source      string                 `json:"source,omitempty"`
	Epoch       int64                  `json:"epoch,omitempty"`
	SourceSeq   int64                  `json:"source_seq,omitempty"` // which message of that epoch
	By          string                 `json:"by,omitempty"`
	ReasonCode  string                 `json:"reason_code,omitempty"`
	ReasonText  string                 `json:"reason_text,omitempty"`
	Data        domain.Data            `json:"data,omitempty"`
	Set         []domain.ConditionView `json:"set,omitempty"`   // conditions set or renewed
	Ended       []string               `json:"ended,omitempty"` // conditions that ended: name, or name/scope
	Machine     string                 `json:"machine,omitempty"`
	Mode        string                 `json:"mode,omitempty"`
	Labels      map[string]string      `json:"labels,omitempty"`
	Correlation string                 `json:"correlation_id,omitempty"`
	Causation   string                 `json:"causation_id,omitempty"`
	Traceparent string                 `json:"traceparent,omitempty"`
	Error       string                 `json:"error,omitempty"` // why the record cannot be read
}

// PlacedEvent is an Event together with whose it is and in which partition it
// lies: the body of a feed message, and a line of `muster tail -o jsonl`.
type PlacedEvent struct {
	Account   string `json:"account"`
	Partition int    `json:"partition"`
	Event
}

// EventView returns the form in which users see an event that is stored at seq.
func EventView(e *domain.Event, seq uint64) Event {
	out := Event{
		Version: e.Version, Seq: seq, At: domain.FormatTime(e.At), Recorded: domain.FormatTime(e.Recorded), Trigger: e.Trigger, Key: e.Key,
		Outcome: e.Outcome.String(), From: e.From, To: e.To, Verdict: e.Verdict, ID: e.ID, Source: e.Source, Epoch: e.Epoch, SourceSeq: e.Seq,
		By: string(e.By), ReasonCode: e.Reason.Code, ReasonText: e.Reason.Text, Data: e.Data, Machine: e.Machine, Mode: e.Mode, Labels: e.Labels,
		Correlation: e.Correlation, Causation: e.Causation, Traceparent: e.Traceparent,
	}
	for _, c := range e.Set {
		view := domain.ConditionView{Name: c.Name, Since: domain.FormatTime(c.Since), Scope: c.Scope, Reason: c.Reason}
		if c.Until != 0 {
			view.Until = domain.FormatTime(c.Until)
		}
		out.Set = append(out.Set, view)
	}
	for _, c := range e.Ended {
		name := c.Name
		if c.Scope != "" {
			name += "/" + c.Scope
		}
		out.Ended = append(out.Ended, name)
	}
	return out
}

// RecordView is EventView for a record. One that cannot be read gives an Event
// whose Error says why.
func RecordView(rec *eventlog.Record) Event {
	e, err := codec.Decode(rec.Data)
	if err != nil {
		return Event{Seq: rec.Seq, Error: err.Error()}
	}
	return EventView(&e, rec.Seq)
}
