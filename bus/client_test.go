package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/domain"
)

// answerer is a server whose commands a test answers by hand.
func answerer(t *testing.T, answer func(m *nats.Msg)) (*Server, *nats.Conn) {
	t.Helper()
	s := start(t, ServerConfig{Listen: "127.0.0.1:0"})
	nc := dial(t, ConnectConfig{URL: s.URL(), Name: "answers"})
	if _, err := nc.Subscribe(CommandSubjects, answer); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(within); err != nil {
		t.Fatal(err)
	}
	return s, dial(t, ConnectConfig{URL: s.URL(), Name: "asks", NoBuffer: true})
}

// say answers a request, and reports when that fails.
func say(t *testing.T, m, answer *nats.Msg) {
	if err := m.RespondMsg(answer); err != nil {
		t.Errorf("respond: %v", err)
	}
}

func verdict(account string, version uint64) *nats.Msg {
	r := Reply{Verdict: domain.Verdict{Account: domain.AccountID(account), Trigger: "start", Outcome: domain.Applied, Version: version}}
	return &nats.Msg{Data: r.AppendMsgpack(nil)}
}

func trigger(account, id string) domain.Trigger {
	return domain.Trigger{Account: domain.AccountID(account), ID: id, Name: "start", Expect: domain.NoExpect}
}

func TestSendTriesAgainOnlyWhenItIsSafe(t *testing.T) {
	overloaded := &Error{Code: 503, Title: "overloaded", Retryable: true}
	unknown := &Error{Code: 504, Title: "outcome unknown", Retryable: true, Unknown: true}
	damaged := &Error{Code: 423, Title: "damaged"}
	tests := map[string]struct {
		id     string
		first  *Error // the answer to the first attempts; nil: none comes
		sent   int    // how often it is sent in all, when the third attempt is answered
		target error  // nil: it gets its verdict
	}{
		"overloaded":                {"", overloaded, 3, nil},
		"overloaded, with id":       {"i", overloaded, 3, nil},
		"unknown outcome":           {"", unknown, 1, ErrRetryable},
		"unknown outcome, with id":  {"i", unknown, 3, nil},
		"damaged, with id":          {"i", damaged, 1, ErrDamaged},
		"no answer comes":           {"", nil, 1, ErrUnreachable},
		"no answer comes, with id":  {"i", nil, 3, nil},
		"an answer of another kind": {"i", &Error{Code: 400, Title: "invalid request"}, 1, ErrInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := make(chan string, 10)
			_, nc := answerer(t, func(m *nats.Msg) {
				sent <- string(m.Data)
				switch {
				case len(sent) == 3:
					say(t, m, verdict("a", 1))
				case tt.first != nil:
					say(t, m, tt.first.Message())
				}
			})
			c := NewClient(nc, ClientConfig{Timeout: 100 * time.Millisecond, Backoff: time.Millisecond, Tries: 5})
			r, err := c.Send(t.Context(), trigger("a", tt.id))
			if tt.target == nil && (err != nil || r.Version != 1) {
				t.Errorf("got %+v, %v", r, err)
			}
			if tt.target != nil && !errors.Is(err, tt.target) {
				t.Errorf("got %v, want %v", err, tt.target)
			}
			if len(sent) != tt.sent {
				t.Errorf("sent %d times, want %d", len(sent), tt.sent)
			}
			first := <-sent
			for len(sent) > 0 {
				if again := <-sent; again != first {
					t.Errorf("%q was sent, then %q", first, again)
				}
			}
		})
	}
}

func TestSendGivesUp(t *testing.T) {
	sent := make(chan struct{}, 10)
	_, nc := answerer(t, func(m *nats.Msg) {
		sent <- struct{}{}
		say(t, m, (&Error{Code: 503, Title: "overloaded", Detail: "the queue is full", Retryable: true}).Message())
	})
	c := NewClient(nc, ClientConfig{Backoff: time.Millisecond, Tries: 3})
	_, err := c.Send(t.Context(), trigger("a", "i"))
	var e *Error
	if !errors.As(err, &e) || e.Code != 503 || !strings.Contains(err.Error(), "overloaded: the queue is full") || len(sent) != 3 {
		t.Errorf("got %v after %d attempts", err, len(sent))
	}
}

