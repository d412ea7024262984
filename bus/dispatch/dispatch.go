package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// Judge takes triggers; [command.Set] is one. Submit must not block. When it
// returns nil it calls done exactly once, with the final answer.
type Judge interface {
	Submit(t domain.Trigger, done func(command.Answer)) error
}

var _ Judge = (*command.Set)(nil)

// Config is what the endpoint needs. Judge is required.
type Config struct {
	Judge Judge
	// Partitions, when not 0, is the log's number of partitions, and triggers
	// that the Judge refuses with ErrNotOwner are sent on to the process that
	// serves their partition. 0: they are refused.
	Partitions int
	// Admit decides about triggers whose subject names who has sent them; see
	// [bus.Admit] for nil.
	Admit  bus.Admit
	Logger *slog.Logger // default: discarded
}

// Endpoint is the command endpoint of this process.
type Endpoint struct {
	cfg     Config
	svc     *bus.Service
	nc      *nats.Conn
	buffers sync.Pool

	counts   counts
	inFlight atomic.Int64
	waiting  atomic.Bool
	idle     chan struct{} // gets one value when the last one in flight is answered while waiting

	complained atomic.Int64 // when a refusal was last logged, unix ns

	mu    sync.Mutex
	owned map[int]*nats.Subscription
}

// counts are the endpoint's own statistics, shown by `nats micro stats`.
type counts struct {
	answered  atomic.Uint64 // verdicts, invalid ones included
	invalid   atomic.Uint64 // of those, bad input
	refused   atomic.Uint64 // micro errors
	forwarded atomic.Uint64 // sent on to a partition's owner
	unsent    atomic.Uint64 // answers that could not be published
}

// Stats are the endpoint's statistics since it was registered.
type Stats struct {
	Answered  uint64 `json:"answered"`
	Invalid   uint64 `json:"invalid"`
	Refused   uint64 `json:"refused"`
	Forwarded uint64 `json:"forwarded"`
	Unsent    uint64 `json:"unsent"`
	InFlight  int64  `json:"in_flight"`
}

