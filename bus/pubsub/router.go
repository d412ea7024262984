package pubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// The metadata that tells where a poisoned message was read, beside Watermill's
// own keys (middleware.ReasonForPoisonedKey and those beside it).
const (
	MetaPoisonedStream   = "stream_poisoned"
	MetaPoisonedSubject  = "subject_poisoned"
	MetaPoisonedSequence = "sequence_poisoned"
)

// RouterConfig is how a Router behaves. Poison and PoisonTopic are required;
// the rest has defaults.
type RouterConfig struct {
	// Poison publishes what a handler could not process to PoisonTopic.
	Poison      message.Publisher
	PoisonTopic string
	// Poisonous says whether an error is one that no repetition helps against
	// (nil: every error is, once the retries are used up). Other messages are
	// nacked and come again.
	Poisonous func(error) bool

	// Timeout bounds one attempt of a handler that obeys its message's context
	// (default 30 s).
	Timeout time.Duration
	// Retries is how often a handler is tried again at once, before the message
	// is given up (default 3; negative: never).
	Retries int
	// RetryFirst and RetryLimit are the first pause between attempts and the
	// longest; it doubles, give or take a fifth (defaults 100 ms and 10 s).
	RetryFirst, RetryLimit time.Duration
	// ShouldRetry says whether an error is worth another attempt (nil: all are).
	ShouldRetry func(error) bool

	// CloseTimeout is how long Close waits for handlers (default 30 s).
	CloseTimeout time.Duration
	// Logger gets what the router says; what it reports as routine is debug
	// (default: discarded).
	Logger *slog.Logger
}

// NewRouter returns a Watermill router with, from the outside in:
//
//   - correlation: what enters without a correlation id gets its own id as one,
//     and everything that a handler produces gets the same;
//   - poison queue: a message whose attempts have all failed is published to the
//     poison topic, with the reason and where it was read, and acknowledged.
//     Where that fails, too, it is nacked. An attempt that was cut off because
//     the subscription ends poisons nothing: the message comes again;
//   - retry, each attempt with a fresh context;
//   - timeout, for each attempt;
//   - recoverer: a panic is an error like others. It stands inside of the three
//     above; outside of them a panic would pass by the poison queue, and the
//     message would come for ever.
//
// There is no Deduplicator. Watermill's marks a message as seen before its
// handler runs, so when the handler fails and the message is delivered again,
// it is taken for a duplicate, acknowledged and lost. It also knows its own
// process only and forgets after a minute, while deliveries repeat after a
// crash. What must have an effect once needs ids where the effect is: the
// judge keeps an account's last ids, and a stream those of its duplicate window
// (PublisherConfig.MsgID).
func NewRouter(cfg RouterConfig) (*message.Router, error) {
	if cfg.Poison == nil || cfg.PoisonTopic == "" {
		return nil, fmt.Errorf("%w: a router needs Poison and PoisonTopic", ErrConfig)
	}
	cfg = cfg.withDefaults()
	log := watermill.NewSlogLoggerWithLevelMapping(cfg.Logger, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})
	r, err := message.NewRouter(message.RouterConfig{CloseTimeout: cfg.CloseTimeout}, log)
	if err != nil {
		return nil, fmt.Errorf("new router: %w", err)
	}
	poison, err := middleware.PoisonQueueWithFilter(cfg.Poison, cfg.PoisonTopic, func(err error) bool {
		return !errors.Is(err, errCutOff) && (cfg.Poisonous == nil || cfg.Poisonous(err))
	})
	if err != nil {
		return nil, fmt.Errorf("new poison queue: %w", err)
	}
	r.AddMiddleware(
		beginCorrelation,
		middleware.CorrelationID,
		poison,
		keepContext,
		cfg.retry(log).Middleware,
		middleware.Timeout(cfg.Timeout),
		middleware.Recoverer,
	)
	return r, nil
}

func (c RouterConfig) withDefaults() RouterConfig {
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.Retries = max(0, cmp.Or(c.Retries, 3))
	c.RetryFirst = cmp.Or(c.RetryFirst, 100*time.Millisecond)
	c.RetryLimit = cmp.Or(c.RetryLimit, 10*time.Second)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, 30*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c RouterConfig) retry(log watermill.LoggerAdapter) middleware.Retry {
	r := middleware.Retry{
		MaxRetries:          c.Retries,
		InitialInterval:     c.RetryFirst,
		MaxInterval:         c.RetryLimit,
		Multiplier:          2,
		RandomizationFactor: 0.2,
		ResetContextOnRetry: true, // the timeout's context of the attempt before has ended
		Logger:              log,
	}
	if c.ShouldRetry != nil {
		r.ShouldRetry = func(p middleware.RetryParams) bool { return c.ShouldRetry(p.Err) }
	}
	return r
}

// errCutOff marks the error of a handler whose message's context has ended from
// outside.
var errCutOff = errors.New("the subscription ends")

// keepContext gives the message its own context back when the attempts are
// over, for the poison queue's publisher obeys it. It also marks errors of
// attempts that were cut off, and writes where a failed message was read.
func keepContext(h message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		ctx := m.Context()
		produced, err := h(m)
		m.SetContext(ctx)
		if err == nil {
			return produced, nil
		}
		if ctx.Err() != nil {
			return produced, fmt.Errorf("%w: %w", errCutOff, errors.Join(err, context.Cause(ctx)))
		}
		for from, to := range map[string]string{MetaStream: MetaPoisonedStream, MetaSubject: MetaPoisonedSubject, MetaSequence: MetaPoisonedSequence} {
			if v := m.Metadata.Get(from); v != "" {
				m.Metadata.Set(to, v)
			}
		}
		return produced, err
	}
}

// beginCorrelation gives a message that has no correlation id its own id as one.
func beginCorrelation(h message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		if m.Metadata == nil {
			m.Metadata = message.Metadata{}
		}
		middleware.SetCorrelationID(m.UUID, m)
		return h(m)
	}
}
