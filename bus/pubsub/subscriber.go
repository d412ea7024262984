package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

// Subscriber is a Watermill subscriber on JetStream. It may be used from many
// goroutines.
type Subscriber struct {
	cfg SubscriberConfig
	js  jetstream.JetStream

	mu     sync.Mutex
	closed bool
	open   map[*subscription]struct{}
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber returns a subscriber. js and its connection stay the caller's.
// The error wraps ErrConfig.
func NewSubscriber(js jetstream.JetStream, cfg SubscriberConfig) (*Subscriber, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Subscriber{cfg: cfg.withDefaults(), js: js, open: map[*subscription]struct{}{}}, nil
}

// Subscribe reads a topic until ctx or the subscriber ends. It makes the stream
// when it does not exist and the route says how, and the group when it does
// not exist. The channel is closed when the subscription has ended: within
// CloseTimeout and Timeout together.
//
// ctx is passed to the messages; a message's context ends when it is
// acknowledged. A group that is deleted meanwhile ends the subscription, too.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	route, err := s.cfg.Topology.route(topic)
	if err != nil {
		return nil, err
	}
	sub, err := s.openSubscription(ctx, topic, route)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %q: %w", topic, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		sub.abandon()
		return nil, fmt.Errorf("subscribe to %q: %w", topic, ErrClosed)
	}
	s.open[sub] = struct{}{}
	sub.start(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, sub)
	})
	return sub.out, nil
}

func (s *Subscriber) openSubscription(ctx context.Context, topic string, route Route) (*subscription, error) {
	if s.isClosed() {
		return nil, ErrClosed
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, err := route.ensure(ctx, s.js); err != nil {
		return nil, err
	}
	cons, err := s.ensureConsumer(ctx, route)
	if err != nil {
		return nil, err
	}
	return newSubscription(s, topic, route, cons), nil
}

// SubscribeInitialize makes the topic's stream, when it does not exist and its
// route says how, and the group, when the subscriber has one.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	if s.cfg.Group != "" {
		return s.CreateGroup(context.Background(), topic)
	}
	route, err := s.cfg.Topology.route(topic)
	if err != nil {
		return err
	}
	ctx, cancel := s.bound(context.Background())
	defer cancel()
	if _, err := route.ensure(ctx, s.js); err != nil {
		return fmt.Errorf("initialize topic %q: %w", topic, err)
	}
	return nil
}

// CreateGroup makes the topic's stream, as Subscribe does, and the group on
// it, so that the group keeps what is published from then on (and before, see
// Start). A group that exists gets the InFlight and AckWait of this
// subscriber and is left where it is.
func (s *Subscriber) CreateGroup(ctx context.Context, topic string) error {
	route, err := s.groupRoute(topic)
	if err != nil {
		return err
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, err := route.ensure(ctx, s.js); err != nil {
		return fmt.Errorf("create group %s on topic %q: %w", s.cfg.Group, topic, err)
	}
	if _, err := s.ensureConsumer(ctx, route); err != nil {
		return fmt.Errorf("create group %s on topic %q: %w", s.cfg.Group, topic, err)
	}
	return nil
}

// DeleteGroup ends the group on a topic: what it had not acknowledged is
// forgotten, and subscriptions of it end. It does nothing when there is none.
func (s *Subscriber) DeleteGroup(ctx context.Context, topic string) error {
	route, err := s.groupRoute(topic)
	if err != nil {
		return err
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	err = s.js.DeleteConsumer(ctx, route.Stream, s.cfg.Group)
	if err == nil || gone(err) {
		return nil
	}
	return fmt.Errorf("delete group %s on topic %q: %w", s.cfg.Group, topic, err)
}

// gone says whether an error means that the consumer or its stream is no more.
func gone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist) || errors.Is(err, jetstream.ErrStreamNotFound)
}

func (s *Subscriber) groupRoute(topic string) (Route, error) {
	if s.cfg.Group == "" {
		return Route{}, ErrNoGroup
	}
	return s.cfg.Topology.route(topic)
}

// Close ends all subscriptions and waits until their channels are closed.
// Handlers get CloseTimeout to acknowledge what they have; then the rest is
// given back to the group, which stays. A second Close does nothing.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	var open []*subscription
	for sub := range s.open {
		open = append(open, sub)
	}
	s.mu.Unlock()
	for _, sub := range open {
		sub.beginStop()
	}
	for _, sub := range open {
		<-sub.done // each bounds every step of its end
	}
	return nil
}

func (s *Subscriber) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// bound limits requests to the server.
func (s *Subscriber) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.cfg.Timeout, fmt.Errorf("no answer of the server within %v", s.cfg.Timeout))
}
