package feed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/feed"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const within = 20 * time.Second

// event is a stored event of an account.
func event(account string, version uint64) *domain.Event {
	at := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC).UnixNano()
	return &domain.Event{
		Version: version, Account: domain.AccountID(account), Kind: domain.KindSession, Trigger: "rate_limited", Outcome: domain.Applied,
		From: "RUNNING", To: "DEGRADED", At: at, Recorded: at + int64(time.Second), Source: "waha-1", Epoch: 3, Seq: 17, By: domain.ByRemote,
		Reason: domain.Reason{Code: "429"}, Data: domain.Data{"until": "2026-01-01T10:05:00Z"},
		Set:   []domain.Condition{{Name: "rate_limited", Since: at, Until: at + int64(5*time.Minute), Reason: "429"}},
		Ended: []domain.ConditionRef{{Name: "restricted", Scope: "groups"}},
	}
}

func record(t testing.TB, account string, version uint64) eventlog.Record {
	t.Helper()
	b, err := codec.Encode(event(account, version))
	if err != nil {
		t.Fatal(err)
	}
	return eventlog.Record{Partition: 2, Seq: 40 + version, Account: account, Data: b}
}

func closeFeed(t testing.TB, f *feed.Feed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := f.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestEventsAreRepublishedAsJSON(t *testing.T) {
	srv := natstest.Run(t)
	nc := srv.Conn(t)
	sub, err := nc.SubscribeSync("muster.feed.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	own, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	f := feed.New(feed.Config{Conn: own})
	f.Offer(2, []eventlog.Record{record(t, "+1555", 1), record(t, "acct-1", 2)})
	f.Offer(2, []eventlog.Record{{Partition: 2, Seq: 43, Account: "acct-1", Data: []byte("?")}})
	closeFeed(t, f)
	for i, want := range []struct{ subject, body string }{
		{"muster.feed.=2B1555", `{"account":"+1555","partition":2,"version":1,"seq":41,"at":"2026-01-01T10:00:00Z","recorded":"2026-01-01T10:00:01Z",` +
			`"trigger":"rate_limited","outcome":"applied","from":"RUNNING","to":"DEGRADED","source":"waha-1","epoch":3,"source_seq":17,"by":"remote",` +
			`"reason_code":"429","data":{"until":"2026-01-01T10:05:00Z"},"set":[{"name":"rate_limited","since":"2026-01-01T10:00:00Z",` +
			`"until":"2026-01-01T10:05:00Z","scope":"","reason":"429"}],"ended":["restricted/groups"]}`},
		{"muster.feed.acct-1", ""},
		{"muster.feed.acct-1", ""},
	} {
		m, err := sub.NextMsg(within)
		if err != nil {
			t.Fatal(i, err)
		}
		if m.Subject != want.subject || want.body != "" && string(m.Data) != want.body {
			t.Errorf("%s %s\nwant %s %s", m.Subject, m.Data, want.subject, want.body)
		}
		var e bus.PlacedEvent
		if err := json.Unmarshal(m.Data, &e); err != nil || e.Seq != uint64(41+i) || e.Partition != 2 || (e.Error != "") != (i == 2) {
			t.Errorf("%v %+v", err, e)
		}
	}
	if s := f.Stats(); s != (feed.Stats{Published: 3}) {
		t.Errorf("%+v", s)
	}
}

// What nobody hears is not encoded; what one account's subscriber hears is its
// account's only.
func TestWhatNobodyHearsIsNotPublished(t *testing.T) {
	srv, err := bus.StartServer(t.Context(), bus.ServerConfig{Dir: t.TempDir(), Sync: bus.SyncInterval})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Shutdown(context.WithoutCancel(t.Context())) }()
	nc, err := srv.Connect("listener")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync(bus.FeedSubject("b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	own, err := srv.Connect("feed")
	if err != nil {
		t.Fatal(err)
	}
	f := feed.New(feed.Config{Conn: own, Interest: srv.Interest})
	f.Offer(0, []eventlog.Record{record(t, "a", 1), record(t, "b", 1), record(t, "c", 1)})
	closeFeed(t, f)
	if m, err := sub.NextMsg(within); err != nil || m.Subject != "muster.feed.b" {
		t.Fatal(m, err)
	}
	if s := f.Stats(); s != (feed.Stats{Published: 1, Unheard: 2}) {
		t.Errorf("%+v", s)
	}
}

// A feed that cannot keep up loses events and counts them; it never waits.
func TestAFullQueueDrops(t *testing.T) {
	srv := natstest.Run(t)
	own, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	hold, entered := make(chan struct{}), make(chan struct{}, 100)
	f := feed.New(feed.Config{
		Conn: own, Queue: 10, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Interest: func(string) bool { entered <- struct{}{}; <-hold; return true },
	})
	batch := []eventlog.Record{record(t, "a", 1), record(t, "a", 2), record(t, "a", 3), record(t, "a", 4)}
	f.Offer(0, batch)
	<-entered             // the first is under way
	f.Offer(0, batch)     // waits: 8 of 10
	f.Offer(0, batch)     // 12: dropped
	f.Offer(0, batch[:2]) // 10 of 10
	f.Offer(0, batch[:1]) // dropped
	close(hold)
	closeFeed(t, f)
	f.Offer(0, batch) // after the end: nothing
	if s := f.Stats(); s != (feed.Stats{Published: 10, Dropped: 5}) {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(log.String(), "dropped events") || !strings.Contains(log.String(), "events=5") {
		t.Errorf("the log says %q", log.String())
	}
}

// A server that does not take anything any more does not hold up the end.
func TestTheEndIsBounded(t *testing.T) {
	srv := natstest.Run(t)
	own, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	hold, entered := make(chan struct{}), make(chan struct{}, 100)
	f := feed.New(feed.Config{Conn: own, Interest: func(string) bool { entered <- struct{}{}; <-hold; return true }})
	f.Offer(0, []eventlog.Record{record(t, "a", 1)})
	<-entered
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("enough"))
	done := make(chan error)
	go func() { done <- f.Close(ctx) }()
	for !own.IsClosed() {
		<-time.After(time.Millisecond)
	}
	close(hold)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "enough") {
		t.Error(err)
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, heard := range []bool{true, false} {
		b.Run(fmt.Sprintf("heard=%v", heard), func(b *testing.B) {
			srv, err := bus.StartServer(b.Context(), bus.ServerConfig{Dir: b.TempDir(), Sync: bus.SyncInterval})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = srv.Shutdown(context.WithoutCancel(b.Context())) }()
			nc, err := srv.Connect("listener")
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			if heard {
				if _, err := nc.Subscribe(bus.FeedSubjects, func(*nats.Msg) {}); err != nil {
					b.Fatal(err)
				}
			}
			own, err := srv.Connect("feed")
			if err != nil {
				b.Fatal(err)
			}
			f := feed.New(feed.Config{Conn: own, Interest: srv.Interest, Queue: 1 << 30})
			batch := make([]eventlog.Record, 100)
			for i := range batch {
				batch[i] = record(b, fmt.Sprintf("acct-%d", i), 1)
			}
			b.ReportAllocs()
			b.ResetTimer()
			n := uint64(0)
			for b.Loop() {
				f.Offer(0, batch)
				for n += 100; f.Stats().Published+f.Stats().Unheard+f.Stats().Dropped < n; {
					<-time.After(10 * time.Microsecond)
				}
			}
			b.StopTimer()
			closeFeed(b, f)
		})
	}
}
