package pubsub

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
)

// Route is where a topic lies.
type Route struct {
	Stream  string // the stream's name
	Subject string // what is published to, or filtered by; a filter may have wildcards
	// Create is how the stream is made when it does not exist. nil: the stream
	// is somebody else's, and must exist. A stream that exists is never altered.
	Create *jetstream.StreamConfig
}

// Topology maps a topic to its route. An error refuses the topic.
type Topology func(topic string) (Route, error)

// StreamPerTopic gives every topic a stream of its own, named prefix_TOPIC with
// the one subject prefix.TOPIC, on files and without limits. The topic may be any
// text; in both names it is written by eventlog.Token.
func StreamPerTopic(prefix string) Topology {
	return func(topic string) (Route, error) {
		if topic == "" {
			return Route{}, fmt.Errorf("%w: it has no name", ErrTopic)
		}
		token := eventlog.Token(topic)
		name, subject := prefix+"_"+token, prefix+"."+token
		return Route{Stream: name, Subject: subject, Create: &jetstream.StreamConfig{
			Name: name, Subjects: []string{subject}, Storage: jetstream.FileStorage,
		}}, nil
	}
}

// InStream takes topics as subjects of a stream that exists, e.g. an event
// stream or the inbox. A subscriber's topic may have wildcards.
func InStream(stream string) Topology {
	return func(topic string) (Route, error) {
		if topic == "" {
			return Route{}, fmt.Errorf("%w: it has no name", ErrTopic)
		}
		return Route{Stream: stream, Subject: topic}, nil
	}
}

// route asks a topology and checks what it says.
func (t Topology) route(topic string) (Route, error) {
	r, err := t(topic)
	if err != nil {
		return Route{}, fmt.Errorf("find the stream of topic %q: %w", topic, err)
	}
	if r.Stream == "" || r.Subject == "" || (r.Create != nil && r.Create.Name != r.Stream) {
		return Route{}, fmt.Errorf("%w: the topology gives topic %q the stream %q and the subject %q", ErrTopic, topic, r.Stream, r.Subject)
	}
	return r, nil
}

// ensure makes the route's stream when it does not exist and the route says
// how. A stream that exists is left as it is.
func (r Route) ensure(ctx context.Context, js jetstream.JetStream) (created bool, err error) {
	_, err = js.Stream(ctx, r.Stream)
	if err == nil {
		return false, nil
	}
	if r.Create == nil || !errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, fmt.Errorf("find stream %s: %w", r.Stream, err)
	}
	_, err = js.CreateStream(ctx, *r.Create)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody was faster
		return false, fmt.Errorf("create stream %s: %w", r.Stream, err)
	}
	return true, nil
}
