package pubsub_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/pubsub"
	"github.com/musterhq/muster/eventlog/natstest"
)

const benchMessages = 50_000

// BenchmarkAgainstBareJetStream publishes and reads the same messages with this
// package and with the bare client, over loopback, and reports the best rates
// of all rounds, per second, and their ratios.
func BenchmarkAgainstBareJetStream(b *testing.B) {
	s := natstest.Run(b, natstest.Listen)
	nc, err := nats.Connect(s.URL())
	noError(b, err)
	b.Cleanup(nc.Close)
	js := open(b, nc)
	var published, read struct{ bare, ours float64 }
	for round := 0; b.Loop(); round++ {
		topic := strconv.Itoa(round)
		noError(b, subscriber(b, js, pubsub.SubscriberConfig{}).SubscribeInitialize(topic))
		noError(b, subscriber(b, js, pubsub.SubscriberConfig{}).SubscribeInitialize("bare"+topic))
		published.bare = max(published.bare, barePublish(b, js, "pubsub.bare"+topic))
		published.ours = max(published.ours, ourPublish(b, js, topic))
		read.bare = max(read.bare, bareRead(b, js, "pubsub_"+topic))
		read.ours = max(read.ours, ourRead(b, js, topic))
	}
	b.ReportMetric(published.ours, "published/s")
	b.ReportMetric(published.ours/published.bare, "published/bare")
	b.ReportMetric(read.ours, "read/s")
	b.ReportMetric(read.ours/read.bare, "read/bare")
	b.ReportMetric(0, "ns/op")
}

// benchBatch gives each of a thousand accounts its messages in turn.
func benchBatch() []*message.Message {
	ms := make([]*message.Message, benchMessages)
	for i := range ms {
		ms[i] = message.NewMessage(fmt.Sprintf("0194c1a0-0000-7000-8000-%012d", i), make([]byte, 128))
		ms[i].Metadata["account"] = strconv.Itoa(i % 1000)
	}
	return ms
}

func rate(since time.Time) float64 { return benchMessages / time.Since(since).Seconds() }

func barePublish(b *testing.B, js jetstream.JetStream, subject string) float64 {
	ms := benchBatch()
	began := time.Now()
	var last jetstream.PubAckFuture
	for _, m := range ms {
		f, err := js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: m.Payload, Header: nats.Header{
			pubsub.HeaderUUID: {m.UUID}, "account": {m.Metadata["account"]},
		}}, jetstream.WithStallWait(patience))
		noError(b, err)
		last = f
	}
	<-js.PublishAsyncComplete()
	select {
	case <-last.Ok():
	case err := <-last.Err():
		b.Fatal(err)
	}
	return rate(began)
}

func ourPublish(b *testing.B, js jetstream.JetStream, topic string) float64 {
	ms := benchBatch()
	pub := publisher(b, js, pubsub.PublisherConfig{InFlight: 4000})
	began := time.Now()
	noError(b, pub.Publish(topic, ms...))
	return rate(began)
}

func bareRead(b *testing.B, js jetstream.JetStream, stream string) float64 {
	cons, err := js.CreateConsumer(b.Context(), stream, jetstream.ConsumerConfig{
		Durable: "bare", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 2048,
	})
	noError(b, err)
	done, n := make(chan struct{}), 0
	began := time.Now()
	cctx, err := cons.Consume(func(m jetstream.Msg) {
		if err := m.Ack(); err != nil {
			b.Error(err)
		}
		if n++; n == benchMessages {
			close(done)
		}
	}, jetstream.PullMaxMessages(2048))
	noError(b, err)
	<-done
	r := rate(began)
	cctx.Stop()
	return r
}

func ourRead(b *testing.B, js jetstream.JetStream, topic string) float64 {
	sub := subscriber(b, js, pubsub.SubscriberConfig{
		Group: "ours", InFlight: 2048, OrderKey: func(m *message.Message) string { return m.Metadata["account"] },
	})
	began := time.Now()
	ch, err := sub.Subscribe(b.Context(), topic)
	noError(b, err)
	for range benchMessages {
		m := <-ch
		m.Ack()
	}
	return rate(began)
}
