package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

// subscriber is the Watermill subscriber of one session. It gives out one
// message of an account at a time, and holds those behind it back.
type subscriber struct {
	reader *Reader
	group  string
	end    context.CancelCauseFunc // ends the session

	out    chan *message.Message
	ctx    context.Context // nothing new is given out once it has ended
	cancel context.CancelFunc
	wg     sync.WaitGroup // the lanes
	ended  chan struct{}

	last uint64 // the consumer's sequence of the last delivery
	mu   sync.Mutex
	// lanes are the accounts with a message in judging, by subject, and those behind it.
	lanes map[string][]jetstream.Msg
}

var _ message.Subscriber = (*subscriber)(nil)

func newSubscriber(r *Reader, group string) *subscriber {
	ctx, cancel := context.WithCancel(context.Background())
	return &subscriber{
		reader: r, group: group, out: make(chan *message.Message), ctx: ctx, cancel: cancel,
		ended: make(chan struct{}), lanes: map[string][]jetstream.Msg{},
	}
}

// redeliver is after which time the server gives a message out once more. It
// never comes to that: a session that is cut off from its messages ends, and
// the next one begins with all of them.
const redeliver = 24 * time.Hour

// heartbeat is how often the server says that it lives when it has nothing to
// deliver; after two that are missing the session ends.
const heartbeat = 5 * time.Second

// Subscribe makes the consumer and begins to read.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	consumer, err := s.reader.cfg.Store.in.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: s.group, Description: "Muster: judges the inbox", FilterSubject: topic,
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: redeliver,
		MaxDeliver: -1, MaxAckPending: s.reader.cfg.InFlight, MemoryStorage: true, // the stream remembers what is done
	})
	if err != nil {
		return nil, fmt.Errorf("make the consumer %s: %w", s.group, err)
	}
	reading, err := consumer.Consume(s.take, jetstream.PullMaxMessages(max(s.reader.cfg.InFlight/2, 1)),
		jetstream.PullHeartbeat(heartbeat), jetstream.ConsumeErrHandler(s.fault))
	if err != nil {
		return nil, fmt.Errorf("read the consumer %s: %w", s.group, err)
	}
	go func() { // Close waits for it
		defer close(s.ended)
		<-s.ctx.Done()
		reading.Stop()
		<-reading.Closed()
		s.wg.Wait()
		s.reader.counts.held.Store(0)
		close(s.out)
	}()
	return s.out, nil
}

// Close gives out nothing more, waits until what is under way is settled, and
// closes the channel.
func (s *subscriber) Close() error {
	s.cancel()
	<-s.ended
	return nil
}

// fault ends the session, for whatever goes wrong some messages may be missing.
func (s *subscriber) fault(_ jetstream.ConsumeContext, err error) { s.end(err) }

// take puts a message into its account's lane.
func (s *subscriber) take(m jetstream.Msg) {
	meta, err := m.Metadata()
	if err == nil {
		err = s.expect(meta)
	}
	if err != nil {
		s.end(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.reader.counts.held.Add(1)
	if behind, busy := s.lanes[m.Subject()]; busy {
		s.lanes[m.Subject()] = append(behind, m)
		return
	}
	s.lanes[m.Subject()] = nil
	s.wg.Go(func() { s.lane(m) })
}

// expect checks that no delivery was lost and none comes again.
func (s *subscriber) expect(meta *jetstream.MsgMetadata) error {
	s.last++
	switch {
	case meta.Sequence.Consumer != s.last:
		return fmt.Errorf("delivery %d came where %d was due: some are lost", meta.Sequence.Consumer, s.last)
	case meta.NumDelivered > 1:
		return errors.New("a message was delivered twice: its acknowledgement is lost, or it waits for very long")
	}
	return nil
}

// lane gives out an account's messages, one after the other.
func (s *subscriber) lane(m jetstream.Msg) {
	for {
		if !s.give(m) {
			return
		}
		s.reader.counts.held.Add(-1)
		s.mu.Lock()
		behind := s.lanes[m.Subject()]
		if len(behind) == 0 || s.ctx.Err() != nil {
			delete(s.lanes, m.Subject())
			s.mu.Unlock()
			return
		}
		s.lanes[m.Subject()] = behind[1:]
		s.mu.Unlock()
		m = behind[0]
	}
}

// give has one message judged. It says whether that is done; if not, the
// session ends.
func (s *subscriber) give(m jetstream.Msg) bool {
	meta, err := m.Metadata()
	if err != nil {
		s.end(err)
		return false
	}
	for {
		w, err := unmarshaler{&s.reader.counts}.Unmarshal(m, meta)
		if err != nil {
			s.end(err)
			return false
		}
		w.SetContext(s.ctx)
		select {
		case s.out <- w:
		case <-s.ctx.Done():
			return false
		}
		select {
		case <-w.Acked():
			if err := m.Ack(); err != nil {
				s.end(fmt.Errorf("acknowledge: %w", err))
			}
			return true
		case <-w.Nacked():
			pause(s.ctx, retryFirst)
		}
	}
}