// Register adds the endpoint to the service, whose Stop waits for the answers
// of what was submitted.
func Register(s *bus.Service, cfg Config) (*Endpoint, error) {
	if cfg.Judge == nil {
		return nil, errors.New("register commands: a Judge is required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Endpoint{cfg: cfg, svc: s, nc: s.Conn(), idle: make(chan struct{}, 1), owned: map[int]*nats.Subscription{}}
	e.buffers.New = func() any { b := make([]byte, 0, 512); return &b }
	err := s.AddEndpoint(bus.EndpointConfig{
		Name:     "cmd",
		Subject:  bus.CommandSubjects,
		Metadata: metadata(),
		Handler: micro.HandlerFunc(func(r micro.Request) {
			e.take(incoming{subject: r.Subject(), reply: r.Reply(), header: nats.Header(r.Headers()), data: r.Data()})
		}),
		Stats: func() any { return e.Stats() },
		Wait:  e.wait,
	})
	if err == nil {
		err = s.AddEndpoint(bus.EndpointConfig{
			Name: "src", Subject: bus.SourceSubjects, Metadata: sourceMetadata(),
			Handler: micro.HandlerFunc(func(r micro.Request) {
				e.takeOfSpeaker(incoming{subject: r.Subject(), reply: r.Reply(), header: nats.Header(r.Headers()), data: r.Data()})
			}),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("register commands: %w", err)
	}
	return e, nil
}

// Stats returns the endpoint's statistics.
func (e *Endpoint) Stats() Stats {
	return Stats{
		Answered: e.counts.answered.Load(), Invalid: e.counts.invalid.Load(), Refused: e.counts.refused.Load(),
		Forwarded: e.counts.forwarded.Load(), Unsent: e.counts.unsent.Load(), InFlight: e.inFlight.Load(),
	}
}

// Serve takes what other processes send on for a partition. Call it when the
// Judge owns the partition.
func (e *Endpoint) Serve(partition int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owned[partition] != nil {
		return nil
	}
	sub, err := e.svc.Subscribe(bus.OwnerSubjects(partition), func(m *nats.Msg) {
		e.take(incoming{subject: m.Subject, reply: m.Reply, header: m.Header, data: m.Data, forwarded: true})
	})
	if err != nil {
		return fmt.Errorf("serve partition %d: %w", partition, err)
	}
	e.owned[partition] = sub
	return nil
}

// Leave ends Serve. What has arrived is still handled.
func (e *Endpoint) Leave(partition int) error {
	e.mu.Lock()
	sub := e.owned[partition]
	delete(e.owned, partition)
	e.mu.Unlock()
	if sub == nil {
		return nil
	}
	if err := e.svc.Unsubscribe(sub); err != nil {
		return fmt.Errorf("leave partition %d: %w", partition, err)
	}
	return nil
}

// incoming is a request as it arrived, here or through another process.
type incoming struct {
	subject   string
	reply     string
	header    nats.Header
	data      []byte
	forwarded bool
	kept      func(domain.Verdict) // gets the verdict before it is answered; may be nil
}

// take decodes a request and hands it to the Judge. It never blocks.
func (e *Endpoint) take(in incoming) {
	t, format, bad := read(&in)
	if bad != nil {
		e.answerInvalid(in.reply, format, t, bad)
		return
	}
	e.submit(&in, t, format)
}

// takeOfSpeaker is take for a request whose subject names who has sent it.
func (e *Endpoint) takeOfSpeaker(in incoming) {
	t, format, bad := read(&in)
	if bad != nil {
		e.answerInvalid(in.reply, format, t, bad)
		return
	}
	kept, err := e.cfg.Admit.Ask(in.subject, &t)
	if err != nil {
		e.refuse(in.reply, err)
		return
	}
	in.kept = kept
	e.submit(&in, t, format)
}

// submit hands a trigger to the Judge, or sends its request on to who can.
func (e *Endpoint) submit(in *incoming, t domain.Trigger, format format) {
	e.inFlight.Add(1)
	reply, kept := in.reply, in.kept
	err := e.cfg.Judge.Submit(t, func(a command.Answer) {
		if kept == nil || a.Err != nil {
			e.answer(reply, format, &a)
			e.landed()
			return
		}
		go func() { // the Judge must not wait; Wait waits for what is in flight
			kept(a.Verdict)
			e.answer(reply, format, &a)
			e.landed()
		}()
	})
	if err == nil {
		return
	}
	defer e.landed()
	switch {
	case !errors.Is(err, command.ErrNotOwner) || in.forwarded || e.cfg.Partitions == 0:
		e.refuse(in.reply, err)
	case in.kept != nil:
		e.inFlight.Add(1)
		go e.relay(*in, t.Account) // wait waits for what is in flight
	default:
		e.forward(in, t.Account)
	}
}

// forward sends a request on to its partition's owner, who answers the caller.
func (e *Endpoint) forward(in *incoming, account domain.AccountID) {
	p := eventlog.Partition(string(account), e.cfg.Partitions)
	e.counts.forwarded.Add(1)
	e.publish(&nats.Msg{
		Subject: bus.OwnerSubject(p, bus.LastToken(in.subject)), Reply: in.reply, Header: in.header, Data: in.data,
	})
}

// relayWithin bounds relay.
const relayWithin = 10 * time.Second

// relay is forward for a request whose verdict is to be kept: it comes by here.
func (e *Endpoint) relay(in incoming, account domain.AccountID) {
	defer e.landed()
	p := eventlog.Partition(string(account), e.cfg.Partitions)
	e.counts.forwarded.Add(1)
	answer, err := e.nc.RequestMsg(&nats.Msg{
		Subject: bus.OwnerSubject(p, bus.LastToken(in.subject)), Header: in.header, Data: in.data,
	}, relayWithin)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		e.refuse(in.reply, command.ErrNotOwner)
		return
	case err != nil:
		e.refuse(in.reply, fmt.Errorf("%w: the owner of partition %d has not answered: %w", command.ErrUndecided, p, err))
		return
	}
	if r, err := bus.ParseReply(answer.Data); err == nil && bus.ErrorOf(answer) == nil {
		in.kept(r.Verdict)
	}
	if in.reply != "" {
		e.publish(&nats.Msg{Subject: in.reply, Header: answer.Header, Data: answer.Data})
	}
}

// answer publishes what the Judge said.
func (e *Endpoint) answer(reply string, f format, a *command.Answer) {
	if a.Err != nil {
		e.refuse(reply, a.Err)
		return
	}
	if a.Verdict.Outcome == domain.Invalid {
		e.counts.invalid.Add(1)
	}
	e.verdict(reply, f, &bus.Reply{Verdict: a.Verdict, Partition: a.Partition, Seq: a.Seq}, http.StatusBadRequest)
}

// answerInvalid answers bad input. t is as much of the trigger as was understood.
func (e *Endpoint) answerInvalid(reply string, f format, t domain.Trigger, bad *badInput) {
	e.counts.invalid.Add(1)
	e.verdict(reply, f, &bus.Reply{
		Verdict:   domain.Verdict{Account: t.Account, Key: t.Key, Trigger: t.Name, Outcome: domain.Invalid, Source: t.Source, Reason: bad.reason},
		Partition: -1,
	}, bad.code)
}

// verdict encodes and publishes a verdict; an invalid one carries the code.
func (e *Endpoint) verdict(reply string, f format, r *bus.Reply, code int) {
	e.counts.answered.Add(1)
	if reply == "" {
		return
	}
	buf := e.buffers.Get().(*[]byte)
	b := (*buf)[:0]
	if f.msgpack {
		b = r.AppendMsgpack(b)
	} else {
		b = r.AppendJSON(b)
	}
	m := nats.Msg{Subject: reply, Data: b, Header: f.header}
	if r.Outcome == domain.Invalid {
		m.Header = nats.Header{
			micro.ErrorHeader:     {clip(r.Reason)},
			micro.ErrorCodeHeader: {strconv.Itoa(code)},
			bus.HeaderContentType: {f.name()},
		}
	}
	e.publish(&m)
	*buf = b // the connection has copied it
	e.buffers.Put(buf)
}

// refuse publishes an error that is no verdict.
func (e *Endpoint) refuse(reply string, err error) {
	e.counts.refused.Add(1)
	problem := problemOf(err)
	if problem.Code == http.StatusInternalServerError {
		e.complain(err)
	}
	if reply == "" {
		return
	}
	m := problem.Message()
	m.Subject = reply
	e.publish(m)
}

// complain logs why commands are refused: not each time, for when a disk is full
// thousands are refused in a second.
func (e *Endpoint) complain(err error) {
	now, last := time.Now().UnixNano(), e.complained.Load()
	if now-last >= int64(time.Second) && e.complained.CompareAndSwap(last, now) {
		e.cfg.Logger.Error("command refused", "error", err, "refused_so_far", e.counts.refused.Load())
	}
}

// publish sends an answer, or a trigger on to its owner. An answer that repeats
// so much of its request that it does not fit into a message is replaced by an
// error, so that nobody waits for it.
func (e *Endpoint) publish(m *nats.Msg) {
	err := e.nc.PublishMsg(m)
	if errors.Is(err, nats.ErrMaxPayload) {
		small := tooLarge.Message()
		small.Subject = m.Subject
		err = e.nc.PublishMsg(small)
	}
	if err != nil {
		e.unsent(m.Subject, err)
	}
}

// unsent counts an answer that nobody got: the caller's bound passes, and it asks again.
func (e *Endpoint) unsent(subject string, err error) {
	e.counts.unsent.Add(1)
	e.cfg.Logger.Debug("answer not sent", "subject", subject, "error", err)
}

// landed counts an answer, and tells wait of the last one.
func (e *Endpoint) landed() {
	if e.inFlight.Add(-1) == 0 && e.waiting.Load() {
		select {
		case e.idle <- struct{}{}:
		default:
		}
	}
}

// wait returns when everything submitted has been answered. No more comes in by then.
func (e *Endpoint) wait(ctx context.Context) error {
	e.waiting.Store(true)
	for e.inFlight.Load() > 0 {
		select {
		case <-e.idle:
		case <-ctx.Done():
			return fmt.Errorf("commands: %d without an answer: %w", e.inFlight.Load(), context.Cause(ctx))
		}
	}
	return nil
}
