package pubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

// How the server is asked for messages. The heartbeat is short, so that a
// request that got lost is noticed soon.
const (
	minPull   = 16
	maxPull   = 4096
	heartbeat = 2 * time.Second
	expiry    = 30 * time.Second
)

// readAgain is the pause before a reading that ended by itself is begun anew.
var readAgain = Backoff(50*time.Millisecond, 5*time.Second)

// reading is one Consume call.
type reading struct {
	sub  *subscription
	next uint64 // the consumer sequence that must come next, if nobody else reads; 0 = not known

	once  sync.Once
	lost  chan struct{} // closed: deliveries were lost; what comes later is not looked at
	doubt chan struct{} // the consumer may be gone
}

// read reads until the subscription is to end. It returns the reading that is
// still on, for it to be drained, or nil.
func (s *subscription) read() jetstream.ConsumeContext {
	for try := 1; ; try++ {
		began := time.Now()
		err := s.prepare()
		if err == nil {
			var cctx jetstream.ConsumeContext
			if cctx, err = s.readOnce(); cctx != nil {
				return cctx
			}
		}
		if s.stopping() {
			return nil
		}
		if err != nil && gone(err) && s.cfg.Group != "" {
			s.log.Error("the group was deleted; the subscription ends", "error", err)
			return nil
		}
		if s.nc.IsClosed() {
			s.log.Error("the connection was closed; the subscription ends", "error", err)
			return nil
		}
		s.log.Warn("reading is begun anew", "error", err)
		if time.Since(began) > time.Minute {
			try = 1
		}
		if !s.pause(readAgain(try)) {
			return nil
		}
	}
}

// prepare brings the consumer into a state from which reading gives everything
// in order: one of our own that is gone is made anew, and what an earlier
// reader of an exclusive one has not acknowledged comes first.
func (s *subscription) prepare() error {
	ctx, cancel := s.bound(s.stopCtx)
	defer cancel()
	info, err := s.look(ctx)
	if gone(err) && s.cfg.Group == "" {
		return s.remake(ctx, cmp.Or(s.board.lowest(), s.last.Load()+1))
	}
	if err != nil {
		return fmt.Errorf("look at the consumer: %w", err)
	}
	if !s.solo || info.NumAckPending == 0 {
		return nil
	}
	s.suspicion.arise(s.cfg.AckWait)
	if _, err := s.js.ResetConsumer(ctx, s.route.Stream, info.Name); err != nil {
		if s.cfg.Group == "" {
			return s.remake(ctx, info.AckFloor.Stream+1)
		}
		s.log.Warn("what was not acknowledged comes only after AckWait, and newer messages before it", "error", err)
	}
	return nil
}

// look asks for the consumer's state. One that was deleted and made anew by
// somebody else is gone.
func (s *subscription) look(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	p := s.place.Load()
	info, err := p.Info(ctx)
	if err == nil && info.Config.Metadata[incarnation] != p.incarnation {
		return nil, fmt.Errorf("%w: it was deleted, and one of its name made anew", jetstream.ErrConsumerNotFound)
	}
	return info, err
}

// remake makes the consumer of a subscription without a group anew, from a
// sequence on.
func (s *subscription) remake(ctx context.Context, from uint64) error {
	if _, err := s.js.Stream(ctx, s.route.Stream); err != nil {
		return fmt.Errorf("look at the stream: %w", err)
	}
	cons, err := s.createConsumer(ctx, s.route, s.ownConsumer(s.route, Start{Sequence: from}))
	if err != nil {
		return err
	}
	s.moveTo(cons)
	return nil
}

