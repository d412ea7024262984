package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/pubsub"
)

func TestAcknowledgementsAreKept(t *testing.T) {
	_, js := run(t)
	for _, inFlight := range []int{1, 8} {
		pub := publisher(t, js, pubsub.PublisherConfig{InFlight: inFlight, MsgID: func(m *message.Message) string { return m.UUID }})
		topic := fmt.Sprintf("t%d", inFlight)
		acks, err := pub.PublishAcked(t.Context(), topic, numbered(30)...)
		noError(t, err)
		for i, a := range acks {
			if a.Stream != "pubsub_"+topic || a.Sequence != uint64(i+1) || a.Duplicate {
				t.Errorf("%d in flight: message %d was acknowledged as %+v", inFlight, i, a)
			}
		}
		again, err := pub.PublishAcked(t.Context(), topic, numbered(30)[4])
		noError(t, err)
		if a := again[0]; a.Sequence != 5 || !a.Duplicate {
			t.Errorf("%d in flight: the repeated message was acknowledged as %+v, want a duplicate of 5", inFlight, a)
		}
	}
}

func TestAMessageThatFails(t *testing.T) {
	_, js := run(t)
	batch := func() []*message.Message {
		return append(messages("a"), append([]*message.Message{message.NewMessage("big", make([]byte, 2<<20))}, messages("c")...)...)
	}
	for _, inFlight := range []int{1, 8} {
		topic := fmt.Sprintf("t%d", inFlight)
		acks, err := publisher(t, js, pubsub.PublisherConfig{InFlight: inFlight}).PublishAcked(t.Context(), topic, batch()...)
		if !errors.Is(err, nats.ErrMaxPayload) || !strings.Contains(err.Error(), "message 2 of 3") {
			t.Errorf("%d in flight: %v, want ErrMaxPayload of message 2 of 3", inFlight, err)
		}
		if acks[0] == nil || acks[1] != nil || acks[2] != nil {
			t.Errorf("%d in flight: acknowledgements %v, want the first only", inFlight, acks)
		}
		s, err := js.Stream(t.Context(), "pubsub_"+topic)
		noError(t, err)
		if n := s.CachedInfo().State.Msgs; n != 1 {
			t.Errorf("%d in flight: %d messages are stored, want 1", inFlight, n)
		}
	}
}

func TestPublishIntoAnotherStreamsSubject(t *testing.T) {
	_, js := run(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "REAL", Subjects: []string{"a"}})
	noError(t, err)
	err = publisher(t, js, pubsub.PublisherConfig{Topology: pubsub.InStream("OTHER")}).Publish("a", messages("x")...)
	if !errors.Is(err, pubsub.ErrTopic) || !strings.Contains(err.Error(), "REAL") {
		t.Errorf("Publish() = %v, want an ErrTopic that names REAL", err)
	}
	err = publisher(t, js, pubsub.PublisherConfig{Topology: pubsub.InStream("OTHER")}).Publish("b", messages("x")...)
	if !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("Publish where no stream is = %v, want ErrNoStreamResponse", err)
	}
}

func TestPublishIsBounded(t *testing.T) {
	s, js := run(t)
	pub := publisher(t, js, pubsub.PublisherConfig{})
	noError(t, pub.Publish("t", messages("x")...))
	// A subject that swallows what is published: nobody acknowledges it.
	_, err := s.Conn(t).Subscribe("void", func(*nats.Msg) {})
	noError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	m := messages("x")[0]
	m.SetContext(ctx)
	cancel()
	void := publisher(t, js, pubsub.PublisherConfig{Topology: pubsub.InStream("S"), Timeout: 50 * time.Millisecond})
	if err := void.Publish("void", m); !errors.Is(err, context.Canceled) {
		t.Errorf("Publish with an ended context = %v, want context.Canceled", err)
	}
	if err := void.Publish("void", messages("y")...); !errors.Is(err, jetstream.ErrAsyncPublishTimeout) {
		t.Errorf("Publish without an answer = %v, want a timeout", err)
	}
	noError(t, pub.Close())
	if err := pub.Publish("t", messages("x")...); !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("Publish after Close = %v, want ErrClosed", err)
	}
}
