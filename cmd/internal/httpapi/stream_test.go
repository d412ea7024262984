package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/musterhq/muster/cmd/internal/httpapi"
	"github.com/musterhq/muster/cmd/internal/httpapi/live"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/memlog"
)

// event is one server-sent event.
type event struct {
	id, name, data string
}

// subscriber is one client of the stream.
type subscriber struct {
	body io.Closer
	in   *bufio.Reader
	id   string // the last one that was got
}

// subscribe opens the stream; the connection is its own.
func (s *server) subscribe(ctx context.Context, query, lastID string) (*subscriber, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/stream?"+query, nil)
	if err != nil {
		return nil, err
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		return nil, errors.Join(fmt.Errorf("status %d: %s", resp.StatusCode, body), resp.Body.Close())
	}
	return &subscriber{body: resp.Body, in: bufio.NewReaderSize(resp.Body, 4096)}, nil
}

// next reads what comes next: an event, or one without a name that only moves the
// id.
func (c *subscriber) next() (e event, err error) {
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "":
			if e.id != "" {
				c.id = e.id
				return e, nil
			}
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		}
	}
}

// follow reads events of one account until its version is reached, and wants each
// version once, in order.
func (c *subscriber) follow(account string, from, to uint64) error {
	for from < to {
		e, err := c.next()
		if err == nil && e.name != "" {
			from, err = e.after(account, from)
		}
		if err != nil {
			return fmt.Errorf("after version %d: %w", from, err)
		}
	}
	return nil
}

// after is the account's version with this event, which must be the one that
// follows on from.
func (e *event) after(account string, from uint64) (uint64, error) {
	var got struct {
		Account string
		Version uint64
	}
	if e.name != "event" || json.Unmarshal([]byte(e.data), &got) != nil {
		return from, fmt.Errorf("%+v is no event", *e)
	}
	switch {
	case got.Account != account:
		return from, nil
	case got.Version != from+1:
		return from, fmt.Errorf("version %d follows %d", got.Version, from)
	}
	return got.Version, nil
}

// toTheEnd reads on to the last event, with the same care as follow, and returns
// the version that was reached and the code of the end.
func (c *subscriber) toTheEnd(account string, from uint64) (version uint64, code string, err error) {
	for {
		e, err := c.next()
		if err != nil {
			return from, "", fmt.Errorf("after version %d: %w", from, err)
		}
		if e.name == "end" {
			var why struct{ Code string }
			err := json.Unmarshal([]byte(e.data), &why)
			return from, why.Code, err
		}
		if e.name == "event" {
			if from, err = e.after(account, from); err != nil {
				return from, "", err
			}
		}
	}
}

// end reads on to the last event and returns its code.
func (c *subscriber) end() (string, error) {
	for {
		e, err := c.next()
		if err != nil {
			return "", err
		}
		if e.name == "end" {
			var why struct{ Code string }
			err := json.Unmarshal([]byte(e.data), &why)
			return why.Code, err
		}
	}
}

// count sends triggers about one account, so that its version grows by n.
func (s *server) count(account string, n int) {
	s.t.Helper()
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, `{"account":%q,"trigger":"message_sent","key":"m-%d"}`+"\n", account, i)
	}
	if got := s.batch(body.String()); len(got) != n {
		s.t.Fatalf("%d answers, want %d", len(got), n)
	}
}

