package subscribe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus/subscribe"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const within = 30 * time.Second

// history writes events of accounts to a real log.
type history struct {
	t    *testing.T
	log  *natslog.Log
	last map[string]uint64 // sequence of the account's last record
	n    map[string]uint64 // events of the account
}

func newHistory(t *testing.T, srv *natstest.Server, partitions int) *history {
	t.Helper()
	log, err := natslog.Open(t.Context(), srv.Conn(t), natslog.Config{Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return &history{t, log, map[string]uint64{}, map[string]uint64{}}
}

// add stores one event of an account.
func (h *history) add(account string) {
	h.t.Helper()
	h.n[account]++
	b, err := codec.Encode(&domain.Event{
		Version: h.n[account], Account: domain.AccountID(account), Kind: domain.KindSession, Trigger: "connection_ready",
		Outcome: domain.Noop, From: "RUNNING", To: "RUNNING", At: 1, Recorded: 1,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.put(account, b)
}

func (h *history) put(account string, data []byte) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), within)
	defer cancel()
	for {
		p := eventlog.Partition(account, h.log.Partitions())
		r := h.log.Append(ctx, p, []eventlog.Entry{{Account: account, Expect: h.last[account], Data: data}})[0]
		if errors.Is(r.Err, eventlog.ErrUnknown) && ctx.Err() == nil { // the server is being started again
			if rec, err := h.log.Last(ctx, account); err == nil && rec.Seq > h.last[account] {
				r = eventlog.Result{Seq: rec.Seq}
			} else {
				<-time.After(10 * time.Millisecond)
				continue
			}
		}
		if r.Err != nil {
			h.t.Fatal(r.Err)
		}
		h.last[account] = r.Seq
		return
	}
}

func open(t *testing.T, nc *nats.Conn, cfg subscribe.Config) *subscribe.Subscription {
	t.Helper()
	s, err := subscribe.Open(t.Context(), nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func next(t *testing.T, s *subscribe.Subscription) subscribe.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	e, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// expect takes events: account and version.
func expect(t *testing.T, s *subscribe.Subscription, want ...string) {
	t.Helper()
	for _, w := range want {
		e := next(t, s)
		if got := fmt.Sprintf("%s %d", e.Account, e.Version); got != w {
			t.Fatalf("got %s, want %s", got, w)
		}
	}
}

func TestWhereASubscriptionBegins(t *testing.T) {
	srv := natstest.Run(t)
	h := newHistory(t, srv, 1)
	h.add("a")
	h.add("b")
	h.add("a")
	nc := srv.Conn(t)
	all := open(t, nc, subscribe.Config{})
	e := next(t, all)
	if e.Account != "a" || e.Version != 1 || e.Seq != 1 || e.Partition != 0 || e.Outcome != domain.Noop || time.Since(e.Stored) > time.Hour {
		t.Fatalf("%+v", e)
	}
	if v := e.View(); v.Account != "a" || v.Seq != 1 || v.Trigger != "connection_ready" || v.Outcome != "noop" {
		t.Fatalf("%+v", v)
	}
	expect(t, all, "b 1", "a 2")
	now := open(t, nc, subscribe.Config{Start: subscribe.FromNow})
	one := open(t, nc, subscribe.Config{Account: "b"})
	after := open(t, nc, subscribe.Config{After: map[int]uint64{0: 2}, Start: subscribe.FromNow})
	since := open(t, nc, subscribe.Config{Since: next(t, after).Stored})
	long := open(t, nc, subscribe.Config{Since: time.Now().Add(-time.Hour), Partitions: []int{0}})
	late := open(t, nc, subscribe.Config{Since: time.Now().Add(time.Hour)})
	third := open(t, nc, subscribe.Config{First: 3})
	h.add("b")
	h.add("c")
	expect(t, third, "a 2", "b 2", "c 1")
	expect(t, all, "b 2", "c 1")
	expect(t, now, "b 2", "c 1")
	expect(t, one, "b 1", "b 2")
	expect(t, after, "b 2", "c 1")
	expect(t, since, "a 2", "b 2", "c 1")
	expect(t, long, "a 1", "b 1", "a 2", "b 2", "c 1")
	expect(t, late, "b 2", "c 1") // what comes is newer than all there was
}

// Over restarts of the server every event comes once and in order.
func TestARestartLeavesNoGapAndNoRepeat(t *testing.T) {
	srv := natstest.Run(t)
	h := newHistory(t, srv, 2)
	s := open(t, srv.Conn(t), subscribe.Config{})
	accounts := []string{"a", "b", "c", "d", "e"}
	const rounds, each = 3, 40
	go func() {
		for range rounds {
			for i := range each {
				h.add(accounts[i%len(accounts)])
			}
			if err := srv.Restart(); err != nil {
				t.Error(err)
			}
		}
		h.add("end")
	}()
	version, seq := map[domain.AccountID]uint64{}, map[int]uint64{}
	for version["end"] == 0 || len(seq) < 2 || sum(version) < rounds*each+1 {
		e := next(t, s)
		if e.Version != version[e.Account]+1 || e.Seq != seq[e.Partition]+1 {
			t.Fatalf("after %v and %v came %s %d at %d/%d", version, seq, e.Account, e.Version, e.Partition, e.Seq)
		}
		version[e.Account], seq[e.Partition] = e.Version, e.Seq
	}
}

func sum(m map[domain.AccountID]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}

func TestWhatCannotBeReadIsAnEventWithAnError(t *testing.T) {
	srv := natstest.Run(t)
	h := newHistory(t, srv, 1)
	h.put("a", []byte("?"))
	h.add("b")
	s := open(t, srv.Conn(t), subscribe.Config{})
	e := next(t, s)
	if e.Account != "a" || !errors.Is(e.Err, codec.ErrMalformed) || e.Seq != 1 || e.View().Error == "" || string(e.Record().Data) != "?" {
		t.Fatalf("%+v", e)
	}
	expect(t, s, "b 1")
}

func TestHowASubscriptionEnds(t *testing.T) {
	srv := natstest.Run(t)
	nc := srv.Conn(t)
	if _, err := subscribe.Open(t.Context(), nc, subscribe.Config{}); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("without streams: %v", err)
	}
	h := newHistory(t, srv, 2)
	for _, bad := range []subscribe.Config{{Partitions: []int{2}}, {After: map[int]uint64{7: 1}}, {Account: "a", Partitions: []int{0}}} {
		if s, err := subscribe.Open(t.Context(), nc, bad); err == nil {
			s.Close()
			t.Errorf("%+v is taken", bad)
		}
	}
	s := open(t, nc, subscribe.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	s.Close()
	if _, err := s.Next(t.Context()); !errors.Is(err, subscribe.ErrClosed) {
		t.Error(err)
	}
	own, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	h.add("a")
	s = open(t, own, subscribe.Config{})
	expect(t, s, "a 1")
	go own.Close()
	for e, err := range s.Events(t.Context()) {
		if !errors.Is(err, nats.ErrConnectionClosed) {
			t.Fatal(e, err)
		}
	}
	srv.Wipe(t, nc)
	s, err = subscribe.Open(t.Context(), nc, subscribe.Config{})
	if err == nil {
		s.Close()
		t.Error("a log that is gone is opened")
	}
}

// A durable subscription gives again what was not acknowledged, in order, and
// goes on where it was, over restarts of the server and of the subscriber.
func TestADurableSubscriptionGoesOn(t *testing.T) {
	srv := natstest.Run(t)
	h := newHistory(t, srv, 1)
	nc := srv.Conn(t)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cfg := subscribe.DurableConfig{Name: "billing", AckWait: 200 * time.Millisecond}
	begin := func() *subscribe.Durable {
		t.Helper()
		d, err := subscribe.OpenDurable(ctx, nc, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	take := func(d *subscribe.Durable, want uint64) subscribe.Delivery {
		t.Helper()
		e, err := d.Next(ctx)
		if err != nil || e.Version != want || e.Account != "a" {
			t.Fatalf("%v: %s %d, want %d", err, e.Account, e.Version, want)
		}
		return e
	}
	ack := func(e subscribe.Delivery) {
		t.Helper()
		if err := e.Ack(ctx); err != nil {
			t.Fatal(err)
		}
	}
	d := begin()
	for range 5 {
		h.add("a")
	}
	ack(take(d, 1))
	take(d, 2)
	ack(take(d, 2)) // again, since it was not acknowledged, and before the third
	e := take(d, 3)
	if err := e.Again(0); err != nil {
		t.Fatal(err)
	}
	e = take(d, 3)
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	ack(take(d, 3)) // the server forgot that it was on its way
	d.Close()
	if _, err := d.Next(ctx); !errors.Is(err, subscribe.ErrClosed) {
		t.Fatal(err)
	}
	d = begin()
	ack(take(d, 4))
	ack(take(d, 5))
	if err := subscribe.Forget(ctx, nc, "billing"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Next(ctx); err == nil || !strings.Contains(err.Error(), "billing of MUSTER_EV_00") {
		t.Fatal(err)
	}
	d.Close()
	d = begin()
	ack(take(d, 1)) // a new one begins at the beginning
	d.Close()
	if err := subscribe.Forget(ctx, nc, "billing"); err != nil {
		t.Fatal(err)
	}
	if _, err := subscribe.OpenDurable(ctx, nc, subscribe.DurableConfig{Name: "a.b"}); err == nil {
		t.Error("a name with a dot is taken")
	}
}
