package httpapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/app"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/cmd/internal/httpapi"
	"github.com/musterhq/muster/cmd/internal/httpapi/live"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/memlog"
)

// faulty is a way to the judge that is broken in one way.
type faulty struct{ err error }

func (f faulty) Send(context.Context, domain.Trigger) (bus.Reply, error) { return bus.Reply{}, f.err }

func (f faulty) SendMany(_ context.Context, triggers iter.Seq[domain.Trigger], _ int, each func(bus.Sent) bool) error {
	for t := range triggers {
		each(bus.Sent{Trigger: t, Err: f.err})
	}
	return nil
}

// broken serves an API whose way to the judge gives an error.
func broken(t *testing.T, err error) *bare {
	t.Helper()
	return serveBare(t, httpapi.Config{Sender: faulty{err}})
}

// unjudged wants the problem of a trigger whose way to the judge gives an error.
func unjudged(err error) func(*testing.T, string) {
	return func(t *testing.T, code string) {
		t.Helper()
		broken(t, err).do(http.MethodPost, "/v1/accounts/a/triggers", `{"trigger":"start"}`).problem(t, code)
	}
}

// refusal is an error of the bus as the write path gives it.
func refusal(code int, title string) error {
	return fmt.Errorf("send start: %w", &bus.Error{Code: code, Title: title, Detail: "in words"})
}

// unanswered wants the problem of a question that gives an error.
func unanswered(err error) func(*testing.T, string) {
	return func(t *testing.T, code string) {
		t.Helper()
		b := serveBare(t, httpapi.Config{Queries: []query.Query{{
			Name: api.StatsQuery, Handle: func(context.Context, json.RawMessage) (any, error) { return nil, err },
		}}})
		p := b.do(http.MethodGet, "/v1/stats", "").problem(t, code)
		if strings.Contains(p.Detail, "hidden") {
			t.Errorf("the detail shows what is for the log: %s", p.Detail)
		}
	}
}

// batchLine wants the code in the last line of a batch's answer.
func batchLine(t *testing.T, b *bare, body io.Reader, code string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/triggers", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := b.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := lines(t, got)
	if len(all) == 0 || all[len(all)-1].Code != code {
		t.Errorf("the answer ends with %s, want %s", got, code)
	}
}

// deaf is a log that cannot be followed.
type deaf struct{ *memlog.Log }

func (deaf) Follow(context.Context, int, uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) { yield(eventlog.Record{}, errors.New("broken")) }
}

// streamEnd wants the code of a stream's last event.
func streamEnd(t *testing.T, b *bare, code string) {
	t.Helper()
	c, err := b.subscribe(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.body.Close()
	if got, err := c.end(); err != nil || got != code {
		t.Errorf("the stream ends with %q, %v; want %s", got, err, code)
	}
}

// asked wants the problem of one request to a whole server.
func asked(s *server, method, path, body string, headers ...string) func(*testing.T, string) {
	return func(t *testing.T, code string) {
		t.Helper()
		s.do(method, path, body, headers...).problem(t, code)
	}
}

// starting asks a server before it is ready. Should it have been ready first, the
// next one is tried.
func starting(t *testing.T, code string) {
	t.Helper()
	for range 10 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if a := early(t, addr); a.status != http.StatusOK {
			a.problem(t, code)
			return
		}
	}
	t.Error("ten servers were ready before they could be asked")
}

// early starts a server on an address and returns its first answer.
func early(t *testing.T, addr string) answer {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.HTTP, cfg.NATSListen = t.TempDir(), addr, "127.0.0.1:0"
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	a := app.New(app.Options{Config: cfg, Machines: lifecycle.Registry()})
	go func() { done <- a.Run(ctx) }()
	defer func() {
		stop()
		<-done
	}()
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			continue
		}
		_ = c.Close()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		return ask(t, client, http.MethodGet, "http://"+addr+"/v1/errors", "")
	}
	t.Fatal("the server does not listen")
	return answer{}
}

// closed asks an API that was closed.
func closed(t *testing.T, code string) {
	t.Helper()
	b := serveBare(t, httpapi.Config{})
	if err := b.api.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.do(http.MethodGet, "/v1/errors", "").problem(t, code)
}

// limited makes more requests than a token may.
func limited(s *server, bearer string) func(*testing.T, string) {
	return func(t *testing.T, code string) {
		t.Helper()
		for range 100 {
			if a := s.do(http.MethodGet, "/v1/errors", "", "Authorization", bearer); a.status != http.StatusOK {
				a.problem(t, code)
				return
			}
		}
		t.Error("a hundred requests were answered")
	}
}

