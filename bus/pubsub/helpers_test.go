package pubsub_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/pubsub"
	"github.com/musterhq/muster/eventlog/natstest"
)

// patience bounds every wait of a test for something that must happen.
const patience = 20 * time.Second

// testLog writes into the test's log.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func open(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func run(t testing.TB) (*natstest.Server, jetstream.JetStream) {
	s := natstest.Run(t)
	return s, open(t, s.Conn(t))
}

func publisher(t testing.TB, js jetstream.JetStream, cfg pubsub.PublisherConfig) *pubsub.Publisher {
	t.Helper()
	p, err := pubsub.NewPublisher(js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { noError(t, p.Close()) })
	return p
}

func subscriber(t testing.TB, js jetstream.JetStream, cfg pubsub.SubscriberConfig) *pubsub.Subscriber {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = testLog(t)
	}
	if cfg.CloseTimeout == 0 {
		cfg.CloseTimeout = 50 * time.Millisecond
	}
	s, err := pubsub.NewSubscriber(js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { noError(t, s.Close()) })
	return s
}

func subscribe(t testing.TB, s *pubsub.Subscriber, topic string) <-chan *message.Message {
	t.Helper()
	ch, err := s.Subscribe(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// messages are named by their payloads.
func messages(payloads ...string) []*message.Message {
	var ms []*message.Message
	for _, p := range payloads {
		ms = append(ms, message.NewMessage("id-"+p, []byte(p)))
	}
	return ms
}

func numbered(n int) []*message.Message {
	var ms []*message.Message
	for i := range n {
		ms = append(ms, messages(fmt.Sprint(i))...)
	}
	return ms
}

// receive waits for the next message.
func receive(t testing.TB, ch <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m, ok := <-ch:
		if !ok {
			t.Fatal("the subscription has ended")
		}
		return m
	case <-time.After(patience):
		t.Fatal("no message came")
	}
	return nil
}

// receiveAcked waits for n messages, acknowledges each, and returns their payloads.
func receiveAcked(t testing.TB, ch <-chan *message.Message, n int) []string {
	t.Helper()
	var got []string
	for range n {
		m := receive(t, ch)
		got = append(got, string(m.Payload))
		m.Ack()
	}
	return got
}

func nothing(t testing.TB, ch <-chan *message.Message) {
	t.Helper()
	select {
	case m, ok := <-ch:
		if ok {
			t.Fatalf("%s came, which should wait", m.Payload)
		}
		t.Fatal("the subscription has ended")
	case <-time.After(50 * time.Millisecond):
	}
}

// await asks again and again until cond holds.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// ended waits until the subscription is over.
func ended(t testing.TB, ch <-chan *message.Message) {
	t.Helper()
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-time.After(patience):
			t.Fatal("the subscription does not end")
		}
	}
}

func consumerInfo(t testing.TB, js jetstream.JetStream, stream, name string) *jetstream.ConsumerInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := js.Consumer(ctx, stream, name)
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo()
}
