package pubsub_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/pubsub"
)

// picky cannot read messages that begin with "bad", and panics at "worse".
type picky struct{ pubsub.DefaultMarshaler }

func (p picky) Unmarshal(m jetstream.Msg, meta *jetstream.MsgMetadata) (*message.Message, error) {
	switch {
	case strings.HasPrefix(string(m.Data()), "bad"):
		return nil, errors.New("it is bad\nindeed")
	case strings.HasPrefix(string(m.Data()), "worse"):
		panic("out of range")
	}
	return p.DefaultMarshaler.Unmarshal(m, meta)
}

func TestWhatCannotBeReadIsParked(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", messages("bad-1", "a", "worse-1", "b")...))
	sub := subscriber(t, js, pubsub.SubscriberConfig{Group: "g", Unmarshaler: picky{}})
	if got := receiveAcked(t, subscribe(t, sub, "t"), 2); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("received %q, want a and b", got)
	}
	await(t, "an empty group", func() bool {
		i := consumerInfo(t, js, "pubsub_t", "g")
		return i.NumAckPending == 0 && i.NumPending == 0
	})
	parked, err := js.Stream(t.Context(), "parked_t")
	noError(t, err)
	for seq, want := range map[uint64][3]string{
		1: {"bad-1", "unmarshal: it is bad indeed", "1"}, 2: {"worse-1", "unmarshal: panic: out of range", "3"},
	} {
		m, err := parked.GetMsg(t.Context(), seq)
		noError(t, err)
		h := m.Header
		got := [3]string{string(m.Data), h.Get(pubsub.HeaderParkedReason), h.Get(pubsub.HeaderParkedSequence)}
		if got != want {
			t.Errorf("parked message %d is %q, want %q", seq, got, want)
		}
		if h.Get(pubsub.HeaderParkedStream) != "pubsub_t" || h.Get(pubsub.HeaderParkedGroup) != "g" || h.Get(pubsub.HeaderUUID) != "id-"+want[0] {
			t.Errorf("parked message %d has the headers %v", seq, h)
		}
	}
}

func TestAKeyThatPanicsIsParkedAndStopsNobody(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", messages("", "ab")...))
	parked := make(chan string, 1)
	sub := subscriber(t, js, pubsub.SubscriberConfig{
		Group: "g", InFlight: 4,
		OrderKey: func(m *message.Message) string { return string(m.Payload[:1]) },
		Park: func(_ context.Context, p pubsub.Parked) error {
			parked <- p.Reason.Error()
			return nil
		},
	})
	if got := receiveAcked(t, subscribe(t, sub, "t"), 1); got[0] != "ab" {
		t.Errorf("received %q, want ab", got)
	}
	if reason := <-parked; !strings.HasPrefix(reason, "order key: panic:") {
		t.Errorf("parked for %q, want a panic of the order key", reason)
	}
}

func TestParkingIsTriedAgain(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", messages("bad-1", "a")...))
	var tries atomic.Int32
	sub := subscriber(t, js, pubsub.SubscriberConfig{
		Group: "g", InFlight: 4, Unmarshaler: picky{},
		Park: func(context.Context, pubsub.Parked) error {
			if tries.Add(1) == 1 {
				return errors.New("no room")
			}
			return nil
		},
	})
	if got := receiveAcked(t, subscribe(t, sub, "t"), 1); got[0] != "a" {
		t.Errorf("received %q, want a, which the other does not hold up", got)
	}
	await(t, "the second try to park", func() bool { return tries.Load() == 2 })
	await(t, "an empty group", func() bool { return consumerInfo(t, js, "pubsub_t", "g").NumAckPending == 0 })
}

func TestAMessageTooLargeToParkIsCut(t *testing.T) {
	_, js := run(t)
	body := "bad" + strings.Repeat("x", 1<<20-200)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", message.NewMessage("u", []byte(body))))
	subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{Group: "g", Unmarshaler: picky{}}), "t")
	var m *jetstream.RawStreamMsg
	await(t, "the parked message", func() bool {
		s, err := js.Stream(t.Context(), "parked_t")
		if err == nil {
			m, err = s.GetMsg(t.Context(), 1)
		}
		return err == nil
	})
	if got := m.Header.Get(pubsub.HeaderParkedTruncated); got != "1048379" || !strings.HasPrefix(body, string(m.Data)) {
		t.Errorf("parked %d bytes, real size %q, want the beginning of 1048379", len(m.Data), got)
	}
}

func TestParkingLeavesTheServersHeadersBehind(t *testing.T) {
	_, js := run(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}})
	noError(t, err)
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "s.a", Data: []byte("bad"), Header: nats.Header{
		"Nats-Msg-Id": {"orig"}, "Nats-Expected-Last-Sequence": {"0"}, "Mine": {"1"},
	}})
	noError(t, err)
	subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{Group: "g", Topology: pubsub.InStream("S"), Unmarshaler: picky{}}), "s.*")
	var m *jetstream.RawStreamMsg
	await(t, "the parked message", func() bool {
		s, err := js.Stream(t.Context(), "parked_s=2E=2A")
		if err == nil {
			m, err = s.GetMsg(t.Context(), 1)
		}
		return err == nil
	})
	for header, want := range map[string]string{
		pubsub.HeaderParkedMsgID: "orig", "Mine": "1", "Nats-Expected-Last-Sequence": "", "Nats-Msg-Id": "S:1:g",
		pubsub.HeaderParkedSubject: "s.a", pubsub.HeaderParkedTopic: "s.*",
	} {
		if got := m.Header.Get(header); got != want {
			t.Errorf("header %s = %q, want %q", header, got, want)
		}
	}
}