// TestStreamToManyOverARestart holds 500 subscribers, one of which reads nothing,
// to what the stream promises: every event once and in order, for all others at
// once, and on from there after a restart of the server without a gap.
func TestStreamToManyOverARestart(t *testing.T) {
	const many, first, second, third = 500, 120, 60, 60
	dir := t.TempDir()
	s := start(t, dir)
	ctx, cancel := context.WithTimeout(context.Background(), 3*within)
	defer cancel()
	s.count("acct-1", 1)
	clients, reached := make([]*subscriber, many), make([]uint64, many)
	subscribe := func(from int) {
		t.Helper()
		for i := from; i < many; i++ {
			id := ""
			if clients[i] != nil {
				id = clients[i].id
			}
			c, err := s.subscribe(ctx, "", id)
			if err != nil {
				t.Fatalf("subscriber %d: %v", i, err)
			}
			t.Cleanup(func() { _ = c.body.Close() })
			clients[i] = c
		}
	}
	all := func(do func(i int, c *subscriber) error) {
		t.Helper()
		var wg sync.WaitGroup
		var failed atomic.Int64
		for i, c := range clients[1:] { // the first is stuck
			wg.Go(func() {
				if err := do(i+1, c); err != nil && failed.Add(1) <= 3 {
					t.Errorf("subscriber %d: %v", i+1, err)
				}
			})
		}
		wg.Wait()
		if n := failed.Load(); n > 0 {
			t.Fatalf("%d of %d subscribers failed", n, many-1)
		}
	}

	subscribe(0)
	s.count("acct-1", first)
	all(func(_ int, c *subscriber) error { return c.follow("acct-1", 1, 1+first) })

	s.count("acct-1", second)
	ended := make(chan struct{})
	go func() { defer close(ended); s.end() }()
	all(func(i int, c *subscriber) error {
		version, code, err := c.toTheEnd("acct-1", 1+first)
		if err == nil && code != "shutting_down" {
			err = fmt.Errorf("the last event says %q", code)
		}
		reached[i] = version
		return err
	})
	<-ended

	s = start(t, dir)
	s.count("acct-1", third) // while nobody is there
	subscribe(1)
	all(func(i int, c *subscriber) error { return c.follow("acct-1", reached[i], 1+first+second+third) })
}

func TestStreamFilters(t *testing.T) {
	s := shared(t)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	asOf := map[string]string{}
	for _, c := range []struct{ account, trigger, source string }{
		{"acct-1", "start", "a"}, {"acct-2", "start", "b"}, {"acct-1", "qr_received", "a"}, {"acct-1", "probe_ok", "a"},
		{"acct-2", "qr_received", "b"}, {"acct-2", "qr_scanned", "b"}, {"acct-3", "connection_lost", "a"},
	} {
		a := s.do(http.MethodPost, "/v1/accounts/"+c.account+"/triggers", fmt.Sprintf(`{"trigger":%q,"source":%q}`, c.trigger, c.source))
		asOf[c.account] = a.header.Get("Muster-As-Of")
	}
	for query, want := range map[string][]string{
		"account=acct-1":                                  {"start", "qr_received", "probe_ok"},
		"account=acct-2":                                  {"start", "qr_received", "qr_scanned"},
		"account=acct-1&outcome=applied":                  {"start", "qr_received"},
		"account=acct-1&outcome=rejected":                 {"probe_ok"},
		"account=acct-2&state=QR_REQUIRED":                {"qr_received"},
		"account=acct-2&trigger=start&trigger=qr_scanned": {"start", "qr_scanned"},
		"account=acct-2&source=b&state=SYNCING":           {"qr_scanned"},
	} {
		c, err := s.subscribe(ctx, query+"&after="+url.QueryEscape("0:0,1:0,2:0,3:0"), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, trigger := range want {
			e, err := c.next()
			for err == nil && e.name == "" {
				e, err = c.next()
			}
			var got struct{ Trigger string }
			if err == nil {
				err = json.Unmarshal([]byte(e.data), &got)
			}
			if err != nil || got.Trigger != trigger {
				t.Fatalf("%s: got %+v, %v; want %s", query, e, err, trigger)
			}
		}
		c.body.Close()
	}
	for _, bad := range []string{"after=x", "after=0:999", "after=7:0", "outcome=lost", "colour=red"} {
		s.do(http.MethodGet, "/v1/stream?"+bad, "").problem(t, "invalid_request")
	}
}

// bare is an API over a log in memory, without a Muster behind it.
type bare struct {
	*server
	api *httpapi.API
	log *memlog.Log
	seq uint64
}

func serveBare(t *testing.T, cfg httpapi.Config) *bare {
	t.Helper()
	b := &bare{log: memlog.New(1)}
	cfg.Live.Log = b.log
	h, err := httpapi.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.api = h
	front := httptest.NewServer(h)
	b.server = &server{t: t, url: front.URL, http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
		b.http.CloseIdleConnections()
		front.Close()
		_ = b.log.Close()
	})
	return b
}

