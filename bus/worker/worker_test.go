package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/presence"
	"github.com/musterhq/muster/bus/worker"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog/memlog"
	"github.com/musterhq/muster/eventlog/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const within = 20 * time.Second

// muster is the part of Muster that workers meet, on a real server.
type muster struct {
	t    *testing.T
	log  *memlog.Log
	set  *command.Set
	p    *presence.Presence
	l    *presence.Listener
	nc   *nats.Conn
	beat time.Duration
}

func up(t *testing.T, srv *natstest.Server, log *memlog.Log, blobs *memlog.Blobs, beat time.Duration) *muster {
	t.Helper()
	m := &muster{t: t, log: log, beat: beat}
	judge := domain.NewJudge(lifecycle.Registry())
	var err error
	if m.set, err = command.NewSet(command.Config{Log: log, Judge: judge}); err != nil {
		t.Fatal(err)
	}
	for p := range log.Partitions() {
		if _, err := m.set.Open(t.Context(), p, nil); err != nil {
			t.Fatal(err)
		}
	}
	if m.nc, err = srv.Connect(); err != nil {
		t.Fatal(err)
	}
	m.p, err = presence.New(presence.Config{
		Fleet: m.set, Machines: judge.Machines(), Partitions: log.Partitions(), Blobs: blobs,
		Beat: beat, RecoverAfter: 2 * beat, Hearing: m.nc.IsConnected,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.l, err = presence.Listen(m.nc, m.p); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *muster) down() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := errors.Join(m.l.Close(ctx), m.p.Stop(ctx), m.set.Close(ctx)); err != nil {
		m.t.Fatal(err)
	}
	m.nc.Close()
}

// is waits until a worker is in a state.
func (m *muster) is(name string, want presence.State) {
	m.t.Helper()
	m.until(fmt.Sprintf("%s is %s", name, want), func() bool {
		for _, w := range m.p.Workers() {
			if w.Name == name {
				return w.State == want
			}
		}
		return false
	})
}

func (m *muster) until(what string, ok func() bool) {
	m.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	bound := time.NewTimer(within)
	defer bound.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-bound.C:
			m.t.Fatalf("not within %v: %s; workers: %+v", within, what, m.p.Workers())
		}
	}
}

// state is an account's state and whether nobody vouches for it.
func (m *muster) state(id domain.AccountID) string {
	m.t.Helper()
	a, err := m.set.Account(m.t.Context(), id)
	if err != nil || a == nil {
		m.t.Fatal(a, err)
	}
	out := a.State
	for _, c := range a.Conditions {
		out += " " + c.Name
	}
	return out
}

func (m *muster) adopt(source string, id domain.AccountID) {
	m.t.Helper()
	a := m.set.Do(m.t.Context(), domain.Trigger{
		Account: id, Name: "adopt", Source: source, Expect: domain.NoExpect, Data: domain.Data{"state": "RUNNING"},
	})
	if a.Err != nil || a.Verdict.Outcome != domain.Applied {
		m.t.Fatalf("%+v", a)
	}
}

