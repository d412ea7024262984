package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/pubsub"
)

// session is one reading of the inbox, from a takeover until something ends it.
type session struct {
	*Reader
	group  string // the consumer's name
	judged *judgedBefore
	sub    *pubsub.Subscriber
	router *message.Router
}

// The bounds of a session's requests and of its end.
const (
	requestWithin = 10 * time.Second
	endWithin     = 20 * time.Second
	attemptWithin = time.Minute // of one attempt to have a message judged by another owner
)

// ackWait is how long the server waits for a sign of life of a message. A
// reader that lives gives it; one that is dead is not waited for by the next.
const ackWait = time.Minute

// takeOver ends every earlier reading of the inbox and returns a name for the
// next one. What was delivered and not acknowledged is delivered again, in
// order, before anything else.
func (s *Store) takeOver(ctx context.Context) (group string, err error) {
	names := s.in.ConsumerNames(ctx)
	var old []string
	for name := range names.Name() {
		old = append(old, name)
	}
	if err := names.Err(); err != nil {
		return "", fmt.Errorf("take the inbox over: %w", err)
	}
	for _, name := range old {
		if err := s.leave(ctx, name); err != nil {
			return "", fmt.Errorf("take the inbox over: %w", err)
		}
	}
	return "judge-" + nuid.Next(), nil
}

// leave deletes a reading's consumer. The messages stay.
func (s *Store) leave(ctx context.Context, group string) error {
	if err := s.in.DeleteConsumer(ctx, group); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("end the reading %s: %w", group, err)
	}
	return nil
}

// newSession makes the subscriber and the router in front of the judge.
func (r *Reader) newSession(ctx context.Context, group string, judged *judgedBefore) (*session, error) {
	s := &session{Reader: r, group: group, judged: judged}
	var err error
	s.sub, err = pubsub.NewSubscriber(r.cfg.Store.js, pubsub.SubscriberConfig{
		Group: group, Topology: pubsub.InStream(Stream), Unmarshaler: unmarshaler{&r.counts},
		InFlight: r.cfg.InFlight, OrderKey: func(m *message.Message) string { return bus.LastToken(m.Metadata[pubsub.MetaSubject]) },
		AckWait: ackWait, CloseTimeout: endWithin, Timeout: requestWithin, Logger: r.cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("read the inbox: %w", err)
	}
	s.router, err = pubsub.NewRouter(pubsub.RouterConfig{
		Poison: parker{r.cfg.Store, &r.counts}, PoisonTopic: ParkStream, Poisonous: unfit,
		Retries: 1 << 30, RetryFirst: retryFirst, RetryLimit: retryMost,
		ShouldRetry: func(err error) bool { return s.waits(ctx, err) },
		Timeout:     attemptWithin, CloseTimeout: endWithin, Logger: r.cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("read the inbox: %w", err)
	}
	// Subscribed here, for a router whose handler cannot subscribe never ends.
	messages, err := s.sub.Subscribe(context.WithoutCancel(ctx), bus.InboxSubjects)
	if err != nil {
		return nil, fmt.Errorf("read the inbox: %w", err)
	}
	s.router.AddConsumerHandler("judge", bus.InboxSubjects, opened(messages), s.judge)
	return s, nil
}

// opened is a subscription that is there already. Whoever opened it ends it.
type opened <-chan *message.Message

var _ message.Subscriber = opened(nil)

// Subscribe returns the messages.
func (o opened) Subscribe(context.Context, string) (<-chan *message.Message, error) { return o, nil }

// Close does nothing.
func (opened) Close() error { return nil }

// run reads until ctx ends, and returns when everything under way is settled,
// with why it ended.
func (s *session) run(ctx context.Context, end context.CancelCauseFunc) error {
	var closing sync.WaitGroup
	defer closing.Wait()
	closing.Go(func() {
		<-ctx.Done()
		if err := s.sub.Close(); err != nil {
			s.cfg.Logger.Warn("the inbox's subscription was not closed in order", "error", err)
		}
	})
	err := s.router.Run(context.WithoutCancel(ctx)) // ends when the subscription does
	end(errors.New("the reading has ended, by another reader or by a fault"))
	s.counts.held.Store(0)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestWithin)
	defer cancel()
	if errLeave := s.cfg.Store.leave(bounded, s.group); errLeave != nil {
		s.cfg.Logger.Debug("the next reader ends this reading", "reason", errLeave)
	}
	if err != nil {
		return fmt.Errorf("read the inbox: %w", err)
	}
	return context.Cause(ctx)
}
