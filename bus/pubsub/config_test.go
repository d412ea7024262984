package pubsub_test

import (
	"errors"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/pubsub"
)

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	_, js := run(t)
	for name, cfg := range map[string]pubsub.SubscriberConfig{
		"a group with a dot": {Group: "a.b"},
		"negative InFlight":  {InFlight: -1},
		"negative AckWait":   {AckWait: -1},
		"two starts":         {Start: pubsub.Start{New: true, Sequence: 4}},
	} {
		if _, err := pubsub.NewSubscriber(js, cfg); !errors.Is(err, pubsub.ErrConfig) {
			t.Errorf("%s: NewSubscriber() = %v, want ErrConfig", name, err)
		}
	}
	for name, cfg := range map[string]pubsub.PublisherConfig{"negative InFlight": {InFlight: -1}, "negative Timeout": {Timeout: -1}} {
		if _, err := pubsub.NewPublisher(js, cfg); !errors.Is(err, pubsub.ErrConfig) {
			t.Errorf("%s: NewPublisher() = %v, want ErrConfig", name, err)
		}
	}
}

func TestBackoff(t *testing.T) {
	d := pubsub.Backoff(100*time.Millisecond, time.Second)
	for deliveries, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond, 5: time.Second, 1000: time.Second,
	} {
		if got := d(deliveries); got != want {
			t.Errorf("after delivery %d: %v, want %v", deliveries, got, want)
		}
	}
}

func TestTopicsThatCannotBeUsed(t *testing.T) {
	_, js := run(t)
	p := publisher(t, js, pubsub.PublisherConfig{})
	if err := p.Publish("", messages("x")...); !errors.Is(err, pubsub.ErrTopic) {
		t.Errorf("Publish to no topic = %v, want ErrTopic", err)
	}
	if _, err := subscriber(t, js, pubsub.SubscriberConfig{Topology: pubsub.InStream("NONE")}).Subscribe(t.Context(), "a"); err == nil {
		t.Error("Subscribe in a stream that does not exist succeeded")
	}
}
