package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/musterhq/muster/bus"
)

// session is one reading of the inbox, from a takeover until something ends it.
type session struct {
	*Reader
	group  string // the consumer's name
	judged *judgedBefore
	sub    *subscriber
	router *message.Router
}

// The bounds of a session's requests and of its end.
const (
	requestWithin = 10 * time.Second
	endWithin     = 30 * time.Second
)

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

// newSession makes the consumer and the router in front of the judge.
func (r *Reader) newSession(ctx context.Context, group string, judged *judgedBefore) (*session, error) {
	s := &session{Reader: r, group: group, judged: judged, sub: newSubscriber(r, group)}
	log := watermill.NewSlogLogger(r.cfg.Logger.With("part", "router").WithGroup("watermill"))
	if !r.cfg.Logger.Enabled(ctx, slog.LevelDebug) {
		log = watermill.NopLogger{} // it would make its fields for every message
	}
	var err error
	if s.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: endWithin}, log); err != nil {
		return nil, fmt.Errorf("read the inbox: %w", err)
	}
	poison, err := middleware.PoisonQueueWithFilter(parker{r.cfg.Store, &r.counts}, ParkStream, unfit)
	if err != nil {
		return nil, fmt.Errorf("read the inbox: %w", err)
	}
	s.router.AddMiddleware(poison, s.retry(ctx), middleware.Recoverer)
	s.router.AddConsumerHandler("judge", bus.InboxSubjects, s.sub, s.judge)
	return s, nil
}

// run reads until ctx ends, and returns when everything under way is settled,
// with why it ended.
func (s *session) run(ctx context.Context, end context.CancelCauseFunc) error {
	s.sub.end = end
	stop := context.AfterFunc(ctx, func() { _ = s.router.Close() })
	defer stop()
	err := s.router.Run(context.WithoutCancel(ctx)) // ends when the subscriber does
	end(errors.New("the router has ended"))
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
