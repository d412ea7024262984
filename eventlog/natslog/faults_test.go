package natslog_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natstest"
)

// place is a server or a cluster on which each outcome is tried.
type place struct {
	name     string
	servers  []*natstest.Server
	replicas int
	wipe     func(testing.TB, *nats.Conn)
}

// places starts one server, and a cluster of three.
func places(t *testing.T) []place {
	t.Helper()
	one := natstest.Run(t, natstest.Listen)
	three := natstest.RunCluster(t)
	return []place{
		{"one server", []*natstest.Server{one}, 1, one.Wipe},
		{"three servers", three.Servers, 3, three.Wipe},
	}
}

// connect makes a connection for the length of a test.
func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// trial is one log on one place, behind a proxy, with a second connection
// that sees what really happened.
type trial struct {
	place
	log   *natslog.Log
	proxy *natstest.Proxy
	nc    *nats.Conn // past the proxy
	seq   uint64     // of account a's first record
}

func (x *trial) one(ctx context.Context, e eventlog.Entry) eventlog.Result {
	return x.log.Append(ctx, 0, []eventlog.Entry{e})[0]
}

// stored counts what the partition really holds, past the proxy.
func (x *trial) stored(t *testing.T) int {
	t.Helper()
	log := open(t, x.nc, natslog.Config{Partitions: 1, Replicas: x.replicas})
	return len(eventlogtest.MustCollect(t, log.Read(t.Context(), 0, 0)))
}

// update changes the stream's configuration.
func (x *trial) update(t *testing.T, change func(*jetstream.StreamConfig)) {
	t.Helper()
	js, err := jetstream.New(x.nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "MUSTER_EV_00")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	change(&cfg)
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// Every row of the outcome table, on one server and on a cluster.
func TestOutcomes(t *testing.T) {
	for _, at := range places(t) {
		for _, c := range []struct {
			name   string
			class  string
			words  string // which the error must hold
			stored int    // records afterwards, with the one of the beginning
			do     func(*testing.T, *trial) eventlog.Result
		}{
			{"ack", "stored", "", 2, func(t *testing.T, x *trial) eventlog.Result {
				return x.one(t.Context(), eventlog.Entry{Account: "a", Expect: x.seq})
			}},
			{"stale guard", "conflict", "last 1", 1, func(t *testing.T, x *trial) eventlog.Result {
				return x.one(t.Context(), eventlog.Entry{Account: "a", Expect: 0})
			}},
			{"guard ahead", "conflict", "", 1, func(t *testing.T, x *trial) eventlog.Result {
				return x.one(t.Context(), eventlog.Entry{Account: "new", Expect: 1})
			}},
			{"lost ack", "unknown", "deadline", 2, func(t *testing.T, x *trial) eventlog.Result {
				x.proxy.Mute(true)
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				return x.one(ctx, eventlog.Entry{Account: "a", Expect: x.seq})
			}},
			{"lost ack without a deadline", "unknown", "no ack within", 2, func(t *testing.T, x *trial) eventlog.Result {
				x.proxy.Mute(true)
				return x.one(t.Context(), eventlog.Entry{Account: "a", Expect: x.seq})
			}},
			{"lost connection", "unknown", "connection was lost", 2, func(t *testing.T, x *trial) eventlog.Result {
				x.proxy.Mute(true)
				go x.cutWhenStored(t, 2)
				return x.one(t.Context(), eventlog.Entry{Account: "a", Expect: x.seq})
			}},
			{"no responders", "unknown", "no responders", 0, func(t *testing.T, x *trial) eventlog.Result {
				x.wipe(t, x.nc)
				return x.one(t.Context(), eventlog.Entry{Account: "a", Expect: x.seq})
			}},
			{"record above the stream's limit", "refused", "message size exceeds maximum allowed", 1, func(t *testing.T, x *trial) eventlog.Result {
				x.update(t, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 })
				return x.one(t.Context(), eventlog.Entry{Account: "a", Expect: x.seq, Data: make([]byte, 2000)})
			}},
			{"stream full", "refused", "maximum bytes exceeded", 1, func(t *testing.T, x *trial) eventlog.Result {
				x.update(t, func(c *jetstream.StreamConfig) { c.MaxBytes = 1000 })
				return x.one(t.Context(), eventlog.Entry{Account: "a", Expect: x.seq, Data: make([]byte, 2000)})
			}},
			{"stream sealed", "refused", "sealed", 1, func(t *testing.T, x *trial) eventlog.Result {
				x.update(t, func(c *jetstream.StreamConfig) { c.Sealed = true })
				return x.one(t.Context(), eventlog.Entry{Account: "a", Expect: x.seq})
			}},
			{"payload above the server's limit", "refused", "maximum payload exceeded", 1, func(t *testing.T, x *trial) eventlog.Result {
				return x.one(t.Context(), eventlog.Entry{Account: "a", Expect: x.seq, Data: make([]byte, 2<<20)})
			}},
		} {
			t.Run(at.name+"/"+c.name, func(t *testing.T) {
				x := newTrial(t, at)
				r := c.do(t, x)
				if got := eventlogtest.Class(r); got != c.class {
					t.Errorf("%s (%v), want %s", got, r.Err, c.class)
				}
				if r.Err != nil && !strings.Contains(r.Err.Error(), c.words) {
					t.Errorf("%q does not say %q", r.Err, c.words)
				}
				if got := x.stored(t); got != c.stored {
					t.Errorf("%d records are stored, want %d", got, c.stored)
				}
			})
		}
	}
}

