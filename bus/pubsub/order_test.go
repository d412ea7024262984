package pubsub_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/musterhq/muster/bus/pubsub"
)

// keyOf takes what stands before the dash: "k3-17" is the 17th of key k3.
func keyOf(m *message.Message) string { return string(m.Payload[:2]) }

func TestOneAfterTheOther(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", messages("a", "b", "c")...))
	for name, cfg := range map[string]pubsub.SubscriberConfig{
		"without a group":           {},
		"in a group":                {Group: "g1"},
		"with many sent in advance": {Group: "g2", InFlight: 64},
	} {
		t.Run(name, func(t *testing.T) {
			ch := subscribe(t, subscriber(t, js, cfg), "t")
			first := receive(t, ch)
			nothing(t, ch)
			first.Ack()
			if got := receiveAcked(t, ch, 2); !slices.Equal(got, []string{"b", "c"}) {
				t.Errorf("after a: %q, want b and c", got)
			}
		})
	}
}

func TestGroupIsInOrderOverItsMembers(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{InFlight: 64}).Publish("t", numbered(60)...))
	var mu sync.Mutex
	var got []string
	done := make(chan struct{})
	for range 3 {
		ch := subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{Group: "g"}), "t")
		go func() {
			for m := range ch {
				mu.Lock()
				if got = append(got, string(m.Payload)); len(got) == 60 {
					close(done)
				}
				mu.Unlock()
				m.Ack()
			}
		}()
	}
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("not all messages came")
	}
	for i, p := range got {
		if p != strconv.Itoa(i) {
			t.Fatalf("message %d is %s: %q", i, p, got)
		}
	}
}

// TestOrderHoldsWithinAKey nacks every third message twice, and holds one key
// up until all others are through.
func TestOrderHoldsWithinAKey(t *testing.T) {
	_, js := run(t)
	const keys, each = 8, 25
	var ms []*message.Message
	for i := range keys * each {
		ms = append(ms, messages(fmt.Sprintf("k%d-%d", i%keys, i/keys))...)
	}
	noError(t, publisher(t, js, pubsub.PublisherConfig{InFlight: 64}).Publish("t", ms...))
	ch := subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{
		Group: "g", InFlight: 256, OrderKey: keyOf, NackDelay: pubsub.ConstantDelay(time.Millisecond),
	}), "t")
	next := map[string]int{}
	nacked := map[string]int{}
	var heldUp *message.Message
	for acked := 0; acked < keys*each; {
		m := receive(t, ch)
		key, payload := keyOf(m), string(m.Payload)
		if want := fmt.Sprintf("%s-%d", key, next[key]); payload != want {
			t.Fatalf("%s came when it was the turn of %s", payload, want)
		}
		if payload == "k0-5" && heldUp == nil && acked < (keys-1)*each {
			heldUp = m // nothing more of k0 comes until it is let go
			continue
		}
		if nacked[payload] < 2 && next[key]%3 == 0 {
			nacked[payload]++
			m.Nack()
			continue
		}
		if want := strconv.Itoa(nacked[payload] + 1); m.Metadata[pubsub.MetaDeliveries] != want {
			t.Errorf("%s has been delivered %s times, want %s", payload, m.Metadata[pubsub.MetaDeliveries], want)
		}
		next[key]++
		acked++
		m.Ack()
		if heldUp != nil && acked == (keys-1)*each+5 {
			next["k0"]++
			acked++
			heldUp.Ack()
		}
	}
	await(t, "an empty group", func() bool {
		i := consumerInfo(t, js, "pubsub_t", "g")
		return i.NumAckPending == 0 && i.NumPending == 0 && i.NumRedelivered == 0
	})
}

func TestNackDelayGrows(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", messages("a")...))
	asked := make(chan int, 3)
	ch := subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{NackDelay: func(deliveries int) time.Duration {
		asked <- deliveries
		return time.Millisecond
	}}), "t")
	for want := 1; want <= 3; want++ {
		receive(t, ch).Nack()
		if got := <-asked; got != want {
			t.Errorf("NackDelay was asked with %d, want %d", got, want)
		}
	}
	receive(t, ch).Ack()
}

func TestInFlightBoundsWhatIsOut(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", numbered(5)...))
	ch := subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{
		Group: "g", InFlight: 3, OrderKey: func(m *message.Message) string { return m.UUID },
	}), "t")
	var out []*message.Message
	for range 3 {
		out = append(out, receive(t, ch))
	}
	nothing(t, ch)
	out[1].Ack()
	if got := string(receive(t, ch).Payload); got != "3" {
		t.Errorf("the fourth is %s, want 3", got)
	}
	nothing(t, ch)
}