// readOnce reads until the subscription is to end (then the reading is
// returned), deliveries were lost, or the consumer is gone.
func (s *subscription) readOnce() (jetstream.ConsumeContext, error) {
	r := &reading{sub: s, lost: make(chan struct{}), doubt: make(chan struct{}, 1)}
	cctx, err := s.place.Load().Consume(r.receive,
		jetstream.PullMaxMessages(min(max(s.place.Load().CachedInfo().Config.MaxAckPending, minPull), maxPull)),
		jetstream.PullExpiry(expiry), jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(r.failed))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	for {
		select {
		case <-s.stopCtx.Done():
			return cctx, nil
		case <-s.reread:
			r.loseTrack()
		case <-r.lost:
			stopReading(cctx)
			return nil, errors.New("deliveries were lost with the connection")
		case <-cctx.Closed():
			return nil, errors.New("the server ended the reading")
		case <-r.doubt:
			if err := s.stillThere(); err != nil {
				stopReading(cctx)
				return nil, err
			}
		}
	}
}

func stopReading(cctx jetstream.ConsumeContext) {
	cctx.Stop()
	timer := time.NewTimer(heartbeat) // a connection that was closed says nothing
	defer timer.Stop()
	select {
	case <-cctx.Closed():
	case <-timer.C:
	}
}

// stillThere asks whether the consumer is; only an answer that says no is an error.
func (s *subscription) stillThere() error {
	ctx, cancel := s.bound(s.stopCtx)
	defer cancel()
	if _, err := s.look(ctx); gone(err) {
		return err
	}
	return nil
}

// failed is told what goes wrong while reading goes on, or ends it.
func (r *reading) failed(_ jetstream.ConsumeContext, err error) {
	r.sub.log.Debug("reading", "error", err)
	select {
	case r.doubt <- struct{}{}:
	default:
	}
}

// receive takes one delivery. Calls do not overlap.
func (r *reading) receive(m jetstream.Msg) {
	s := r.sub
	meta, err := m.Metadata()
	if err != nil {
		s.log.Error("a message came without its place in the stream", "subject", m.Subject(), "error", err)
		return
	}
	if !r.follows(meta) {
		return
	}
	now := time.Now()
	seq := meta.Sequence.Stream
	held, acked := s.board.again(seq, m.Reply(), now)
	if held {
		return
	}
	if acked && (meta.NumDelivered > 1 || s.suspicion.stands(s.nc, s.cfg.AckWait, now)) {
		s.send(m.Reply(), ackDone)
		return
	}
	s.last.Store(max(s.last.Load(), seq))
	it := &item{raw: m, meta: meta, reply: m.Reply(), told: now}
	if it.msg, it.fault = s.unmarshal(it); it.fault == nil {
		it.key, it.fault = s.orderKey(it.msg)
	}
	s.board.add(it)
}

// follows says whether a delivery is the one after the last. When nobody else
// reads, a gap means that deliveries were lost on their way: reading begins
// anew, so that nothing newer overtakes them.
func (r *reading) follows(meta *jetstream.MsgMetadata) bool {
	select {
	case <-r.lost:
		return false
	default:
	}
	seq := meta.Sequence.Consumer
	if r.sub.solo && r.next != 0 && seq > r.next {
		r.loseTrack()
		return false
	}
	r.next = seq + 1
	return true
}

// loseTrack ends the reading: what still comes is not looked at.
func (r *reading) loseTrack() { r.once.Do(func() { close(r.lost) }) }

// unmarshal makes a message of an item. A panic is a fault of the message.
func (s *subscription) unmarshal(it *item) (msg *message.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			msg, err = nil, fmt.Errorf("unmarshal: panic: %v", p)
		}
	}()
	msg, err = s.cfg.Unmarshaler.Unmarshal(it.raw, it.meta)
	if err != nil {
		return nil, fmt.Errorf("unmarshal: %w", err)
	}
	if msg == nil {
		return nil, errNoMessage
	}
	describe(msg, it.raw, it.meta, it.deliveries())
	return msg, nil
}

func (s *subscription) orderKey(msg *message.Message) (key string, err error) {
	if s.cfg.OrderKey == nil {
		return "", nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("order key: panic: %v", p)
		}
	}()
	return s.cfg.OrderKey(msg), nil
}
