package pubsub_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/pubsub"
	"github.com/musterhq/muster/eventlog/natstest"
)

func TestGroupLivesUntilItIsDeleted(t *testing.T) {
	_, js := run(t)
	pub := publisher(t, js, pubsub.PublisherConfig{})
	sub := subscriber(t, js, pubsub.SubscriberConfig{Group: "g"})
	noError(t, sub.CreateGroup(t.Context(), "t"))
	noError(t, sub.CreateGroup(t.Context(), "t")) // it exists
	noError(t, pub.Publish("t", numbered(4)...))
	if got := receiveAcked(t, subscribe(t, sub, "t"), 2); !slices.Equal(got, []string{"0", "1"}) {
		t.Fatalf("received %q, want 0 and 1", got)
	}
	noError(t, sub.Close())
	noError(t, sub.Close())
	if _, err := sub.Subscribe(t.Context(), "t"); !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("Subscribe after Close = %v, want ErrClosed", err)
	}
	if i := consumerInfo(t, js, "pubsub_t", "g"); i.Config.Durable != "g" || i.AckFloor.Stream != 2 {
		t.Errorf("after Close the group is %q at %d, want g at 2", i.Config.Durable, i.AckFloor.Stream)
	}

	again := subscriber(t, js, pubsub.SubscriberConfig{Group: "g"})
	ch := subscribe(t, again, "t")
	if got := receiveAcked(t, ch, 1); got[0] != "2" {
		t.Errorf("the group goes on with %q, want 2", got)
	}
	noError(t, again.DeleteGroup(t.Context(), "t"))
	noError(t, again.DeleteGroup(t.Context(), "t")) // there is none
	ended(t, ch)
	if _, err := js.Consumer(t.Context(), "pubsub_t", "g"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("after DeleteGroup: %v, want ErrConsumerNotFound", err)
	}
}

func TestASubscriberWithoutAGroupLeavesNothingBehind(t *testing.T) {
	_, js := run(t)
	sub := subscriber(t, js, pubsub.SubscriberConfig{})
	noError(t, sub.SubscribeInitialize("t"))
	if err := sub.CreateGroup(t.Context(), "t"); !errors.Is(err, pubsub.ErrNoGroup) {
		t.Errorf("CreateGroup = %v, want ErrNoGroup", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := sub.Subscribe(ctx, "t")
	noError(t, err)
	stream, err := js.Stream(t.Context(), "pubsub_t")
	noError(t, err)
	cancel()
	ended(t, ch)
	info, err := stream.Info(t.Context())
	noError(t, err)
	if info.State.Consumers != 0 {
		t.Errorf("the stream has %d consumers, want none", info.State.Consumers)
	}
}

func TestStart(t *testing.T) {
	_, js := run(t)
	pub := publisher(t, js, pubsub.PublisherConfig{})
	noError(t, pub.Publish("t", numbered(3)...))
	since := time.Now()
	noError(t, pub.Publish("t", messages("3")...))
	for name, c := range map[string]struct {
		start pubsub.Start
		want  string
	}{"zero": {pubsub.Start{}, "0"}, "sequence": {pubsub.Start{Sequence: 2}, "1"}, "time": {pubsub.Start{Time: since}, "3"}} {
		if got := receiveAcked(t, subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{Start: c.start}), "t"), 1); got[0] != c.want {
			t.Errorf("%s: begins with %q, want %s", name, got, c.want)
		}
	}
	fresh := subscriber(t, js, pubsub.SubscriberConfig{Group: "fresh", Start: pubsub.Start{New: true}})
	noError(t, fresh.CreateGroup(t.Context(), "t"))
	noError(t, pub.Publish("t", messages("4")...))
	if got := receiveAcked(t, subscribe(t, fresh, "t"), 1); got[0] != "4" {
		t.Errorf("new: begins with %q, want 4", got)
	}
}

func TestStreamsThatExistAreLeftAsTheyAre(t *testing.T) {
	_, js := run(t)
	made, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "pubsub_t", Subjects: []string{"pubsub.t", "more"}, MaxMsgs: 100})
	noError(t, err)
	before := made.CachedInfo().Config
	sub := subscriber(t, js, pubsub.SubscriberConfig{Group: "g"})
	noError(t, sub.SubscribeInitialize("t"))
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", messages("x")...))
	receiveAcked(t, subscribe(t, sub, "t"), 1)
	after, err := js.Stream(t.Context(), "pubsub_t")
	noError(t, err)
	if c := after.CachedInfo().Config; !slices.Equal(c.Subjects, before.Subjects) || c.MaxMsgs != before.MaxMsgs || c.Retention != before.Retention {
		t.Errorf("the stream is now %+v, want %+v", c, before)
	}
}