// TestEveryCodeIsProduced produces every row of the table of codes. What is a fault
// of the log or of another part is injected; all else comes from a whole server.
func TestEveryCodeIsProduced(t *testing.T) {
	s := shared(t)
	s.sent("acct-1", "start", "qr_received")
	s.trigger("acct-1", `{"trigger":"qr_received","epoch":9}`, http.StatusOK)
	const triggers = "/v1/accounts/acct-1/triggers"
	guarded := start(t, t.TempDir(), func(c *config.Config) { c.User, c.Password, c.TokenRate = "root", "secret", 2 })
	reader := guarded.token("reader")
	large := strings.Repeat("x", 1<<20)
	full, half := io.Pipe()
	defer half.Close()
	producers := map[string]func(t *testing.T, code string){
		"invalid_request":        asked(s, http.MethodGet, "/v1/accounts?limit=0", ""),
		"not_found":              asked(s, http.MethodGet, "/v1/accounts/nobody", ""),
		"no_such_path":           asked(s, http.MethodGet, "/v1/nothing", ""),
		"method_not_allowed":     asked(s, http.MethodDelete, "/v1/accounts", ""),
		"conflict":               asked(s, http.MethodPost, triggers, `{"trigger":"stop","expect":1}`),
		"precondition_failed":    asked(s, http.MethodPost, triggers, `{"trigger":"stop"}`, "If-Match", `"1"`),
		"too_large":              asked(s, http.MethodPost, triggers, `{"trigger":"`+large+`"}`),
		"unsupported_media_type": asked(s, http.MethodPost, triggers, `trigger=start`, "Content-Type", "application/x-www-form-urlencoded"),
		"rejected":               asked(s, http.MethodPost, triggers, `{"trigger":"probe_ok","epoch":9}`),
		"stale":                  asked(s, http.MethodPost, triggers, `{"trigger":"qr_received","epoch":8}`),
		"not_authenticated":      asked(guarded, http.MethodGet, "/v1/accounts", ""),
		"not_allowed":            asked(guarded, http.MethodPost, "/v1/actions", `{}`, "Authorization", reader),
		"too_many_requests":      limited(guarded, reader),
		"starting":               starting,
		"shutting_down":          closed,

		"damaged":         unjudged(refusal(http.StatusLocked, "damaged")),
		"refused_by_log":  unjudged(refusal(http.StatusInternalServerError, "refused by the log")),
		"overloaded":      unjudged(refusal(http.StatusServiceUnavailable, "overloaded")),
		"not_owner":       unjudged(refusal(http.StatusServiceUnavailable, "not the owner")),
		"contended":       unjudged(refusal(http.StatusServiceUnavailable, "contended")),
		"log_failed":      unjudged(refusal(http.StatusServiceUnavailable, "the log has failed")),
		"outcome_unknown": unjudged(refusal(http.StatusGatewayTimeout, "outcome unknown")),
		"no_room":         unjudged(refusal(http.StatusInsufficientStorage, "no room")),
		"unreachable":     unjudged(fmt.Errorf("send start: %w: nobody listens", bus.ErrUnreachable)),
		"not_caught_up":   unanswered(&bus.Error{Code: http.StatusServiceUnavailable, Title: "not caught up", Detail: "in words", Retryable: true}),
		"not_now":         unanswered(&bus.Error{Code: http.StatusServiceUnavailable, Title: "not now", Detail: "in words", Retryable: true}),
		"not_in_time":     unanswered(fmt.Errorf("stats: %w", context.DeadlineExceeded)),
		"internal":        unanswered(errors.New("open /hidden/path: no such file")),

		"too_slow":         func(t *testing.T, _ string) { TestStreamCutsAReaderThatIsTooSlow(t) },
		"too_many_streams": func(t *testing.T, _ string) { TestStreamsAreLimited(t) },
		"stream_failed": func(t *testing.T, code string) {
			streamEnd(t, serveBare(t, httpapi.Config{Live: live.Config{Follow: deaf{memlog.New(1)}}}), code)
		},
		"not_sent": func(t *testing.T, code string) {
			batchLine(t, broken(t, fmt.Errorf("%w: before", bus.ErrNotSent)), strings.NewReader(`{"account":"a","trigger":"start"}`), code)
		},
		"body_incomplete": func(t *testing.T, code string) {
			b := serveBare(t, httpapi.Config{Sender: faulty{}, ReadWait: 50 * time.Millisecond})
			batchLine(t, b, full, code)
		},
	}
	for _, c := range httpapi.Codes() {
		produce := producers[c.Code]
		if produce == nil {
			t.Errorf("nothing produces %s", c.Code)
			continue
		}
		t.Run(c.Code, func(t *testing.T) { produce(t, c.Code) })
		delete(producers, c.Code)
	}
	for code := range producers {
		t.Errorf("%s is not in the table", code)
	}
}

// token makes a token of a role, as the configured user, and returns what goes into
// the Authorization header.
func (s *server) token(role string) string {
	s.t.Helper()
	id, secret, whole := auth.NewSecret()
	req := fmt.Sprintf(`{"id":%q,"hash":%q,"role":%q,"by":"root"}`, id, auth.HashOf(secret), role)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("root:secret"))
	s.do(http.MethodPost, "/v1/tokens", req, "Authorization", basic).want(s.t, http.StatusOK)
	return "Bearer " + whole
}
