package pubsub

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
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
	// panicked (nil: ParkIn a stream of its own, named parked_TOPIC). When it
	// fails it is called again.
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

// ConstantDelay is a NackDelay that is always the same; 0 = at once.
func ConstantDelay(d time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return d }
}

// Backoff is a NackDelay that begins with first and doubles with every
// delivery, up to limit.
func Backoff(first, limit time.Duration) func(int) time.Duration {
	return func(deliveries int) time.Duration {
		d := first
		for range deliveries - 1 {
			if d >= limit/2 {
				return limit
			}
			d *= 2
		}
		return min(d, limit)
	}
}

// defaultPrefix is where topics lie when no Topology was given.
const defaultPrefix = "pubsub"

func (c SubscriberConfig) withDefaults() SubscriberConfig {
	if c.Topology == nil {
		c.Topology = StreamPerTopic(defaultPrefix)
	}
	if c.NackDelay == nil {
		c.NackDelay = Backoff(100*time.Millisecond, 30*time.Second)
	}
	if c.Unmarshaler == nil {
		c.Unmarshaler = DefaultMarshaler{}
	}
	c.InFlight = cmp.Or(c.InFlight, 1)
	c.AckWait = cmp.Or(c.AckWait, 30*time.Second)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, 5*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c SubscriberConfig) validate() error {
	if strings.ContainsFunc(c.Group, func(r rune) bool { return !groupRune(r) }) {
		return fmt.Errorf("%w: the group %q may have letters, digits, _ and - only", ErrConfig, c.Group)
	}
	if c.InFlight < 0 {
		return fmt.Errorf("%w: InFlight is %d; it must be 1 or more", ErrConfig, c.InFlight)
	}
	for name, d := range map[string]time.Duration{"AckWait": c.AckWait, "CloseTimeout": c.CloseTimeout, "Timeout": c.Timeout} {
		if d < 0 {
			return fmt.Errorf("%w: %s is %v; it must be more than 0", ErrConfig, name, d)
		}
	}
	starts := 0
	for _, set := range []bool{c.Start.New, c.Start.Sequence > 0, !c.Start.Time.IsZero()} {
		if set {
			starts++
		}
	}
	if starts > 1 {
		return fmt.Errorf("%w: Start names more than one place", ErrConfig)
	}
	return nil
}

func groupRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

func (c PublisherConfig) withDefaults() PublisherConfig {
	if c.Topology == nil {
		c.Topology = StreamPerTopic(defaultPrefix)
	}
	if c.Marshaler == nil {
		c.Marshaler = DefaultMarshaler{}
	}
	c.InFlight = cmp.Or(c.InFlight, 1)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, 5*time.Second)
	return c
}

func (c PublisherConfig) validate() error {
	if c.InFlight < 0 {
		return fmt.Errorf("%w: InFlight is %d; it must be 1 or more", ErrConfig, c.InFlight)
	}
	if c.Timeout < 0 || c.CloseTimeout < 0 {
		return fmt.Errorf("%w: Timeout and CloseTimeout must be more than 0", ErrConfig)
	}
	return nil
}
