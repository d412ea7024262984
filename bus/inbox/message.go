package inbox

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/dispatch"
	"github.com/musterhq/muster/bus/pubsub"
	"github.com/musterhq/muster/domain"
)

// headerOrigin is on a message that was parked and is retried: its name the
// first time, so that it counts as observed then, and once.
const headerOrigin = "Muster-Inbox-Origin"

// The metadata of a message on its way to the judge, beside what the subscriber
// adds. Names that begin with metaHeader are its headers.
const (
	metaOrigin = "origin"
	metaHeader = "header:"
)

// origin names a message of the inbox for ever: its sequence, and when the
// server stored it. The sequence alone would not do, because a stream that has
// lost its end in a power cut gives the same ones again.
type origin struct {
	seq  uint64
	time int64 // unix ns
}

const originPrefix = "in#"

// String is the name, which is the id of a trigger that has none.
func (o origin) String() string {
	return originPrefix + strconv.FormatUint(o.seq, 10) + "@" + strconv.FormatInt(o.time, 10)
}

func parseOrigin(s string) (origin, error) {
	rest, ok := strings.CutPrefix(s, originPrefix)
	seq, at, cut := strings.Cut(rest, "@")
	n, err := strconv.ParseUint(seq, 10, 64)
	ns, errTime := strconv.ParseInt(at, 10, 64)
	if !ok || !cut || err != nil || errTime != nil {
		return origin{}, fmt.Errorf("%q does not name a message of the inbox", s)
	}
	return origin{n, ns}, nil
}

// unmarshaler makes a Watermill message of one of the stream. It never refuses:
// what cannot be read is for the judge to say.
type unmarshaler struct{ counts *counts }

// Unmarshal keeps the body, and what the judge needs of the rest.
func (u unmarshaler) Unmarshal(m jetstream.Msg, meta *jetstream.MsgMetadata) (*message.Message, error) {
	u.counts.pending.Store(meta.NumPending)
	o := origin{meta.Sequence.Stream, meta.Timestamp.UnixNano()}
	w := message.NewMessage(strconv.FormatUint(o.seq, 10), m.Data())
	w.Metadata[metaOrigin] = o.String()
	for name, values := range m.Headers() {
		if len(values) > 0 && !strings.HasPrefix(name, serverHeaders) {
			w.Metadata[metaHeader+name] = values[0]
		}
	}
	if first := w.Metadata[metaHeader+headerOrigin]; first != "" {
		if _, err := parseOrigin(first); err == nil {
			w.Metadata[metaOrigin] = first
		}
	}
	return w, nil
}

// triggerOf reads the trigger of a message. What the publisher left out of it
// comes from where and when the message was stored.
func triggerOf(m *message.Message) (domain.Trigger, error) {
	var h nats.Header
	for key, v := range m.Metadata {
		if name, ok := strings.CutPrefix(key, metaHeader); ok {
			if h == nil {
				h = nats.Header{}
			}
			h[name] = []string{v}
		}
	}
	t, err := dispatch.Decode(m.Metadata[pubsub.MetaSubject], h, m.Payload)
	if err != nil {
		return t, err
	}
	name := m.Metadata[metaOrigin]
	if t.ID == "" {
		t.ID = name
	}
	if !t.HasAt {
		o, err := parseOrigin(name)
		if err != nil {
			return t, err
		}
		t.At, t.HasAt = o.time, true
	}
	return t, nil
}

// sequenceOf is the message's sequence in the stream.
func sequenceOf(m *message.Message) (uint64, error) {
	seq, err := strconv.ParseUint(m.UUID, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("message %q has no sequence", m.UUID)
	}
	return seq, nil
}

// storedAt is when the message with this name was stored.
func (o origin) storedAt() time.Time { return time.Unix(0, o.time).UTC() }
