package pubsub_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/pubsub"
)

// withoutPlace removes what tells where a message was read.
func withoutPlace(m message.Metadata) map[string]string {
	c := maps.Clone(m)
	for _, k := range []string{pubsub.MetaStream, pubsub.MetaSubject, pubsub.MetaSequence, pubsub.MetaTime, pubsub.MetaDeliveries} {
		delete(c, k)
	}
	return c
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	_, js := run(t)
	for name, want := range map[string]*message.Message{
		"plain":             {UUID: "0194", Metadata: message.Metadata{"a": "b", "Content-Type": "application/json"}, Payload: []byte("{}")},
		"no id, no body":    {UUID: "", Metadata: message.Metadata{}, Payload: nil},
		"percent signs":     {UUID: "100%", Metadata: message.Metadata{"a%20": "50%41"}, Payload: []byte("x")},
		"several lines":     {UUID: "u", Metadata: message.Metadata{"stack": "panic:\n\tat x.go:1\r\n100% \x00"}, Payload: []byte("x")},
		"blanks at edges":   {UUID: " u ", Metadata: message.Metadata{"a": " b\t", "c": " "}, Payload: []byte("x")},
		"names of all kind": {UUID: "u", Metadata: message.Metadata{"a b": "1", "ä:ö": "2", "": "", "€\n": "€"}, Payload: []byte("x")},
		"a server's status": {UUID: "u", Metadata: message.Metadata{"Status": "503"}, Payload: nil},
	} {
		t.Run(name, func(t *testing.T) {
			topic := "topic " + name
			delete(want.Metadata, "")
			noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish(topic, want))
			got := receive(t, subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{}), topic))
			got.Ack()
			if got.UUID != want.UUID || string(got.Payload) != string(want.Payload) || !maps.Equal(withoutPlace(got.Metadata), want.Metadata) {
				t.Errorf("got %q %q %q, want %q %q %q", got.UUID, got.Payload, withoutPlace(got.Metadata), want.UUID, want.Payload, want.Metadata)
			}
		})
	}
}

func TestMetadataWithoutANameIsRefused(t *testing.T) {
	_, js := run(t)
	m := messages("x")[0]
	m.Metadata[""] = "y"
	if err := publisher(t, js, pubsub.PublisherConfig{}).Publish("t", m); err == nil || !strings.Contains(err.Error(), "without a name") {
		t.Errorf("Publish() = %v, want an error about metadata without a name", err)
	}
}

// What the server acts on, and what tells where a message was read, belongs to
// one publish: a message that is passed on must not carry it along.
func TestAMessageThatIsPassedOnLeavesItsPlaceBehind(t *testing.T) {
	_, js := run(t)
	m := messages("x")[0]
	m.Metadata = message.Metadata{"kept": "1", "Nats-Msg-Id": "a", "Nats-Expected-Last-Sequence": "77", pubsub.MetaSequence: "9", pubsub.MetaStream: "S"}
	noError(t, publisher(t, js, pubsub.PublisherConfig{}).Publish("t", m))
	got := receive(t, subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{}), "t"))
	got.Ack()
	want := map[string]string{"kept": "1"}
	if meta := withoutPlace(got.Metadata); !maps.Equal(meta, want) || got.Metadata[pubsub.MetaSequence] != "1" || got.Metadata[pubsub.MetaStream] != "pubsub_t" {
		t.Errorf("metadata = %v, want %v at sequence 1 of pubsub_t", got.Metadata, want)
	}
}

func TestPlainMessagesAreRead(t *testing.T) {
	_, js := run(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PLAIN", Subjects: []string{"plain.*"}})
	noError(t, err)
	for _, m := range []*nats.Msg{
		{Subject: "plain.a", Data: []byte("1"), Header: nats.Header{"Nats-Msg-Id": {"id-1"}, "Via": {"x", "y"}}},
		{Subject: "plain.b", Data: []byte("2")},
	} {
		_, err := js.PublishMsg(t.Context(), m)
		noError(t, err)
	}
	ch := subscribe(t, subscriber(t, js, pubsub.SubscriberConfig{Group: "g", Topology: pubsub.InStream("PLAIN")}), "plain.*")
	first, meta := receive(t, ch), map[string]string{"Nats-Msg-Id": "id-1", "Via": "x, y"}
	first.Ack()
	if first.UUID != "id-1" || !maps.Equal(withoutPlace(first.Metadata), meta) || first.Metadata[pubsub.MetaSubject] != "plain.a" {
		t.Errorf("the first is %q %v, want id-1 with %v from plain.a", first.UUID, first.Metadata, meta)
	}
	second := receive(t, ch)
	second.Ack()
	if second.UUID != "PLAIN:2" || second.Metadata[pubsub.MetaDeliveries] != "1" || second.Metadata[pubsub.MetaTime] == "" {
		t.Errorf("the second is %q %v, want PLAIN:2, delivered once, with its time", second.UUID, second.Metadata)
	}
}
