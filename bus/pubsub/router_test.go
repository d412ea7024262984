package pubsub_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/pubsub"
)

// routed starts a router with one handler on topic "in", whose results go to
// "out" and whose failures go to "poison".
func routed(t *testing.T, js jetstream.JetStream, cfg pubsub.RouterConfig, handler message.HandlerFunc) *message.Router {
	t.Helper()
	cfg.Poison, cfg.PoisonTopic, cfg.Logger = publisher(t, js, pubsub.PublisherConfig{}), "poison", testLog(t)
	cfg.RetryFirst, cfg.CloseTimeout = time.Millisecond, patience
	r, err := pubsub.NewRouter(cfg)
	noError(t, err)
	in := subscriber(t, js, pubsub.SubscriberConfig{Group: "g"})
	r.AddHandler("test", "in", in, "out", publisher(t, js, pubsub.PublisherConfig{}), handler)
	stopped := make(chan error, 1)
	go func() { stopped <- r.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		noError(t, r.Close())
		noError(t, <-stopped)
	})
	return r
}

func TestRouterNeedsAPoisonTopic(t *testing.T) {
	if _, err := pubsub.NewRouter(pubsub.RouterConfig{PoisonTopic: "x"}); !errors.Is(err, pubsub.ErrConfig) {
		t.Errorf("NewRouter() = %v, want ErrConfig", err)
	}
}

func TestWhatFailsIsTriedAgainAndThenPoisoned(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("in", messages("good", "panics", "hangs", "recovers")...))
	var panics, hangs, recovers atomic.Int32
	routed(t, js, pubsub.RouterConfig{Retries: 2, Timeout: 200 * time.Millisecond}, func(m *message.Message) ([]*message.Message, error) {
		switch string(m.Payload) {
		case "panics":
			panics.Add(1)
			panic("no such thing")
		case "hangs":
			hangs.Add(1)
			<-m.Context().Done()
			return nil, m.Context().Err()
		case "recovers":
			if recovers.Add(1) < 3 {
				return nil, errors.New("not yet")
			}
		}
		return messages("out of " + string(m.Payload)), nil
	})
	for i, want := range []string{"good", "recovers"} {
		m := receive(t, outOf(t, js, "out", uint64(i+1)))
		if got := string(m.Payload); got != "out of "+want || middleware.MessageCorrelationID(m) != "id-"+want {
			t.Errorf("out: %s with correlation %q, want out of %s with id-%[3]s", got, middleware.MessageCorrelationID(m), want)
		}
	}
	for i, want := range []struct{ payload, reason, sequence string }{{"panics", "no such thing", "2"}, {"hangs", "deadline exceeded", "3"}} {
		m := receive(t, outOf(t, js, "poison", uint64(i+1)))
		meta := m.Metadata
		if string(m.Payload) != want.payload || !strings.Contains(meta[middleware.ReasonForPoisonedKey], want.reason) ||
			meta[pubsub.MetaPoisonedSequence] != want.sequence || meta[pubsub.MetaPoisonedStream] != "pubsub_in" || meta[middleware.PoisonedTopicKey] != "in" {
			t.Errorf("poisoned: %s with %v, want %+v", m.Payload, meta, want)
		}
	}
	if p, h, r := panics.Load(), hangs.Load(), recovers.Load(); p != 3 || h != 3 || r != 3 {
		t.Errorf("attempts: %d, %d and %d, want 3 each", p, h, r)
	}
}

// outOf reads one message of a topic, beginning with the given one.
func outOf(t *testing.T, js jetstream.JetStream, topic string, seq uint64) <-chan *message.Message {
	t.Helper()
	s := subscriber(t, js, pubsub.SubscriberConfig{Start: pubsub.Start{Sequence: seq}})
	noError(t, s.SubscribeInitialize(topic))
	return subscribe(t, s, topic)
}

func TestOnlyWhatIsPoisonousIsPoisoned(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("in", messages("a")...))
	errLater := errors.New("later")
	var attempts atomic.Int32
	routed(t, js, pubsub.RouterConfig{
		ShouldRetry: func(error) bool { return false },
		Poisonous:   func(err error) bool { return !errors.Is(err, errLater) },
	}, func(m *message.Message) ([]*message.Message, error) {
		if attempts.Add(1) == 1 {
			return nil, errLater
		}
		return messages("done at delivery " + m.Metadata[pubsub.MetaDeliveries]), nil
	})
	if got := string(receive(t, outOf(t, js, "out", 1)).Payload); got != "done at delivery 2" {
		t.Errorf("out: %s, want that the message came again", got)
	}
	if _, err := js.Stream(t.Context(), "pubsub_poison"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the poison topic: %v, want that there is none", err)
	}
}

// A handler that is cut off by the end of the subscription has not failed: its
// message is not poisoned and comes again.
func TestAnEndPoisonsNothing(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("in", messages("a")...))
	started := make(chan struct{}, 10)
	r := routed(t, js, pubsub.RouterConfig{}, func(m *message.Message) ([]*message.Message, error) {
		started <- struct{}{}
		<-m.Context().Done()
		return nil, errors.New("cut off")
	})
	<-started
	noError(t, r.Close())
	if _, err := js.Stream(t.Context(), "pubsub_poison"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the poison topic: %v, want that there is none", err)
	}
	if got := receiveAcked(t, subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{Group: "g"}), "in"), 1); got[0] != "a" {
		t.Errorf("the next member got %q, want a", got)
	}
}
