package pubsub

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

// Subscriber is a Watermill subscriber on JetStream. It may be used from many
// goroutines.
type Subscriber struct{}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

func newSubscriber(js jetstream.JetStream, cfg SubscriberConfig) (*Subscriber, error) {
	return &Subscriber{}, nil
}

// Subscribe reads a topic until ctx or the subscriber ends. It makes the
// group when it does not exist.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return nil, nil
}

// SubscribeInitialize makes the topic's stream, when its route says how and it
// does not exist, and the group.
func (s *Subscriber) SubscribeInitialize(topic string) error { return nil }

// CreateGroup makes the group on a topic, so that it keeps what is published
// from then on (and before, see Start). It changes nothing when the group
// exists.
func (s *Subscriber) CreateGroup(ctx context.Context, topic string) error { return nil }

// DeleteGroup ends the group on a topic: what it has not acknowledged is
// forgotten. It does nothing when there is none.
func (s *Subscriber) DeleteGroup(ctx context.Context, topic string) error { return nil }

// Close ends all subscriptions and closes their channels. Handlers get
// CloseTimeout to acknowledge what they have; then the rest is given back to the
// group, which stays.
func (s *Subscriber) Close() error { return nil }