func TestAGroupHasOneTopicInAStream(t *testing.T) {
	_, js := run(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}})
	noError(t, err)
	in := pubsub.SubscriberConfig{Group: "g", Topology: pubsub.InStream("S")}
	noError(t, subscriber(t, js, in).CreateGroup(t.Context(), "s.a"))
	err = subscriber(t, js, in).CreateGroup(t.Context(), "s.b")
	if !errors.Is(err, pubsub.ErrConfig) || !strings.Contains(err.Error(), `reads ["s.a"], not "s.b"`) {
		t.Errorf("CreateGroup on another topic = %v, want an ErrConfig that names both", err)
	}
	in.InFlight, in.AckWait = 7, time.Minute // settings follow the subscriber
	noError(t, subscriber(t, js, in).CreateGroup(t.Context(), "s.a"))
	if c := consumerInfo(t, js, "S", "g").Config; c.MaxAckPending != 7 || c.AckWait != time.Minute {
		t.Errorf("the group has MaxAckPending %d and AckWait %v, want 7 and 1m", c.MaxAckPending, c.AckWait)
	}
}

func TestCloseGivesBackWhatWasNotAcknowledged(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", numbered(20)...))
	cfg := pubsub.SubscriberConfig{Group: "g", InFlight: 16, AckWait: time.Hour, OrderKey: func(m *message.Message) string { return m.UUID }}
	first := subscriber(t, js, cfg)
	ch := subscribe(t, first, "t")
	var out []*message.Message
	for range 6 {
		out = append(out, receive(t, ch))
	}
	out[1].Ack()
	out[3].Ack()
	await(t, "two acknowledgements", func() bool {
		i := consumerInfo(t, js, "pubsub_t", "g")
		return i.AckFloor.Stream == 0 && i.Delivered.Stream == 18
	})
	noError(t, first.Close())
	if out[0].Context().Err() == nil {
		t.Error("the context of a message goes on after Close")
	}
	got := receiveAcked(t, subscribe(t, subscriber(t, js, cfg), "t"), 18)
	slices.SortFunc(got, func(a, b string) int { return len(a) - len(b) })
	want := []string{"0", "2", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19"}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the next member got %q, want %q", got, want)
	}
}

func TestCloseWaitsForHandlers(t *testing.T) {
	_, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", numbered(2)...))
	sub := subscriber(t, js, pubsub.SubscriberConfig{Group: "g", CloseTimeout: patience})
	m := receive(t, subscribe(t, sub, "t"))
	closed := make(chan error, 1)
	go func() { closed <- sub.Close() }()
	select {
	case <-closed:
		t.Fatal("Close did not wait for the handler")
	case <-m.Context().Done():
		t.Fatal("the message's context ended while its handler had time")
	case <-time.After(50 * time.Millisecond):
	}
	m.Ack()
	noError(t, <-closed)
	if i := consumerInfo(t, js, "pubsub_t", "g"); i.AckFloor.Stream != 1 || i.NumAckPending != 0 {
		t.Errorf("the group is at %d with %d pending, want 1 and 0", i.AckFloor.Stream, i.NumAckPending)
	}
}

func TestASlowHandlerKeepsItsMessage(t *testing.T) {
	s, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", messages("slow")...))
	signs, err := s.Conn(t).SubscribeSync("$JS.ACK.>")
	noError(t, err)
	cfg := pubsub.SubscriberConfig{Group: "g", InFlight: 2, AckWait: 600 * time.Millisecond}
	ch := subscribe(t, subscriber(t, js, cfg), "t")
	other := subscribe(t, subscriber(t, js, cfg), "t")
	m := receive(t, either(ch, other))
	for range 6 { // twice AckWait
		sign, err := signs.NextMsg(patience)
		noError(t, err)
		if string(sign.Data) != "+WPI" {
			t.Fatalf("the server was told %q, want that work goes on", sign.Data)
		}
	}
	nothing(t, ch)
	nothing(t, other)
	m.Ack()
	await(t, "an empty group", func() bool { return consumerInfo(t, js, "pubsub_t", "g").NumAckPending == 0 })
	if n := consumerInfo(t, js, "pubsub_t", "g").Delivered.Consumer; n != 1 {
		t.Errorf("the message was delivered %d times, want once", n)
	}
}

// either returns the channel that gives a message first, as one that has it.
func either(a, b <-chan *message.Message) <-chan *message.Message {
	one := make(chan *message.Message, 1)
	select {
	case m := <-a:
		one <- m
	case m := <-b:
		one <- m
	case <-time.After(patience):
	}
	return one
}

