package pubsub

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What is sent to a message's reply subject.
var (
	ackDone     = []byte("+ACK")
	ackGiveBack = []byte("-NAK")
	ackWorking  = []byte("+WPI")
	ackPutAway  = []byte("+TERM")
)

// subscription is one Subscribe call: a reader that fills the board, lanes that
// hand messages out and wait for their acknowledgement, and one goroutine that
// tells the server which messages are worked on. run owns them all.
type subscription struct {
	*Subscriber
	topic string
	route Route
	log   *slog.Logger
	nc    *nats.Conn

	place atomic.Pointer[place]
	solo  bool          // nobody else reads the consumer
	last  atomic.Uint64 // highest sequence delivered, for a consumer made anew

	board *board
	out   chan *message.Message
	lanes sync.WaitGroup

	msgCtx    context.Context // of the messages
	endMsgs   context.CancelFunc
	stopCtx   context.Context // ended: hand nothing out any more
	beginStop context.CancelFunc
	giveUp    chan struct{} // closed: no longer wait for acknowledgements
	done      chan struct{} // closed: all is over, out is closed
	reread    chan struct{} // deliveries were lost: begin reading anew
	suspicion suspicion
}

// place is the consumer that is read. One of the same name and another
// incarnation is another consumer.
type place struct {
	jetstream.Consumer
	name        string
	incarnation string // "" = made by somebody else: unknown
}

func (s *subscription) moveTo(cons jetstream.Consumer) {
	info := cons.CachedInfo()
	s.place.Store(&place{Consumer: cons, name: info.Name, incarnation: info.Config.Metadata[incarnation]})
	s.last.Store(max(s.last.Load(), info.Delivered.Stream))
}

func newSubscription(s *Subscriber, topic string, route Route, cons jetstream.Consumer) *subscription {
	sub := &subscription{
		Subscriber: s, topic: topic, route: route, nc: s.js.Conn(),
		log:  s.cfg.Logger.With("topic", topic, "stream", route.Stream, "group", s.cfg.Group),
		solo: s.cfg.Exclusive || s.cfg.Group == "",
		out:  make(chan *message.Message), giveUp: make(chan struct{}), done: make(chan struct{}),
		reread: make(chan struct{}, 1),
	}
	sub.suspicion.reconnects = sub.nc.Stats().Reconnects
	sub.stopCtx, sub.beginStop = context.WithCancel(context.Background())
	sub.moveTo(cons)
	sub.board = newBoard(s.cfg.InFlight, func() { sub.lanes.Go(sub.lane) })
	return sub
}

// start lets the subscription run until ctx ends or beginStop is called; ended
// is called when it is over.
func (s *subscription) start(ctx context.Context, ended func()) {
	s.msgCtx, s.endMsgs = context.WithCancel(ctx)
	unwatch := context.AfterFunc(ctx, s.beginStop)
	go func() {
		defer close(s.done)
		defer ended()
		defer unwatch()
		s.run()
	}()
}

func (s *subscription) stopping() bool { return s.stopCtx.Err() != nil }

func (s *subscription) run() {
	tending := make(chan struct{})
	var tender sync.WaitGroup
	tender.Go(func() { s.tend(tending) })
	cctx := s.read()
	s.board.close()
	if cctx != nil {
		cctx.Drain()
	}
	s.awaitHandlers()
	if cctx != nil {
		s.awaitDrained(cctx)
	}
	close(tending)
	tender.Wait()
	s.giveBack()
	close(s.out)
}

// awaitHandlers gives handlers CloseTimeout to acknowledge what they have.
func (s *subscription) awaitHandlers() {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		s.lanes.Wait()
	}()
	timer := time.NewTimer(s.cfg.CloseTimeout)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
	s.endMsgs()
	close(s.giveUp)
	<-idle
}

// awaitDrained waits until nothing comes from the server any more, so that
// what came last is given back, too.
func (s *subscription) awaitDrained(cctx jetstream.ConsumeContext) {
	timer := time.NewTimer(s.cfg.Timeout / 2)
	defer timer.Stop()
	lost := s.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer s.nc.RemoveStatusListener(lost)
	if !s.nc.IsConnected() {
		return // what comes meanwhile is delivered again after AckWait
	}
	select {
	case <-cctx.Closed():
	case <-lost:
	case <-timer.C:
	}
}