func TestSendUnreachable(t *testing.T) {
	s := start(t, ServerConfig{Listen: "127.0.0.1:0"})
	c := NewClient(dial(t, ConnectConfig{URL: s.URL()}), ClientConfig{Backoff: time.Millisecond, Tries: 2})
	if _, err := c.Send(t.Context(), trigger("a", "")); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "muster.cmd.a") {
		t.Errorf("nobody listens: %v", err)
	}
	if err := c.Query(t.Context(), "stats", nil, nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("query: %v", err)
	}

	// The connection is lost, and nothing is kept to be sent later.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	gone, err := StartServer(t.Context(), ServerConfig{Dir: t.TempDir(), Listen: addr})
	if err != nil {
		t.Fatal(err)
	}
	nc := dial(t, ConnectConfig{URL: gone.URL(), NoBuffer: true})
	status := nc.StatusChanged(nats.RECONNECTING)
	shutdown(t, gone)
	await(t, status, nats.RECONNECTING)
	c = NewClient(nc, ClientConfig{Backoff: time.Millisecond, Tries: 2, Timeout: within})
	if _, err := c.Send(t.Context(), trigger("a", "")); !errors.Is(err, ErrUnreachable) {
		t.Errorf("lost connection: %v", err)
	}
}

func TestSendObeysItsContext(t *testing.T) {
	sent := make(chan struct{}, 1)
	_, nc := answerer(t, func(*nats.Msg) { sent <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-sent
		cancel()
	}()
	_, err := NewClient(nc, ClientConfig{Timeout: within}).Send(ctx, trigger("a", "i"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestSendTooLarge(t *testing.T) {
	_, nc := answerer(t, func(m *nats.Msg) { t.Error("it was sent") })
	big := trigger("a", "i")
	big.Reason.Text = strings.Repeat("x", 2<<20)
	_, err := NewClient(nc, ClientConfig{}).Send(t.Context(), big)
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("got %v", err)
	}
}

func TestQuery(t *testing.T) {
	s, nc := answerer(t, func(*nats.Msg) {})
	answers := dial(t, ConnectConfig{URL: s.URL()})
	tries := 0
	if _, err := answers.Subscribe("muster.q.>", func(m *nats.Msg) {
		tries++
		switch {
		case m.Subject == "muster.q.missing":
			say(t, m, (&Error{Code: 404, Title: "not found"}).Message())
		case tries < 3:
			say(t, m, (&Error{Code: 503, Title: "not in time", Retryable: true}).Message())
		default:
			say(t, m, &nats.Msg{Data: []byte(`{"echo":` + string(m.Data) + `}`)})
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := answers.FlushTimeout(within); err != nil {
		t.Fatal(err)
	}
	c := NewClient(nc, ClientConfig{Backoff: time.Millisecond})
	var got struct{ Echo map[string]int }
	if err := c.Query(t.Context(), "echo", map[string]int{"n": 7}, &got); err != nil || got.Echo["n"] != 7 || tries != 3 {
		t.Errorf("got %+v, %v after %d tries", got, err, tries)
	}
	if err := c.Query(t.Context(), "missing", nil, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if err := c.Query(t.Context(), "echo", nil, &struct{ Echo string }{}); err != nil {
		t.Errorf("null: %v", err)
	}
}

func TestErrorOfForeignServices(t *testing.T) {
	m := nats.NewMsg("x")
	m.Header.Set("Nats-Service-Error-Code", "429")
	m.Header.Set("Nats-Service-Error", "slow down")
	if err := ErrorOf(m); !errors.Is(err, ErrRetryable) || !strings.Contains(err.Error(), "slow down") {
		t.Errorf("got %v", err)
	}
	if err := ErrorOf(nats.NewMsg("x")); err != nil {
		t.Errorf("no headers: %v", err)
	}
}

// TestSendManyKeepsOrder: accounts run side by side, each of them in order,
// and results come in input order.
func TestSendManyKeepsOrder(t *testing.T) {
	const accounts, each = 7, 40
	var mu sync.Mutex
	got := map[string][]string{}
	var wg sync.WaitGroup
	defer wg.Wait()
	_, nc := answerer(t, func(m *nats.Msg) {
		account := LastToken(m.Subject)
		mu.Lock()
		got[account] = append(got[account], string(m.Data))
		version := uint64(len(got[account]))
		mu.Unlock()
		wg.Go(func() { // out of order among accounts
			say(t, m, verdict(account, version))
		})
	})
	c := NewClient(nc, ClientConfig{})
	input := func(yield func(domain.Trigger) bool) {
		for i := range accounts * each {
			if !yield(trigger(fmt.Sprintf("a%d", i%accounts), fmt.Sprintf("%03d", i))) {
				return
			}
		}
	}
	next := 0
	err := c.SendMany(t.Context(), input, 16, func(s Sent) bool {
		if s.Index != next || s.Trigger.ID != fmt.Sprintf("%03d", next) {
			t.Errorf("result %d is number %d, id %s", next, s.Index, s.Trigger.ID)
		}
		if s.Err != nil || s.Reply.Version != uint64(next/accounts+1) {
			t.Errorf("result %d: %+v, %v", next, s.Reply, s.Err)
		}
		next++
		return true
	})
	if err != nil || next != accounts*each {
		t.Errorf("%d results, %v", next, err)
	}
	for a, bodies := range got {
		if len(bodies) != each || !slices.IsSorted(bodies) { // ids grow, and stand in front
			t.Errorf("account %s got %d, in order: %v", a, len(bodies), slices.IsSorted(bodies))
		}
	}
}

func TestSendManyStops(t *testing.T) {
	_, nc := answerer(t, func(m *nats.Msg) { say(t, m, verdict(LastToken(m.Subject), 1)) })
	c := NewClient(nc, ClientConfig{})
	endless := func(yield func(domain.Trigger) bool) {
		for i := 0; yield(trigger(fmt.Sprintf("a%d", i), "")); i++ {
		}
	}
	reported := 0
	err := c.SendMany(t.Context(), endless, 1, func(s Sent) bool {
		if s.Index != reported {
			t.Errorf("result %d is number %d", reported, s.Index)
		}
		if s.Index >= 3 && !errors.Is(s.Err, ErrNotSent) {
			t.Errorf("number %d was sent after the stop: %v", s.Index, s.Err)
		}
		reported++
		return s.Index < 2
	})
	if err != nil || reported < 3 || reported > 4 {
		t.Errorf("%d results, %v", reported, err)
	}
}

func TestSendManyDoesNotOvertakeAFailure(t *testing.T) {
	_, nc := answerer(t, func(m *nats.Msg) {
		if account := LastToken(m.Subject); account == "good" {
			say(t, m, verdict(account, 1))
			return
		}
		say(t, m, (&Error{Code: 423, Title: "damaged"}).Message())
	})
	c := NewClient(nc, ClientConfig{})
	input := slices.Values([]domain.Trigger{trigger("bad", "1"), trigger("good", "2"), trigger("bad", "3"), trigger("good", "4"), trigger("bad", "5")})
	for _, window := range []int{1, 2, 0} {
		var got []error
		if err := c.SendMany(t.Context(), input, window, func(s Sent) bool {
			got = append(got, s.Err)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if len(got) != 5 || !errors.Is(got[0], ErrDamaged) || got[1] != nil || !errors.Is(got[2], ErrNotSent) || got[3] != nil || !errors.Is(got[4], ErrNotSent) {
			t.Errorf("window %d: %v", window, got)
		}
	}
}

func TestSendManyCancelled(t *testing.T) {
	sent := make(chan struct{}, 100)
	_, nc := answerer(t, func(*nats.Msg) { sent <- struct{}{} }) // never answers
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-sent
		cancel()
	}()
	results := 0
	err := NewClient(nc, ClientConfig{}).SendMany(ctx, slices.Values([]domain.Trigger{trigger("a", "1"), trigger("a", "2"), trigger("b", "3")}), 0, func(s Sent) bool {
		if s.Err == nil {
			t.Errorf("number %d has no error", s.Index)
		}
		results++
		return true
	})
	if !errors.Is(err, context.Canceled) || results == 0 {
		t.Errorf("%d results, %v", results, err)
	}
}

func TestSendRefusesForeignData(t *testing.T) {
	_, nc := answerer(t, func(*nats.Msg) { t.Error("it was sent") })
	bad := trigger("a", "i")
	bad.Data = domain.Data{"x": struct{}{}}
	if _, err := NewClient(nc, ClientConfig{}).Send(t.Context(), bad); err == nil {
		t.Error("no error")
	}
}