// A member of an exclusive group crashes: the next one gets at once, in order,
// what it had not acknowledged, and only then what is newer.
func TestAnExclusiveGroupIsTakenOver(t *testing.T) {
	s, js := run(t)
	noError(t, publisher(t, js, pubsub.PublisherConfig{InFlight: 64}).Publish("t", numbered(40)...))
	cfg := pubsub.SubscriberConfig{
		Group: "g", InFlight: 16, AckWait: time.Hour, Exclusive: true, Timeout: time.Second,
		OrderKey: func(*message.Message) string { return "one" }, Logger: testLog(t),
	}
	nc, err := s.Connect()
	noError(t, err)
	crashing := subscribe(t, subscriber(t, open(t, nc), cfg), "t")
	receiveAcked(t, crashing, 3)
	receive(t, crashing)
	await(t, "more deliveries", func() bool { return consumerInfo(t, js, "pubsub_t", "g").Delivered.Stream == 19 })
	nc.Close()

	got := receiveAcked(t, subscribe(t, subscriber(t, js, cfg), "t"), 37)
	for i, p := range got {
		if want := numbered(40)[i+3].Payload; p != string(want) {
			t.Fatalf("message %d after the takeover is %s, want %s: %q", i, p, want, got)
		}
	}
	await(t, "an empty group", func() bool { return consumerInfo(t, js, "pubsub_t", "g").NumAckPending == 0 })
}

// The server is away while messages are acknowledged: they do not come again,
// and the server learns of it when it is back.
func TestAcknowledgementsOutliveAConnection(t *testing.T) {
	s := natstest.Run(t)
	js := open(t, s.Conn(t)) // without a buffer: what is sent while it is away is lost
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", numbered(6)...))
	ch := subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{
		Group: "g", InFlight: 4, AckWait: time.Hour, OrderKey: func(m *message.Message) string { return m.UUID },
	}), "t")
	var out []*message.Message
	for range 4 {
		out = append(out, receive(t, ch))
	}
	s.Stop()
	await(t, "the connection to be lost", func() bool { return js.Conn().Status() == nats.RECONNECTING })
	for _, m := range out {
		m.Ack()
	}
	noError(t, s.Restart())
	got := receiveAcked(t, ch, 2)
	slices.Sort(got)
	if !slices.Equal(got, []string{"4", "5"}) {
		t.Errorf("after the restart came %q, want 4 and 5", got)
	}
	await(t, "an empty group", func() bool {
		i := consumerInfo(t, js, "pubsub_t", "g")
		return i.NumAckPending == 0 && i.AckFloor.Stream == 6
	})
}

// Deliveries are lost with a connection: nothing newer overtakes them.
func TestLostDeliveriesComeFirst(t *testing.T) {
	for name, group := range map[string]string{"exclusive group": "g", "no group": ""} {
		t.Run(name, func(t *testing.T) {
			s := natstest.Run(t, natstest.Listen)
			direct := open(t, s.Conn(t))
			pub := publisher(t, direct, pubsub.PublisherConfig{})
			noError(t, pub.Publish("t", messages("0")...))
			proxy := natstest.NewProxy(t, s)
			nc, err := nats.Connect(proxy.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
			noError(t, err)
			t.Cleanup(nc.Close)
			ch := subscribe(t, subscriber(t, open(t, nc), pubsub.SubscriberConfig{
				Group: group, Exclusive: group != "", InFlight: 16, AckWait: time.Hour, Timeout: 2 * time.Second,
			}), "t")
			receiveAcked(t, ch, 1)
			stream, err := direct.Stream(t.Context(), "pubsub_t")
			noError(t, err)
			names := stream.ConsumerNames(t.Context())
			consumer := <-names.Name()
			proxy.Mute(true)
			noError(t, pub.Publish("t", messages("1", "2")...))
			await(t, "deliveries into the void", func() bool { return consumerInfo(t, direct, "pubsub_t", consumer).Delivered.Stream == 3 })
			proxy.Mute(false)
			proxy.Cut()
			noError(t, pub.Publish("t", messages("3")...))
			if got := receiveAcked(t, ch, 3); !slices.Equal(got, []string{"1", "2", "3"}) {
				t.Errorf("received %q, want 1, 2 and 3", got)
			}
		})
	}
}

// The consumer of a subscription without a group is lost: it is made anew where
// the subscription is.
func TestAnOwnConsumerIsMadeAnew(t *testing.T) {
	_, js := run(t)
	pub := publisher(t, js, pubsub.PublisherConfig{})
	noError(t, pub.Publish("t", numbered(2)...))
	ch := subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{}), "t")
	receiveAcked(t, ch, 1)
	held := receive(t, ch)
	stream, err := js.Stream(t.Context(), "pubsub_t")
	noError(t, err)
	names := stream.ConsumerNames(t.Context())
	noError(t, stream.DeleteConsumer(t.Context(), <-names.Name()))
	noError(t, pub.Publish("t", messages("2", "3")...))
	held.Ack()
	if got := receiveAcked(t, ch, 2); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("received %q, want 2 and 3", got)
	}
}
