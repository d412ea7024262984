package pubsub_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus/pubsub"
	"github.com/musterhq/muster/eventlog/natstest"
)

// A durable group reads a topic. What one member leaves, the next one gets.
func Example() {
	js, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	pub, err := pubsub.NewPublisher(js, pubsub.PublisherConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer pub.Close()
	acks, err := pub.PublishAcked(ctx, "orders",
		message.NewMessage("o-1", []byte("tea")), message.NewMessage("o-2", []byte("coffee")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("stored in", acks[1].Stream, "at", acks[1].Sequence)

	for range 2 {
		sub, err := pubsub.NewSubscriber(js, pubsub.SubscriberConfig{Group: "kitchen"})
		if err != nil {
			log.Fatal(err)
		}
		orders, err := sub.Subscribe(ctx, "orders")
		if err != nil {
			log.Fatal(err)
		}
		m := <-orders
		fmt.Println(m.UUID, string(m.Payload))
		m.Ack()
		if err := sub.Close(); err != nil { // the group stays
			log.Fatal(err)
		}
	}
	// Output:
	// stored in pubsub_orders at 2
	// o-1 tea
	// o-2 coffee
}

// A router tries again, and puts away what cannot be processed.
func ExampleNewRouter() {
	js, stop := exampleServer()
	defer stop()
	pub, err := pubsub.NewPublisher(js, pubsub.PublisherConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer pub.Close()
	sub, err := pubsub.NewSubscriber(js, pubsub.SubscriberConfig{Group: "kitchen"})
	if err != nil {
		log.Fatal(err)
	}
	router, err := pubsub.NewRouter(pubsub.RouterConfig{Poison: pub, PoisonTopic: "orders-poison", Retries: -1})
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan string)
	router.AddConsumerHandler("serve", "orders", sub, func(m *message.Message) error {
		if string(m.Payload) == "soup" {
			return fmt.Errorf("we have no %s", m.Payload)
		}
		served <- string(m.Payload)
		return nil
	})
	if err := pub.Publish("orders", message.NewMessage("1", []byte("soup")), message.NewMessage("2", []byte("tea"))); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- router.Run(ctx) }()
	fmt.Println("served", <-served)
	cancel()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	poison, err := js.Stream(context.Background(), "pubsub_orders-poison")
	if err != nil {
		log.Fatal(err)
	}
	m, err := poison.GetMsg(context.Background(), 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("poisoned", string(m.Data)+":", m.Header.Get("reason_poisoned"))
	// Output:
	// served tea
	// poisoned soup: we have no soup
}

// exampleServer starts a server in the process.
func exampleServer() (jetstream.JetStream, func()) {
	dir, err := os.MkdirTemp("", "pubsub")
	if err != nil {
		log.Fatal(err)
	}
	s, err := natstest.Start(dir)
	if err != nil {
		log.Fatal(err)
	}
	nc, err := s.Connect()
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	return js, func() {
		nc.Close()
		s.Stop()
		if err := os.RemoveAll(dir); err != nil {
			log.Print(err)
		}
	}
}