func dial(t *testing.T, srv *natstest.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(srv.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func begin(t *testing.T, nc *nats.Conn, cfg worker.Config) *worker.Worker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	w, err := worker.Start(ctx, nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func end(t *testing.T, w *worker.Worker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := w.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestHelloBeatsGoodbye(t *testing.T) {
	srv := natstest.Run(t, natstest.Listen)
	m := up(t, srv, memlog.New(1), new(memlog.Blobs), 50*time.Millisecond)
	defer m.down()
	w := begin(t, dial(t, srv), worker.Config{Name: "waha 1/é"})
	if w.Beat() != m.beat || w.Boot() == "" || w.Name() != "waha 1/é" {
		t.Fatalf("%s, run %q, beats every %v", w.Name(), w.Boot(), w.Beat())
	}
	m.is("waha 1/é", presence.Live)
	m.adopt("waha 1/é", "acct")
	first := m.p.Workers()[0].Seen
	m.until("it is heard for longer than it may be silent", func() bool {
		got := m.p.Workers()[0]
		return got.State == presence.Live && got.Boot == w.Boot() && got.Seen.Sub(first) > 3*m.beat
	})
	end(t, w)
	m.is("waha 1/é", presence.Left)
	m.until("its account is recovered", func() bool { s := m.state("acct"); return s != "RUNNING" && strings.HasSuffix(s, " unvouched") })
}

// A worker that was silent for too long is told, when it is heard again, that
// it was taken for dead.
func TestAWorkerIsToldThatItWasTakenForDead(t *testing.T) {
	srv := natstest.Run(t, natstest.Listen)
	proxy := natstest.NewProxy(t, srv)
	m := up(t, srv, memlog.New(1), new(memlog.Blobs), 50*time.Millisecond)
	defer m.down()
	nc, err := nats.Connect(proxy.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	told := make(chan struct{}, 8)
	w := begin(t, nc, worker.Config{Name: "w1", Lapsed: func(context.Context) { told <- struct{}{} }})
	defer end(t, w)
	m.adopt("w1", "acct")
	proxy.Cut()
	m.is("w1", presence.Lapsed)
	m.until("its account may not send", func() bool { return strings.Contains(m.state("acct"), "unvouched") })
	m.is("w1", presence.Live)
	select {
	case <-told:
	case <-time.After(within):
		t.Fatal("it is not told")
	}
	m.until("it may send", func() bool { return !strings.Contains(m.state("acct"), "unvouched") })
}

// A beat is answered only when the worker must know something.
func TestABeatIsAnsweredWhenThereIsNews(t *testing.T) {
	srv := natstest.Run(t, natstest.Listen)
	m := up(t, srv, memlog.New(1), new(memlog.Blobs), 50*time.Millisecond)
	defer m.down()
	nc := dial(t, srv)
	inbox, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	beat := func() {
		t.Helper()
		if err := nc.PublishRequest(bus.BeatSubject("w"), inbox.Subject, []byte(`{"worker":"w","boot":"a"}`)); err != nil {
			t.Fatal(err)
		}
	}
	beat()
	m.is("w", presence.Live)
	m.is("w", presence.Lapsed)
	beat()
	answer, err := inbox.NextMsg(within)
	if err != nil || string(answer.Data) != `{"beat_ms":50,"lapsed":true}` {
		t.Fatalf("%v %s", err, answer.Data)
	}
	if n, _, err := inbox.Pending(); err != nil || n != 0 {
		t.Fatalf("%d more answers, %v", n, err)
	}
}

// Muster goes and comes back with other beats; the worker stays who it was.
func TestMusterComesBackWithOtherBeats(t *testing.T) {
	srv := natstest.Run(t, natstest.Listen)
	log, blobs := memlog.New(1), new(memlog.Blobs)
	m := up(t, srv, log, blobs, 400*time.Millisecond)
	var lapses atomic.Int32
	w := begin(t, dial(t, srv), worker.Config{Name: "w1", Lapsed: func(context.Context) { lapses.Add(1) }})
	m.adopt("w1", "acct")
	m.down()
	m = up(t, srv, log, blobs, 900*time.Millisecond)
	defer func() {
		end(t, w)
		m.down()
	}()
	m.is("w1", presence.Live)
	if got := m.p.Workers()[0].Every; got != 400*time.Millisecond {
		t.Fatalf("it beats every %v: the server does not believe what it promises", got)
	}
	if err := srv.Restart(); err != nil { // a connection that comes back says hello, and is told what is wanted now
		t.Fatal(err)
	}
	m.until("it beats as it is told now", func() bool { return w.Beat() == m.beat && m.p.Workers()[0].Every == m.beat })
	if s := m.state("acct"); s != "RUNNING" || lapses.Load() != 0 {
		t.Fatalf("its account is %s, and it was told of %d lapses", s, lapses.Load())
	}
}

func TestAnotherRun(t *testing.T) {
	srv := natstest.Run(t, natstest.Listen)
	m := up(t, srv, memlog.New(1), new(memlog.Blobs), time.Second)
	defer m.down()
	first := begin(t, dial(t, srv), worker.Config{Name: "w1"})
	m.adopt("w1", "acct")
	second := begin(t, dial(t, srv), worker.Config{Name: "w1"})
	m.until("its account is recovered", func() bool { return m.state("acct") == "RECONNECTING" })
	end(t, first) // its goodbye is that of a run which another one has followed
	if got := m.p.Workers()[0]; got.State != presence.Live || got.Boot != second.Boot() {
		t.Fatalf("%+v", got)
	}
	end(t, second)
	m.is("w1", presence.Left)
}

// Start waits for a Muster that is not there yet, as long as it may.
func TestStartWaitsForMuster(t *testing.T) {
	srv := natstest.Run(t, natstest.Listen)
	nc := dial(t, srv)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := worker.Start(ctx, nc, worker.Config{Name: "w1"}); !errors.Is(err, bus.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("without a Muster: %v", err)
	}
	started := make(chan *worker.Worker)
	go func() { started <- begin(t, nc, worker.Config{Name: "w1"}) }()
	m := up(t, srv, memlog.New(1), new(memlog.Blobs), time.Second)
	defer m.down()
	end(t, <-started)
}

func TestWrongNames(t *testing.T) {
	srv := natstest.Run(t, natstest.Listen)
	nc := dial(t, srv)
	for _, cfg := range []worker.Config{{}, {Name: "muster"}, {Name: "a\nb"}, {Name: strings.Repeat("n", 129)}, {Name: "w", Boot: "\xff"}} {
		if _, err := worker.Start(t.Context(), nc, cfg); err == nil {
			t.Errorf("%+v was started", cfg)
		}
	}
}

// What is no word of a worker is answered with what is wrong, and changes nothing.
func TestBadWords(t *testing.T) {
	srv := natstest.Run(t, natstest.Listen)
	m := up(t, srv, memlog.New(1), new(memlog.Blobs), time.Second)
	defer m.down()
	nc := dial(t, srv)
	for _, c := range []struct{ subject, body, want string }{
		{bus.HelloSubject("w"), ``, "not a JSON object"},
		{bus.HelloSubject("w"), `[]`, "not a JSON object"},
		{bus.HelloSubject("w"), `{"worker":"w","boot":"a"} {}`, "more behind"},
		{bus.HelloSubject("w"), `{"worker":"w"}`, "boot is missing"},
		{bus.HelloSubject("w"), `{"boot":"a"}`, "worker is missing"},
		{bus.HelloSubject("w"), `{"worker":"v","boot":"a"}`, "another worker"},
		{bus.HelloSubject("muster"), `{"worker":"muster","boot":"a"}`, "Muster's own"},
		{bus.BeatSubject("w"), `{"worker":"w","boot":"a","every_ms":-1}`, "not negative"},
		{"muster.worker.sing.w", `{"worker":"w","boot":"a"}`, "hello, beat or goodbye"},
	} {
		answer, err := nc.Request(c.subject, []byte(c.body), within)
		if err != nil {
			t.Fatalf("%s %s: %v", c.subject, c.body, err)
		}
		if err := bus.ErrorOf(answer); !errors.Is(err, bus.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q in it", c.subject, c.body, err, c.want)
		}
	}
	if got := m.p.Workers(); len(got) != 0 {
		t.Errorf("known are %+v", got)
	}
	answer, err := nc.Request(bus.HelloSubject("w"), []byte(`{"worker":"w","boot":"a","new":1}`), within)
	var welcome bus.WorkerWelcome
	if err != nil || json.Unmarshal(answer.Data, &welcome) != nil || welcome.Beat() != time.Second {
		t.Errorf("a newer worker: %v %s", err, answer.Data)
	}
}
