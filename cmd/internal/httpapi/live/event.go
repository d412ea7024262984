package live

import (
	"encoding/json"
	"sync"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
)

// Event is one stored event. It is decoded when the first reader looks at it,
// once for all of them.
type Event struct {
	Partition int
	Seq       uint64
	Account   string

	record  []byte
	decoded sync.Once
	facts   Facts
	encoded sync.Once
	body    []byte
}

// Facts are what events are filtered by.
type Facts struct {
	Trigger, Outcome, To, Source string
}

func newEvent(rec *eventlog.Record) *Event {
	return &Event{Partition: rec.Partition, Seq: rec.Seq, Account: rec.Account, record: rec.Data}
}

// Facts are what the event can be filtered by; none of a record that cannot be read.
func (e *Event) Facts() Facts {
	e.decoded.Do(func() {
		if d, err := codec.Decode(e.record); err == nil {
			e.facts = Facts{Trigger: d.Trigger, Outcome: d.Outcome.String(), To: d.To, Source: d.Source}
		}
	})
	return e.facts
}

// JSON is the event as users see it, a bus.PlacedEvent. It must not be changed.
func (e *Event) JSON() []byte {
	e.encoded.Do(func() {
		rec := eventlog.Record{Partition: e.Partition, Seq: e.Seq, Account: e.Account, Data: e.record}
		body, err := json.Marshal(bus.PlacedEvent{Account: e.Account, Partition: e.Partition, Event: bus.RecordView(&rec)})
		if err != nil { // its values were decoded, so they can be encoded
			body = []byte("{}")
		}
		e.body = body
	})
	return e.body
}
