package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
)

const (
	pullMessages  = 10000            // wanted on the way at a time
	pullBytes     = 32 << 20         // of one pull request
	pullExpires   = 30 * time.Second // of one pull request
	heartbeat     = 5 * time.Second  // the server's sign of life when it has nothing to send
	silence       = 2*heartbeat + 500*time.Millisecond
	consumerGrace = 30 * time.Second // after which the server forgets a consumer that nobody pulls from
)

// errRestart says that a tail's consumer is of no use any more: a gap, a lost
// connection, silence, or the server has dropped it. A new one goes on after
// the last record that was handed out.
var errRestart = errors.New("the consumer is gone")

// tail is one ordered consumer of a stream, with pull requests of its own. It
// hands out messages in batches: the client's goroutine collects, the reader's
// takes all there is. Nothing is acknowledged; what makes it ordered is that
// the consumer's sequence has no gap.
type tail struct {
	nc      *nats.Conn
	next    string // subject of pull requests
	inbox   string
	sub     *nats.Subscription
	arrived chan struct{} // one token: something has come

	mu      sync.Mutex
	batch   []eventlog.Record
	onWay   int    // messages that the server still owes from pull requests
	seen    uint64 // the consumer's sequence of the last message
	failure error
}

// newTail creates a consumer that starts at a sequence. filter is a subject,
// "" for all.
func (l *Log) newTail(ctx context.Context, partition int, filter string, start uint64) (*tail, string, error) {
	stream := eventlog.StreamName(partition)
	cfg := jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: start,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: consumerGrace, FilterSubject: filter,
	}
	c, err := l.js.CreateConsumer(ctx, stream, cfg)
	if err != nil {
		return nil, "", fmt.Errorf("create a consumer of %s: %w", stream, err)
	}
	name := c.CachedInfo().Name
	t := &tail{
		nc: l.nc, next: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + name,
		inbox: l.nc.NewInbox(), arrived: make(chan struct{}, 1),
	}
	collect := func(m *nats.Msg) { t.take(m, partition) }
	if t.sub, err = l.nc.Subscribe(t.inbox, collect); err != nil {
		return nil, "", fmt.Errorf("subscribe to %s: %w", stream, err)
	}
	if err := t.sub.SetPendingLimits(-1, -1); err != nil { // what was pulled bounds them
		return nil, "", errors.Join(fmt.Errorf("subscribe to %s: %w", stream, err), t.sub.Unsubscribe())
	}
	return t, name, nil
}

// close ends the subscription and asks the server to drop the consumer; it
// does not wait, since the server drops an idle one by itself.
func (t *tail) close(stream, consumer string) {
	_ = t.sub.Unsubscribe()                                                    // fails only on a closed connection
	_ = t.nc.Publish("$JS.API.CONSUMER.DELETE."+stream+"."+consumer, []byte{}) // likewise
}

// pull keeps enough messages on the way.
func (t *tail) pull() error {
	t.mu.Lock()
	want := 0
	if t.onWay+len(t.batch) <= pullMessages/2 {
		want = pullMessages - t.onWay
		t.onWay += want
	}
	t.mu.Unlock()
	if want == 0 {
		return nil
	}
	request, err := json.Marshal(map[string]int64{
		"batch": int64(want), "max_bytes": pullBytes, "expires": int64(pullExpires), "idle_heartbeat": int64(heartbeat),
	})
	if err != nil {
		return fmt.Errorf("encode a pull request: %w", err)
	}
	if err := t.nc.PublishRequest(t.next, t.inbox, request); err != nil {
		return fmt.Errorf("%w: %w", errRestart, err)
	}
	return nil
}

// take collects one message; the client calls it for one at a time.
func (t *tail) take(m *nats.Msg, partition int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.signal()
	if t.failure != nil {
		return
	}
	if m.Reply == "" || m.Header != nil && len(m.Data) == 0 && m.Header.Get("Status") != "" {
		t.failure = t.status(m.Header)
		return
	}
	pos, ok := parsePosition(m.Reply)
	if !ok || pos.consumer != t.seen+1 {
		t.failure = fmt.Errorf("%w: after message %d came %q", errRestart, t.seen, m.Reply)
		return
	}
	_, account, err := eventlog.ParseSubject(m.Subject)
	if err != nil {
		t.failure = fmt.Errorf("sequence %d: %w", pos.stream, err)
		return
	}
	t.seen = pos.consumer
	t.onWay--
	t.batch = append(t.batch, eventlog.Record{
		Partition: partition, Seq: pos.stream, Account: account, Data: m.Data, Time: pos.time,
	})
}

// signal wakes the reader.
func (t *tail) signal() {
	select {
	case t.arrived <- struct{}{}:
	default:
	}
}

// status takes a message of the server about a pull request. Nil: it was only
// a heartbeat, or the request has ended and another follows.
func (t *tail) status(h nats.Header) error {
	switch h.Get("Status") {
	case "100": // heartbeat
		return nil
	case "408", "409": // expired, or full by bytes; other 409 are the consumer's end
		if pending, err := strconv.Atoi(h.Get("Nats-Pending-Messages")); err == nil {
			t.onWay -= pending
			return nil
		}
	}
	return fmt.Errorf("%w: %s %s", errRestart, h.Get("Status"), h.Get("Description"))
}

// wait returns what has come, at least one message. spare is a used batch that
// it may fill next.
func (t *tail) wait(ctx context.Context, broken <-chan struct{}, spare []eventlog.Record) ([]eventlog.Record, error) {
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for {
		t.mu.Lock()
		batch, failure := t.batch, t.failure
		if len(batch) > 0 {
			t.batch = spare[:0]
		}
		t.mu.Unlock()
		err := t.pull() // before the batch is worked on, so that the next one is on its way
		if len(batch) > 0 {
			return batch, nil // should the pull have failed, the next wait fails
		}
		if err != nil {
			return nil, err
		}
		if failure != nil {
			return nil, failure
		}
		select {
		case <-t.arrived:
			timer.Reset(silence)
		case <-broken:
			return nil, fmt.Errorf("%w: %w", errRestart, errLost)
		case <-timer.C:
			return nil, fmt.Errorf("%w: nothing came for %v", errRestart, silence)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