// giveBack returns what was not acknowledged to the group, in order, and makes
// sure that the server has heard of everything.
func (s *subscription) giveBack() {
	if s.cfg.Group == "" {
		s.abandon()
		return
	}
	if !s.nc.IsConnected() {
		return
	}
	for _, reply := range s.board.rest() {
		s.send(reply, ackGiveBack)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Timeout/2)
	defer cancel()
	if err := s.nc.FlushWithContext(ctx); err != nil {
		s.log.Warn("what was not acknowledged may come again only after AckWait", "error", err)
	}
}

// abandon removes the consumer of a subscription without a group. If that fails
// the server does so after a while.
func (s *subscription) abandon() {
	if s.cfg.Group != "" || !s.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Timeout/2)
	defer cancel()
	if err := s.js.DeleteConsumer(ctx, s.route.Stream, s.place.Load().name); err != nil && !gone(err) {
		s.log.Info("the subscription's consumer stays until the server removes it", "after", abandoned, "error", err)
	}
}

// send tells the server about a message. A failure is that of the connection:
// acknowledgements are repeated when it is back, and the rest is repeated or
// comes to nothing anyway.
func (s *subscription) send(reply string, what []byte) {
	if err := s.nc.Publish(reply, what); err != nil {
		s.log.Debug("an acknowledgement was not sent", "kind", string(what), "error", err)
	}
}

// lane works on one item after the other.
func (s *subscription) lane() {
	for it := s.board.next(); it != nil; it = s.board.next() {
		if !s.work(it) {
			return
		}
	}
}

// work hands an item out until it is acknowledged. false: the subscription ends.
func (s *subscription) work(it *item) bool {
	for {
		if it.fault != nil {
			return s.park(it)
		}
		switch s.handOut(it) {
		case handled:
			s.send(s.board.acked(it, time.Now()), ackDone)
			return true
		case refused:
			it.nacks++
			if !s.pause(s.cfg.NackDelay(it.deliveries() - 1)) {
				return false
			}
		case abandonedWork:
			return false
		}
	}
}

// verdict is what became of a message that was handed out.
type verdict int

const (
	handled verdict = iota
	refused
	abandonedWork
)

func (s *subscription) handOut(it *item) verdict {
	msg := it.msg
	it.msg = nil
	if msg == nil { // a handler may have altered the one before
		if msg, it.fault = s.unmarshal(it); it.fault != nil {
			return refused
		}
	}
	ctx, cancel := context.WithCancel(s.msgCtx)
	defer cancel()
	msg.SetContext(ctx)
	select {
	case s.out <- msg:
	case <-s.stopCtx.Done():
		return abandonedWork
	}
	select {
	case <-msg.Acked():
		return handled
	case <-msg.Nacked():
		return refused
	case <-s.giveUp:
		return abandonedWork
	}
}

// pause waits; false: the subscription ends.
func (s *subscription) pause(d time.Duration) bool {
	if d <= 0 {
		return !s.stopping()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.stopCtx.Done():
		return false
	}
}

// parkAgain is how long a message rests that could not be parked.
var parkAgain = Backoff(time.Second, time.Minute)

// park puts an item away for good.
func (s *subscription) park(it *item) bool {
	for try := 1; ; try++ {
		err := s.parkOnce(it)
		if err == nil {
			s.log.Warn("a message was parked", "sequence", it.seq(), "reason", it.fault)
			s.send(s.board.acked(it, time.Now()), ackPutAway)
			return true
		}
		s.log.Error("a message cannot be parked; it is tried again", "sequence", it.seq(), "reason", it.fault, "error", err)
		if !s.pause(parkAgain(try)) {
			return false
		}
	}
}

func (s *subscription) parkOnce(it *item) error {
	park := s.cfg.Park
	if park == nil {
		park = ParkIn(s.js, StreamPerTopic("parked"), s.topic)
	}
	ctx, cancel := s.bound(s.msgCtx)
	defer cancel()
	return park(ctx, Parked{Topic: s.topic, Group: s.cfg.Group, Msg: it.raw, Meta: it.meta, Reason: it.fault})
}

var errNoMessage = errors.New("the unmarshaler returned no message")
