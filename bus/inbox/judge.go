package inbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/pubsub"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// unfitError is why a message can never be judged: it is parked.
type unfitError struct{ reason string }

// Error is the reason.
func (e *unfitError) Error() string { return e.reason }

// unfit says whether an error is of the message, so that it is parked; any
// other one may pass, and the message waits.
func unfit(err error) bool {
	var own *unfitError
	var panicked middleware.RecoveredPanicError
	return errors.As(err, &own) || errors.As(err, &panicked)
}

// judge is the router's handler: it returns when the message has a verdict.
func (s *session) judge(m *message.Message) error {
	t, err := triggerOf(m)
	if err != nil {
		return &unfitError{err.Error()}
	}
	seq, err := sequenceOf(m)
	if err != nil {
		return err
	}
	if s.judged.has(seq, &t) {
		s.counts.repeated.Add(1)
		s.counts.taken.Add(1)
		return nil
	}
	kept, err := s.admit(m, &t)
	if err != nil {
		return err
	}
	v, err := s.verdict(m.Context(), t)
	if err == nil && v.Outcome == domain.Invalid {
		err = &unfitError{v.Reason}
	}
	if err != nil {
		return err
	}
	if kept != nil {
		kept(v)
	}
	if v.Outcome == domain.Duplicate && m.Metadata[metaOrigin] == t.ID {
		s.counts.repeated.Add(1)
	}
	s.counts.taken.Add(1)
	return nil
}

// admit asks whether whom the subject names may say this. What is refused is
// parked, unless it may be let through later.
func (s *session) admit(m *message.Message, t *domain.Trigger) (kept func(domain.Verdict), err error) {
	kept, err = s.cfg.Admit.Ask(m.Metadata[pubsub.MetaSubject], t)
	if err != nil && !errors.Is(err, bus.ErrRetryable) {
		err = &unfitError{err.Error()}
	}
	return kept, err
}

// verdict has a trigger judged here or by its partition's owner.
func (s *session) verdict(ctx context.Context, t domain.Trigger) (domain.Verdict, error) {
	c := make(chan command.Answer, 1)
	err := s.cfg.Judge.Submit(t, func(a command.Answer) { c <- a })
	if errors.Is(err, command.ErrNotOwner) && s.cfg.Owner != nil {
		return s.forward(ctx, t)
	}
	if err != nil {
		return domain.Verdict{}, fmt.Errorf("submit: %w", err)
	}
	a := <-c // comes in any case
	return a.Verdict, classify(a.Err)
}

// forward sends a trigger to its partition's owner. It has an id, so that the
// client repeats it safely.
func (s *session) forward(ctx context.Context, t domain.Trigger) (domain.Verdict, error) {
	r, err := s.cfg.Owner.Send(ctx, t)
	if err == nil {
		s.counts.forwarded.Add(1)
		return r.Verdict, nil
	}
	var e *bus.Error
	if errors.As(err, &e) && (e.Code == http.StatusLocked || e.Code == http.StatusRequestEntityTooLarge) {
		return domain.Verdict{}, &unfitError{e.Detail}
	}
	return domain.Verdict{}, err
}

// classify makes an error of the write path one that parks, or one that waits.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case command.Retryable(err), errors.Is(err, eventlog.ErrRefused), errors.Is(err, eventlog.ErrFailed), errors.Is(err, context.Canceled):
		return err
	default: // damaged, too large, or nothing that a record can hold
		return &unfitError{err.Error()}
	}
}

// The pauses between attempts to have a message judged.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
)

// waits says whether a message that could not be judged is tried again while
// the session lasts. Meanwhile those behind it of its account wait.
func (s *session) waits(ctx context.Context, err error) bool {
	if unfit(err) || ctx.Err() != nil {
		return false
	}
	s.counts.retried.Add(1)
	s.complain(err)
	return true
}

// complain logs why messages wait: not each time, for when a disk is full
// thousands do.
func (s *session) complain(err error) {
	now, last := time.Now().UnixNano(), s.complained.Load()
	if now-last >= int64(time.Second) && s.complained.CompareAndSwap(last, now) {
		s.cfg.Logger.Warn("messages of the inbox wait", "reason", err, "attempts", s.counts.retried.Load())
	}
}