func newTrial(t *testing.T, at place) *trial {
	t.Helper()
	x := &trial{place: at, proxy: natstest.NewProxy(t, at.servers[0]), nc: connect(t, at.servers[0].URL())}
	at.wipe(t, x.nc)
	x.log = open(t, connect(t, x.proxy.URL()), natslog.Config{Partitions: 1, Replicas: at.replicas, AckWait: 700 * time.Millisecond})
	x.seq = eventlogtest.Store(t, x.log, "a", 0, "first")
	return x
}

// cutWhenStored cuts the connections once the partition holds n records.
func (x *trial) cutWhenStored(t *testing.T, n uint64) {
	sees, err := natslog.Open(t.Context(), x.nc, natslog.Config{})
	if err != nil {
		t.Error(err)
		return
	}
	defer sees.Close()
	for range sees.Follow(t.Context(), 0, n-1) {
		break
	}
	x.proxy.Cut()
}

// A cluster without a majority cannot say whether it will store a record.
func TestNoMajorityIsUnknown(t *testing.T) {
	c := natstest.RunCluster(t)
	log := open(t, connect(t, c.Servers[0].URL()), natslog.Config{Partitions: 1, Replicas: 3, AckWait: time.Second})
	seq := eventlogtest.Store(t, log, "a", 0, "first")
	c.Servers[1].Stop()
	c.Servers[2].Stop()
	r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: "a", Expect: seq}})[0]
	if got := eventlogtest.Class(r); got != "unknown" {
		t.Errorf("%s (%v), want unknown", got, r.Err)
	}
}

func TestServerWithoutRoomRefuses(t *testing.T) {
	s := natstest.Run(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 })
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1})
	var seq uint64
	for range 4 {
		r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: "a", Expect: seq, Data: make([]byte, 400<<10)}})[0]
		if r.Err != nil {
			if eventlogtest.Class(r) != "refused" || !strings.Contains(r.Err.Error(), "exceeded") && !strings.Contains(r.Err.Error(), "insufficient") {
				t.Errorf("append to a full server: %v", r.Err)
			}
			return
		}
		seq = r.Seq
	}
	t.Error("a server of 1 MiB took 1.6 MB")
}

// Within a group, only what depends on a lost ack is unknown.
func TestStoppedServerMakesAGroupUnknown(t *testing.T) {
	s := natstest.Run(t)
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1})
	s.Stop()
	group := []eventlog.Entry{{Account: "a"}, {Account: ""}, {Account: "a", Expect: eventlog.ExpectPrevious}}
	if got, want := eventlogtest.Classes(log.Append(t.Context(), 0, group)), []string{"unknown", "refused", "unknown"}; !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	awaitAppend(t, log)
}

// awaitAppend appends until the log works again.
func awaitAppend(t *testing.T, log eventlog.Log) {
	t.Helper()
	end := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: "again"}})[0]
		if r.Err == nil {
			return
		}
		if !errors.Is(r.Err, eventlog.ErrUnknown) {
			t.Fatalf("append after the restart: %v", r.Err)
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("no append succeeds: %v", r.Err)
		}
	}
}

func TestLateAckDoesNotReachTheNextGroup(t *testing.T) {
	at := place{"one server", []*natstest.Server{natstest.Run(t, natstest.Listen)}, 1, nil}
	at.wipe = at.servers[0].Wipe
	x := newTrial(t, at)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 50 { // each is sent or not, and its ack comes during the next
		x.one(ctx, eventlog.Entry{Account: "b", Expect: 0, Data: []byte("b")})
		short, stop := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		x.one(short, eventlog.Entry{Account: "c", Expect: 0, Data: []byte("c")})
		stop()
		r := x.one(t.Context(), eventlog.Entry{Account: "a", Expect: x.seq, Data: bytes.Repeat([]byte("a"), i+1)})
		if r.Err != nil {
			t.Fatalf("append %d: %v", i, r.Err)
		}
		if got, err := x.log.Last(t.Context(), "a"); err != nil || got.Seq != r.Seq || len(got.Data) != i+1 {
			t.Fatalf("append %d got the result %d, the log holds %d (%d bytes), %v", i, r.Seq, got.Seq, len(got.Data), err)
		}
		x.seq = r.Seq
	}
}
