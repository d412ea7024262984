package subscribe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/natslog"
)

// DurableConfig describes a subscription whose position the server keeps.
// Only Name is required.
type DurableConfig struct {
	// Name of the consumers, one in each stream: letters, digits, - and _.
	// Subscribers with one name share the events.
	Name string
	// Window is how many events of a partition may be on their way without an
	// acknowledgement (default 1). With more than 1 it is faster, and an event
	// that is given again can come after later ones.
	Window int
	// AckWait is the time after which an event that was not acknowledged is
	// given again (default 30 s).
	AckWait time.Duration

	// Account, Partitions, Start and Since are as in Config; they count when
	// the consumers are created, and not later.
	Account    string
	Partitions []int
	Start      Start
	Since      time.Time
}

func (c DurableConfig) withDefaults() (DurableConfig, error) {
	if c.Name == "" || strings.ContainsAny(c.Name, ".*> \t\r\n/\\") {
		return c, fmt.Errorf("the name of a durable subscription is made of letters, digits, - and _; %q is not", c.Name)
	}
	if c.Window == 0 {
		c.Window = 1
	}
	if c.AckWait == 0 {
		c.AckWait = 30 * time.Second
	}
	return c, nil
}

// Delivery is an event that waits for its acknowledgement.
type Delivery struct {
	Event
	msg jetstream.Msg
}

// Ack says that the event was handled, and returns when the server knows it.
func (d *Delivery) Ack(ctx context.Context) error {
	if err := d.msg.DoubleAck(ctx); err != nil {
		return fmt.Errorf("acknowledge event %d of partition %d: %w", d.Seq, d.Partition, err)
	}
	return nil
}

// Again asks for the event once more, after a delay.
func (d *Delivery) Again(delay time.Duration) error {
	if err := d.msg.NakWithDelay(delay); err != nil {
		return fmt.Errorf("ask for event %d of partition %d again: %w", d.Seq, d.Partition, err)
	}
	return nil
}

// Durable gives events of durable consumers. Next must not be called by two
// goroutines at a time.
type Durable struct {
	js     jetstream.JetStream
	cfg    DurableConfig
	events chan Delivery
	cancel context.CancelCauseFunc
	ctx    context.Context // ends with the subscription, with the reason as its cause
	wg     sync.WaitGroup
}

// OpenDurable begins to read, creating the consumers that are not there yet. The
// connection is as in Open. Close leaves the consumers; see Forget.
func OpenDurable(ctx context.Context, nc *nats.Conn, cfg DurableConfig) (*Durable, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	js, wanted, err := openDurable(ctx, nc, cfg.Account, cfg.Partitions)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	d := &Durable{js: js, cfg: cfg, events: make(chan Delivery)}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	for _, p := range wanted {
		if _, err := d.consumer(ctx, p); err != nil {
			d.cancel(err)
			return nil, fmt.Errorf("subscribe: %w", err)
		}
	}
	d.wg.Go(func() { watchClosed(d.ctx, nc, d.cancel) })
	for _, p := range wanted {
		d.wg.Go(func() { d.read(p) })
	}
	return d, nil
}

func openDurable(ctx context.Context, nc *nats.Conn, account string, only []int) (jetstream.JetStream, []int, error) {
	reader, err := natslog.OpenReader(ctx, nc)
	if err != nil {
		return nil, nil, err
	}
	reader.Close()
	wanted, err := partitions(reader.Partitions(), account, only)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	return js, wanted, err
}

// consumer returns a partition's consumer and creates it if it is not there.
func (d *Durable) consumer(ctx context.Context, partition int) (jetstream.Consumer, error) {
	stream := eventlog.StreamName(partition)
	c, err := d.js.Consumer(ctx, stream, d.cfg.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		cfg := jetstream.ConsumerConfig{
			Durable: d.cfg.Name, Description: "Muster: subscriber " + strconv.Quote(d.cfg.Name),
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: d.cfg.AckWait, MaxAckPending: d.cfg.Window,
		}
		switch {
		case !d.cfg.Since.IsZero():
			cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &d.cfg.Since
		case d.cfg.Start == FromNow:
			cfg.DeliverPolicy = jetstream.DeliverNewPolicy
		}
		if d.cfg.Account != "" {
			cfg.FilterSubject = eventlog.Subject(partition, d.cfg.Account)
		}
		c, err = d.js.CreateConsumer(ctx, stream, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", d.cfg.Name, stream, err)
	}
	return c, nil
}

// The pauses of a reader between two tries to reach its consumer.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// read is the goroutine of one partition.
func (d *Durable) read(partition int) {
	for pause := firstRetry; d.ctx.Err() == nil; pause = min(2*pause, lastRetry) {
		if d.readOn(partition) {
			pause = firstRetry
		}
		select {
		case <-time.After(pause):
		case <-d.ctx.Done():
		}
	}
}

// readOn gives what one run of a consumer brings, until that ends. It reports
// whether anything came.
func (d *Durable) readOn(partition int) (came bool) {
	try, stop := context.WithTimeout(d.ctx, 5*time.Second)
	c, err := d.js.Consumer(try, eventlog.StreamName(partition), d.cfg.Name)
	stop()
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		d.cancel(fmt.Errorf("consumer %s of %s was deleted", d.cfg.Name, eventlog.StreamName(partition)))
	}
	if err != nil {
		return false
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(max(d.cfg.Window, 2)), jetstream.PullHeartbeat(5*time.Second))
	if err != nil {
		return false
	}
	defer context.AfterFunc(d.ctx, messages.Stop)()
	defer messages.Stop()
	for {
		m, err := messages.Next()
		if err != nil {
			return came
		}
		came = true
		if !d.give(partition, m) {
			return came
		}
	}
}

// give hands one message on.
func (d *Durable) give(partition int, m jetstream.Msg) bool {
	meta, err := m.Metadata()
	if err != nil {
		d.cancel(fmt.Errorf("a message without a place in its stream: %w", err))
		return false
	}
	_, account, err := eventlog.ParseSubject(m.Subject())
	if err != nil {
		d.cancel(err)
		return false
	}
	rec := eventlog.Record{Partition: partition, Seq: meta.Sequence.Stream, Account: account, Data: m.Data(), Time: meta.Timestamp.UnixNano()}
	select {
	case d.events <- Delivery{decode(&rec), m}:
		return true
	case <-d.ctx.Done():
		return false
	}
}

// Next returns the next event, waiting for it. The error is ctx's, ErrClosed,
// or why the subscription has ended.
func (d *Durable) Next(ctx context.Context) (Delivery, error) {
	select {
	case e := <-d.events:
		return e, nil
	case <-ctx.Done():
		return Delivery{}, context.Cause(ctx)
	case <-d.ctx.Done():
		return Delivery{}, fmt.Errorf("subscribe: %w", context.Cause(d.ctx))
	}
}

// Close ends the subscription; its consumers stay, and go on where they were
// when it is opened again.
func (d *Durable) Close() {
	d.cancel(ErrClosed)
	d.wg.Wait()
}

// Forget deletes the consumers of a durable subscription. What is not there is
// no error.
func Forget(ctx context.Context, nc *nats.Conn, name string) error {
	js, wanted, err := openDurable(ctx, nc, "", nil)
	if err != nil {
		return fmt.Errorf("forget subscription %s: %w", name, err)
	}
	for _, p := range wanted {
		err := js.DeleteConsumer(ctx, eventlog.StreamName(p), name)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("forget subscription %s: %w", name, err)
		}
	}
	return nil
}