// write appends events of acct-1, each of some size.
func (b *bare) write(n, size int) {
	b.t.Helper()
	for range n {
		e := domain.Event{
			Version: b.seq + 1, Account: "acct-1", Kind: domain.KindSession, Trigger: "start", Outcome: domain.Noop,
			From: "RUNNING", To: "RUNNING", At: 1, Recorded: 1, Data: domain.Data{"note": strings.Repeat("x", size)},
		}
		data, err := codec.Encode(&e)
		if err != nil {
			b.t.Fatal(err)
		}
		r := b.log.Append(context.Background(), 0, []eventlog.Entry{{Account: "acct-1", Expect: b.seq, Data: data}})
		if r[0].Err != nil {
			b.t.Fatal(r[0].Err)
		}
		b.seq = r[0].Seq
	}
}

// TestStreamCutsAReaderThatIsTooSlow lets a reader lag behind by more than is kept:
// it is told so, and goes on from its last event without a gap.
func TestStreamCutsAReaderThatIsTooSlow(t *testing.T) {
	b := serveBare(t, httpapi.Config{Live: live.Config{Keep: 64}, WriteWait: within})
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	slow, err := b.subscribe(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer slow.body.Close()
	quick, err := b.subscribe(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer quick.body.Close()
	const events = 1000 // 16 MB: more than the buffers between the two ends take
	for sent := uint64(0); sent < events; sent += 20 {
		b.write(20, 16<<10)
		if err := quick.follow("acct-1", sent, sent+20); err != nil {
			t.Fatalf("the quick one: %v", err)
		}
	}
	code, err := slow.end()
	if err != nil || code != "too_slow" {
		t.Fatalf("the slow reader's last event: %q, %v", code, err)
	}
	var got uint64
	if _, err := fmt.Sscanf(slow.id, "0:%d", &got); err != nil || got == 0 || got >= events {
		t.Fatalf("the slow reader ends at %q", slow.id)
	}
	again, err := b.subscribe(ctx, "", slow.id)
	if err != nil {
		t.Fatal(err)
	}
	defer again.body.Close()
	if err := again.follow("acct-1", got, events); err != nil {
		t.Error(err)
	}
}

// TestStreamCutsAReaderThatReadsNothing gives up a connection that takes nothing.
func TestStreamCutsAReaderThatReadsNothing(t *testing.T) {
	b := serveBare(t, httpapi.Config{WriteWait: 100 * time.Millisecond})
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	stuck, err := b.subscribe(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.body.Close()
	b.write(1000, 16<<10)
	for b.api.Streams() > 0 {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the stuck reader is still there")
		}
	}
	if _, err := stuck.end(); err == nil {
		t.Error("a connection that was given up ends well")
	}
}

// TestStreamKeepsAQuietReaderUpToDate filters everything out: signs of life come,
// and with them a position, so that coming back is cheap.
func TestStreamKeepsAQuietReaderUpToDate(t *testing.T) {
	b := serveBare(t, httpapi.Config{KeepAlive: 20 * time.Millisecond})
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c, err := b.subscribe(ctx, "account=nobody", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.body.Close()
	b.write(5, 1)
	for c.id != "0:5" {
		if e, err := c.next(); err != nil || e.name != "" {
			t.Fatalf("got %+v, %v", e, err)
		}
	}
}

func TestStreamsAreLimited(t *testing.T) {
	b := serveBare(t, httpapi.Config{Live: live.Config{Readers: 1}})
	c, err := b.subscribe(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.body.Close()
	b.do(http.MethodGet, "/v1/stream", "").problem(t, "too_many_streams")
}
