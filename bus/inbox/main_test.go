package inbox

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/eventlog/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within is the bound of every wait in these tests.
const within = 30 * time.Second

// rig is a server with an inbox, a history and writers that own all of it.
type rig struct {
	t      *testing.T
	server *natstest.Server
	nc     *nats.Conn // of publishers
	js     jetstream.JetStream
	store  *Store
	log    *memlog.Log
	set    *command.Set
	logged *safeBuffer
}

func newRig(t *testing.T, l Limits) *rig {
	t.Helper()
	r := &rig{t: t, server: natstest.Run(t), log: memlog.New(4), logged: &safeBuffer{}}
	r.nc = r.server.Conn(t)
	var err error
	if r.js, err = jetstream.New(r.nc); err != nil {
		t.Fatal(err)
	}
	r.store = r.open(l)
	r.set, err = command.NewSet(command.Config{Log: r.log, Judge: domain.NewJudge(lifecycle.Registry())})
	if err != nil {
		t.Fatal(err)
	}
	for p := range r.log.Partitions() {
		if _, err := r.set.Open(t.Context(), p, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := r.set.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// open opens the inbox on a connection of its own, as one more process would.
func (r *rig) open(l Limits) *Store {
	r.t.Helper()
	s, err := Open(r.t.Context(), r.server.Conn(r.t), l)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// read starts a reader; the returned function ends it and waits for that.
func (r *rig) read(change func(*Config)) (*Reader, func()) {
	r.t.Helper()
	cfg := Config{Store: r.store, Judge: r.set, History: r.log, Logger: slog.New(slog.NewTextHandler(r.logged, nil))}
	if change != nil {
		change(&cfg)
	}
	reader, err := NewReader(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); reader.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(within):
			r.t.Error("the reader does not end")
		}
	})
	r.t.Cleanup(stop)
	return reader, stop
}

// publish puts a body into the inbox.
func (r *rig) publish(subject, body string, header nats.Header) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	if _, err := r.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte(body), Header: header}); err != nil {
		r.t.Fatalf("publish to %s: %v", subject, err)
	}
}

// tell publishes n numbered facts of an account: seq 1 to n of one epoch.
func (r *rig) tell(account string, from, to int) {
	for i := from; i <= to; i++ {
		r.publish("muster.in."+account, fmt.Sprintf(`{"trigger":"start","source":"s","epoch":1,"seq":%d}`, i), nil)
	}
}

// history is an account's events in order.
func (r *rig) history(account string) []domain.Event {
	r.t.Helper()
	var all []domain.Event
	for rec, err := range r.log.Account(context.Background(), account, 1) {
		if err != nil {
			r.t.Fatal(err)
		}
		e, err := codec.Decode(rec.Data)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// seqs are the publisher's numbers of an account's events, in order.
func (r *rig) seqs(account string) []int {
	var out []int
	for _, e := range r.history(account) {
		out = append(out, int(e.Seq))
	}
	return out
}

// upTo is 1 to n.
func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

// empty waits until nothing is left in the inbox.
func (r *rig) empty() {
	r.t.Helper()
	r.await("an empty inbox", func() bool {
		n, err := r.store.Waiting(r.t.Context())
		return err == nil && n == 0
	})
}

// await polls for what has no signal.
func (r *rig) await(what string, done func() bool) {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(within)
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			r.t.Fatalf("waited %v for %s; the reader said:\n%s", within, what, r.logged)
		}
	}
}

// parked are all parked messages, newest first.
func (r *rig) parked() []Parked {
	r.t.Helper()
	page, err := r.store.List(r.t.Context(), 0, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	return page.Parked
}

// safeBuffer takes log lines from many goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is all that was written.
func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// choosy is a judge that a test can make refuse.
type choosy struct {
	*command.Set
	refuse func(t domain.Trigger) error // nil: taken
	answer func(t domain.Trigger, a command.Answer) command.Answer
}

func (c *choosy) Submit(t domain.Trigger, done func(command.Answer)) error {
	if c.refuse != nil {
		if err := c.refuse(t); err != nil {
			return err
		}
	}
	return c.Set.Submit(t, func(a command.Answer) {
		if c.answer != nil {
			a = c.answer(t, a)
		}
		done(a)
	})
}
