package inbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

// Publisher puts triggers into the inbox of a Muster, which need not be up.
type Publisher struct {
	js jetstream.JetStream
	as bus.Speaker // the zero value: nobody is named
}

// NewPublisher returns a Publisher on a connection, which stays the caller's.
func NewPublisher(nc *nats.Conn) (*Publisher, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("publish to the inbox: %w", err)
	}
	return &Publisher{js: js}, nil
}

// As returns a Publisher that publishes in somebody's name, on subjects where the
// server lets nobody else publish.
func (p *Publisher) As(s bus.Speaker) *Publisher { return &Publisher{js: p.js, as: s} }

// Publish stores a trigger, as JSON, to be judged, and returns its sequence in
// the stream. The error is a [*bus.Error] when the server refuses it, wraps
// bus.ErrUnreachable when nobody has such a stream, or is ctx's; after those of
// a trigger with an id it may be published again.
func (p *Publisher) Publish(ctx context.Context, t *domain.Trigger) (uint64, error) {
	subject := bus.InboxSubject(string(t.Account))
	if p.as != (bus.Speaker{}) {
		subject = p.as.Inbox(string(t.Account))
	}
	m := nats.Msg{
		Subject: subject, Data: t.AppendJSON(make([]byte, 0, 256)),
		Header: nats.Header{bus.HeaderContentType: {bus.TypeJSON}},
	}
	for name, value := range map[string]string{
		bus.HeaderTraceparent: t.Traceparent, bus.HeaderCorrelation: t.Correlation, bus.HeaderCausation: t.Causation,
	} {
		if value != "" {
			m.Header[name] = []string{value}
		}
	}
	ack, err := p.js.PublishMsg(ctx, &m)
	if err != nil {
		return 0, fmt.Errorf("publish %s for %q: %w", t.Name, t.Account, refusal(err))
	}
	return ack.Sequence, nil
}

// The server's codes for a stream that takes nothing more, and for a message
// that is too large for it.
const (
	codeFull     = 10077
	codeTooLarge = 10054
)

// refusal says in our words why the server did not store a message.
func refusal(err error) error {
	var js jetstream.JetStreamError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return &bus.Error{Code: http.StatusRequestEntityTooLarge, Title: "too large", Detail: "the trigger is larger than a message can be; send less data"}
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: the server has no inbox (stream %s); a Muster makes it when it is started there", bus.ErrUnreachable, Stream)
	case errors.As(err, &js) && js.APIError() != nil:
		switch e := js.APIError(); int(e.ErrorCode) {
		case codeTooLarge:
			return &bus.Error{Code: http.StatusRequestEntityTooLarge, Title: "too large", Detail: "the trigger is larger than a message of the inbox may be; send less data"}
		case codeFull:
			return &bus.Error{Code: http.StatusServiceUnavailable, Title: "the inbox is full", Detail: "the inbox is full: " + e.Description + "; send it again when Muster has caught up", Retryable: true}
		}
	}
	return err
}
