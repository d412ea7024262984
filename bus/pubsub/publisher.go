package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Publisher is a Watermill publisher on JetStream. It may be used from many
// goroutines; calls go side by side.
type Publisher struct {
	cfg   PublisherConfig
	js    jetstream.JetStream // the caller's: streams
	async jetstream.JetStream // own: what is sent without waiting

	mu     sync.Mutex
	closed bool
	calls  int
	idle   chan struct{} // made by Close, closed when the last call ends
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher. js and its connection stay the caller's.
// The error wraps ErrConfig.
func NewPublisher(js jetstream.JetStream, cfg PublisherConfig) (*Publisher, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	async, err := jetstream.New(js.Conn(), jetstream.WithPublishAsyncTimeout(cfg.Timeout))
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	return &Publisher{cfg: cfg, js: js, async: async, idle: make(chan struct{})}, nil
}

// Publish stores messages and returns when the server has acknowledged them.
// Each message's own context bounds its wait, as does the Timeout. After an
// error without an answer of the server (a timeout, a lost connection) the
// message may be stored or not.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	_, err := p.PublishAcked(context.Background(), topic, messages...)
	return err
}

// PublishAcked is Publish that returns the server's acknowledgements, one for
// each message, in order: its stream, sequence, and whether it was a
// duplicate. On an error they are those of the messages known to be stored,
// nil for others.
func (p *Publisher) PublishAcked(ctx context.Context, topic string, messages ...*message.Message) ([]*jetstream.PubAck, error) {
	if !p.begin() {
		return nil, fmt.Errorf("publish to %q: %w", topic, ErrClosed)
	}
	defer p.end()
	route, err := p.cfg.Topology.route(topic)
	if err != nil {
		return nil, err
	}
	acks := make([]*jetstream.PubAck, len(messages))
	publish := p.oneByOne
	if p.cfg.InFlight > 1 && len(messages) > 1 {
		publish = p.pipelined
	}
	if i, err := publish(ctx, route, messages, acks); err != nil {
		return acks, fmt.Errorf("publish message %d of %d to %q: %w", i+1, len(messages), topic, err)
	}
	return acks, nil
}

// oneByOne sends each message when the one before is stored. It returns the
// index of the message that failed.
func (p *Publisher) oneByOne(ctx context.Context, route Route, messages []*message.Message, acks []*jetstream.PubAck) (int, error) {
	for i, m := range messages {
		var err error
		if acks[i], err = p.publishOne(ctx, route, m); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// publishOne sends a message and waits for it. A topic whose stream does not
// exist yet gets it, when the route says how.
func (p *Publisher) publishOne(ctx context.Context, route Route, m *message.Message) (*jetstream.PubAck, error) {
	ack, err := p.attempt(ctx, route, m)
	if route.Create == nil || !errors.Is(err, jetstream.ErrNoStreamResponse) {
		return ack, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, p.cfg.Timeout, fmt.Errorf("no answer of the server within %v", p.cfg.Timeout))
	defer cancel()
	if created, cerr := route.ensure(bounded, p.js); cerr != nil || !created {
		return nil, errors.Join(err, cerr)
	}
	return p.attempt(ctx, route, m)
}

// attempt does not wait on after the connection was lost: no answer would come.
func (p *Publisher) attempt(ctx context.Context, route Route, m *message.Message) (*jetstream.PubAck, error) {
	f, err := p.send(route, m)
	if err != nil {
		return nil, err
	}
	return p.await(ctx, route, m, f)
}

// pipelined sends up to InFlight messages without waiting. It returns the
// index of the first message that failed.
func (p *Publisher) pipelined(ctx context.Context, route Route, messages []*message.Message, acks []*jetstream.PubAck) (int, error) {
	// The first message finds out whether there is a stream.
	if i, err := p.oneByOne(ctx, route, messages[:1], acks); err != nil {
		return i, err
	}
	futures := make([]jetstream.PubAckFuture, len(messages))
	var failed int
	var failure error
	fail := func(i int, err error) {
		if failure == nil || i < failed {
			failed, failure = i, err
		}
	}
	sent, settled := 1, 1
	more := func() bool { return failure == nil && sent < len(messages) }
	for more() || settled < sent {
		for ; more() && sent-settled < p.cfg.InFlight; sent++ {
			var err error
			if futures[sent], err = p.send(route, messages[sent]); err != nil {
				fail(sent, err)
				break
			}
		}
		until := sent
		if more() { // half of them, so that it is not one by one from here on
			until -= p.cfg.InFlight / 2
		}
		for ; settled < until; settled++ {
			var err error
			if acks[settled], err = p.await(ctx, route, messages[settled], futures[settled]); err != nil {
				fail(settled, err)
			}
		}
	}
	return failed, failure
}

func (p *Publisher) send(route Route, m *message.Message) (jetstream.PubAckFuture, error) {
	nm, err := p.marshal(route, m)
	if err != nil {
		return nil, err
	}
	return p.async.PublishMsgAsync(nm, jetstream.WithStallWait(p.cfg.Timeout))
}

func (p *Publisher) await(ctx context.Context, route Route, m *message.Message, f jetstream.PubAckFuture) (*jetstream.PubAck, error) {
	select {
	case ack := <-f.Ok():
		return ack, checkAck(route, ack)
	case err := <-f.Err():
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.Context().Done():
		return nil, m.Context().Err()
	}
}

func (p *Publisher) marshal(route Route, m *message.Message) (*nats.Msg, error) {
	nm, err := p.cfg.Marshaler.Marshal(route.Subject, m)
	if err != nil {
		return nil, fmt.Errorf("marshal message %s: %w", m.UUID, err)
	}
	if p.cfg.MsgID != nil {
		if id := p.cfg.MsgID(m); id != "" {
			if nm.Header == nil {
				nm.Header = nats.Header{}
			}
			nm.Header.Set(nats.MsgIdHdr, id)
		}
	}
	return nm, nil
}

// checkAck refuses an acknowledgement of another stream than the route's.
func checkAck(route Route, ack *jetstream.PubAck) error {
	if ack.Stream != route.Stream {
		return fmt.Errorf("%w: subject %s belongs to stream %s, not %s; the message was stored there", ErrTopic, route.Subject, ack.Stream, route.Stream)
	}
	return nil
}

func (p *Publisher) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.calls++
	return true
}

func (p *Publisher) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls--; p.closed && p.calls == 0 {
		close(p.idle)
	}
}

// Close refuses new Publish calls and waits for those under way, up to
// CloseTimeout. A second Close does nothing.
func (p *Publisher) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	if p.calls == 0 {
		close(p.idle)
	}
	p.mu.Unlock()
	defer p.async.CleanupPublisher()
	timer := time.NewTimer(p.cfg.CloseTimeout)
	defer timer.Stop()
	select {
	case <-p.idle:
		return nil
	case <-timer.C:
		return fmt.Errorf("close the publisher: calls still wait for the server after %v", p.cfg.CloseTimeout)
	}
}
