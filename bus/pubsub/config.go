package pubsub

import (
	"errors"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors of this package; test with errors.Is.
var (
	ErrClosed  = errors.New("closed")                        // after Close
	ErrTopic   = errors.New("the topic cannot be used")      // a Topology refused it
	ErrNoGroup = errors.New("the subscriber has no group")   // CreateGroup, DeleteGroup
	ErrConfig  = errors.New("the configuration is unusable") // NewPublisher, NewSubscriber
)

// SubscriberConfig is how a Subscriber behaves; the zero value is good for a
// subscriber of its own, which reads everything, strictly in order.
type SubscriberConfig struct {
	// Group is the name of the durable consumer: letters, digits, _ and -.
	// Its members share the messages. "" = no group: each subscription has a
	// consumer of its own.
	Group string
	// Topology says where a topic lies (nil: StreamPerTopic("pubsub")).
	Topology Topology
	// Unmarshaler makes messages of what was read (nil: DefaultMarshaler).
	Unmarshaler Unmarshaler

	// InFlight is how many messages may be delivered and not acknowledged, in
	// the whole group (default 1). With 1 the group is strictly in order,
	// however many members it has.
	InFlight int
	// OrderKey says which messages must stay in order: those of one key are
	// delivered one after the other, in stream order, also when one of them is
	// nacked; those of different keys side by side, up to InFlight. nil: one
	// key for everything. Order by key holds among what one member reads.
	OrderKey func(*message.Message) string
	// Exclusive says that the group never has a second member at the same
	// time. A subscription then takes over what an earlier one had not
	// acknowledged at once, before anything newer, so that order by key holds
	// over a crash. In a stream that keeps acknowledged messages, those
	// acknowledged behind one that was not come once more. Needs a server of
	// version 2.14; with an older one the takeover waits for AckWait.
	Exclusive bool

	// Start is where a new group begins, or a subscription without a group
	// (default: the stream's first message). It changes nothing for a group
	// that exists.
	Start Start

	// NackDelay is how long a nacked message rests before it is delivered
	// again, given how often it was delivered, 1 or more
	// (nil: Backoff(100*time.Millisecond, 30*time.Second)).
	NackDelay func(deliveries int) time.Duration
	// AckWait is after which silence of a member the server gives its messages
	// to another (default 30 s). A member that lives is not silent, however
	// slow its handlers are.
	AckWait time.Duration
	// CloseTimeout is how long Close, and the end of a subscription's context,
	// wait for handlers to acknowledge what they have (default 5 s).
	CloseTimeout time.Duration
	// Timeout bounds each request to the server (default 10 s).
	Timeout time.Duration

	// Park puts away a message that cannot be unmarshalled, or whose OrderKey
	// panicked (nil: ParkInTopic, under the topic's name and ".parked"). When
	// it fails it is called again.
	Park Parker

	// Logger gets what no caller can be told (nil: discarded).
	Logger *slog.Logger
}

// Start is where a new group begins. The zero value is the stream's first message.
type Start struct {
	New      bool      // only what is published from now on
	Sequence uint64    // from this stream sequence
	Time     time.Time // from the first message stored at or after this time
}

// PublisherConfig is how a Publisher behaves; the zero value is good.
type PublisherConfig struct {
	// Topology says where a topic lies (nil: StreamPerTopic("pubsub")).
	Topology Topology
	// Marshaler makes NATS messages (nil: DefaultMarshaler).
	Marshaler Marshaler
	// InFlight is how many messages of one Publish call may be sent and not
	// acknowledged (default 1). With 1 nothing is sent behind a message that
	// fails. With more they go out in order without waiting, and when one is
	// refused some behind it may be stored.
	InFlight int
	// MsgID gives the server an id under which it stores a message once within
	// the stream's duplicate window (nil or "": none). A Publish that failed
	// without an answer can then be repeated safely. It is off by default: two
	// messages that share an id by intent would lose the second.
	MsgID func(*message.Message) string
	// Timeout bounds the wait for one message's acknowledgement (default 10 s).
	Timeout time.Duration
	// CloseTimeout is how long Close waits for Publish calls (default 5 s).
	CloseTimeout time.Duration
}

// NewSubscriber returns a subscriber. js and its connection stay the caller's.
func NewSubscriber(js jetstream.JetStream, cfg SubscriberConfig) (*Subscriber, error) {
	return newSubscriber(js, cfg)
}

// NewPublisher returns a publisher. js and its connection stay the caller's.
func NewPublisher(js jetstream.JetStream, cfg PublisherConfig) (*Publisher, error) {
	return newPublisher(js, cfg)
}
