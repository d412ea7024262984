package presence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
)

// Listener gives a Presence what workers send over NATS, in the order in which
// it comes.
type Listener struct {
	p   *Presence
	nc  *nats.Conn
	sub *nats.Subscription
	ctx context.Context // ends with Close
	end context.CancelFunc
	wg  sync.WaitGroup
}

// answerWithin bounds the answer to a hello.
const answerWithin = 5 * time.Second

// Listen begins to hear workers on a connection, which stays the caller's. When
// it returns, the server has the subscription.
func Listen(nc *nats.Conn, p *Presence) (*Listener, error) {
	l := &Listener{p: p, nc: nc}
	l.ctx, l.end = context.WithCancel(context.Background())
	var err error
	// No queue group: every process hears every worker.
	if l.sub, err = nc.Subscribe(bus.WorkerSubjects, l.take); err != nil {
		l.end()
		return nil, fmt.Errorf("listen for workers: %w", err)
	}
	if err := nc.Flush(); err != nil {
		l.end()
		return nil, fmt.Errorf("listen for workers: %w", err)
	}
	return l, nil
}

// Close hears no more, and waits for the answers that are under way, or for ctx.
func (l *Listener) Close(ctx context.Context) error {
	err := l.sub.Unsubscribe()
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = nil
	}
	handled := make(chan struct{})
	if l.nc.Barrier(func() { close(handled) }) == nil {
		select { // the handler that runs now is the last one
		case <-handled:
		case <-ctx.Done():
			err = errors.Join(err, context.Cause(ctx))
		}
	}
	l.end()
	l.wg.Wait()
	if err != nil {
		return fmt.Errorf("stop listening for workers: %w", err)
	}
	return nil
}

// take hears one message. It must not block: the next beat may be behind it.
func (l *Listener) take(m *nats.Msg) {
	word, says, err := bus.ParseWorkerMessage(m)
	if err != nil {
		l.refuse(m, err)
		return
	}
	switch word {
	case bus.WorkerHello:
		finish, err := l.p.hello(says)
		if err != nil {
			l.refuse(m, err)
			return
		}
		l.wg.Go(func() { l.welcome(m, finish) })
	case bus.WorkerBeat:
		if w, tell := l.p.Beat(says); tell && l.p.ownsAny() {
			l.answer(m, w)
		}
	case bus.WorkerGoodbye:
		l.p.Goodbye(says)
		l.reply(m, &nats.Msg{})
	}
}

func (l *Listener) welcome(m *nats.Msg, finish func(context.Context) (bus.WorkerWelcome, error)) {
	ctx, cancel := context.WithTimeoutCause(l.ctx, answerWithin, fmt.Errorf("the accounts were not found within %v", answerWithin))
	defer cancel()
	w, err := finish(ctx)
	switch {
	case err != nil:
		l.refuse(m, &bus.Error{Code: http.StatusServiceUnavailable, Title: "not in time", Detail: err.Error(), Retryable: true})
	case l.p.ownsAny(): // a process that stands by leaves the answer to the one that writes
		l.answer(m, w)
	}
}

func (l *Listener) answer(m *nats.Msg, w bus.WorkerWelcome) {
	body, err := json.Marshal(w)
	if err != nil { // a struct of a number and a boolean
		return
	}
	l.reply(m, &nats.Msg{Data: body})
}

func (l *Listener) refuse(m *nats.Msg, err error) {
	l.p.log.Warn("a worker was not understood", "subject", m.Subject, "error", err)
	var known *bus.Error
	if !errors.As(err, &known) {
		known = &bus.Error{Code: http.StatusInternalServerError, Title: "internal error", Detail: "the server could not answer; its log says why"}
	}
	l.reply(m, known.Message())
}

// reply answers a message whose sender asked to be answered.
func (l *Listener) reply(to, m *nats.Msg) {
	if m.Subject = to.Reply; m.Subject == "" {
		return
	}
	if err := l.nc.PublishMsg(m); err != nil {
		l.p.log.Warn("a worker was not answered", "subject", to.Subject, "error", err)
	}
}
