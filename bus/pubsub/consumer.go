package pubsub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// abandoned is after which time without a reader the server removes the
// consumer of a subscription without a group. A connection may be lost for
// that long; a consumer that is gone is made anew where the subscription was.
const abandoned = 10 * time.Minute

// incarnation is the metadata key that tells a consumer from one of the same
// name that was deleted. The server's time of creation does not: it is
// another after the server was started twice.
const incarnation = "muster.incarnation"

// ahead is how many messages the server sends at least to a subscription
// without a group before the first is acknowledged. They wait here, and go out
// in order all the same.
const ahead = 256

// ensureConsumer returns the group's consumer, made or brought up to date when
// need be, or a new one for a subscription without a group.
func (s *Subscriber) ensureConsumer(ctx context.Context, route Route) (jetstream.Consumer, error) {
	if s.cfg.Group == "" {
		return s.createConsumer(ctx, route, s.ownConsumer(route, s.cfg.Start))
	}
	for range 2 { // somebody else may make it in between
		cons, err := s.js.Consumer(ctx, route.Stream, s.cfg.Group)
		if err == nil {
			return s.updateConsumer(ctx, route, cons)
		}
		if !gone(err) {
			return nil, fmt.Errorf("find group %s of stream %s: %w", s.cfg.Group, route.Stream, err)
		}
		cons, err = s.createConsumer(ctx, route, s.groupConsumer(route))
		if err == nil || !errors.Is(err, jetstream.ErrConsumerExists) {
			return cons, err
		}
	}
	return nil, fmt.Errorf("group %s of stream %s is made and deleted by others at the same time", s.cfg.Group, route.Stream)
}

// createConsumer makes a consumer.
func (s *Subscriber) createConsumer(ctx context.Context, route Route, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	cons, err := s.js.CreateConsumer(ctx, route.Stream, cfg)
	if err != nil {
		return nil, fmt.Errorf("create consumer %s of stream %s: %w", cfg.Name, route.Stream, err)
	}
	return cons, nil
}

// updateConsumer gives an existing group this subscriber's settings, but never
// another filter: that would be another group's.
func (s *Subscriber) updateConsumer(ctx context.Context, route Route, cons jetstream.Consumer) (jetstream.Consumer, error) {
	have := cons.CachedInfo().Config
	filters := have.FilterSubjects
	if have.FilterSubject != "" {
		filters = []string{have.FilterSubject}
	}
	if !slices.Equal(filters, []string{route.Subject}) {
		return nil, fmt.Errorf("%w: group %s of stream %s reads %q, not %q", ErrConfig, s.cfg.Group, route.Stream, filters, route.Subject)
	}
	if have.AckPolicy != jetstream.AckExplicitPolicy || have.DeliverSubject != "" {
		return nil, fmt.Errorf("%w: consumer %s of stream %s is no pull consumer with explicit acknowledgements", ErrConfig, s.cfg.Group, route.Stream)
	}
	want := have
	want.MaxAckPending, want.AckWait = s.cfg.InFlight, s.cfg.AckWait
	if want.MaxAckPending == have.MaxAckPending && want.AckWait == have.AckWait {
		return cons, nil
	}
	cons, err := s.js.UpdateConsumer(ctx, route.Stream, want)
	if err != nil {
		return nil, fmt.Errorf("update group %s of stream %s: %w", s.cfg.Group, route.Stream, err)
	}
	return cons, nil
}

func (s *Subscriber) groupConsumer(route Route) jetstream.ConsumerConfig {
	cfg := s.baseConsumer(route, s.cfg.Start)
	cfg.Name, cfg.Durable = s.cfg.Group, s.cfg.Group
	return cfg
}

func (s *Subscriber) ownConsumer(route Route, from Start) jetstream.ConsumerConfig {
	cfg := s.baseConsumer(route, from)
	cfg.Name, cfg.InactiveThreshold = "own_"+nuid.Next(), abandoned
	cfg.MaxAckPending = max(s.cfg.InFlight, ahead)
	return cfg
}

func (s *Subscriber) baseConsumer(route Route, from Start) jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       s.cfg.AckWait,
		MaxAckPending: s.cfg.InFlight,
		MaxDeliver:    -1,
		FilterSubject: route.Subject,
		Metadata:      map[string]string{incarnation: nuid.Next()},
	}
	switch {
	case from.New:
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	case from.Sequence > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from.Sequence
	case !from.Time.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &from.Time
	}
	return cfg
}
