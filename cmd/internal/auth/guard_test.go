package auth

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

// handler answers with who has come in.
var handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	var large *http.MaxBytesError
	if _, err := io.Copy(io.Discard, r.Body); errors.As(err, &large) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	_, _ = io.WriteString(w, From(r.Context()).Name)
})

// call makes a request by hand, so that any header may be bad.
func call(g *Guard, need Role, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/x", strings.NewReader("12345678"))
	change(r)
	w := httptest.NewRecorder()
	g.Need(need, handler).ServeHTTP(w, r)
	return w
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func TestGuard(t *testing.T) {
	r := newRig(t, Config{User: "muster", Password: "s3cret"}, nil)
	r.everybody(t)
	r.token(t, "gone", Token{Role: Admin})
	if _, err := r.tokens.Revoke(t.Context(), r.ids["gone"][0]); err != nil {
		t.Fatal(err)
	}
	g := NewGuard(r.tokens, GuardConfig{Body: 8})
	basic := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	for name, tt := range map[string]struct {
		need   Role
		change func(*http.Request)
		code   int
		said   string // the name, or the problem's code
	}{
		"nobody":              {Any, func(*http.Request) {}, 401, "not_authenticated"},
		"reader reads":        {Reader, bearer(r.whole("reader")), 200, "reader"},
		"lower-case scheme":   {Reader, func(q *http.Request) { q.Header.Set("Authorization", "bearer "+r.whole("reader")) }, 200, "reader"},
		"reader writes":       {Operator, bearer(r.whole("reader")), 403, "not_allowed"},
		"operator writes":     {Operator, bearer(r.whole("operator")), 200, "operator"},
		"operator, admin's":   {Admin, bearer(r.whole("operator")), 403, "not_allowed"},
		"connector":           {Connector, bearer(r.whole("connector")), 200, "connector"},
		"connector reads":     {Reader, bearer(r.whole("connector")), 403, "not_allowed"},
		"a need unheard of":   {"x", bearer(r.whole("operator")), 403, "not_allowed"},
		"revoked":             {Any, bearer(r.whole("gone")), 401, "not_authenticated"},
		"half a token":        {Any, bearer(r.whole("admin")[:40]), 401, "not_authenticated"},
		"an empty token":      {Any, bearer(""), 401, "not_authenticated"},
		"password":            {Admin, basic("muster", "s3cret"), 200, "muster"},
		"wrong password":      {Any, basic("muster", "x"), 401, "not_authenticated"},
		"no password":         {Any, basic("muster", ""), 401, "not_authenticated"},
		"id and secret":       {Reader, basic(r.ids["reader"][0], r.ids["reader"][1]), 200, "reader"},
		"another scheme":      {Any, func(q *http.Request) { q.Header.Set("Authorization", "Digest x") }, 401, "not_authenticated"},
		"a page of elsewhere": {Reader, func(q *http.Request) { bearer(r.whole("reader"))(q); q.Header.Set("Sec-Fetch-Site", "cross-site") }, 403, "not_allowed"},
		"too large": {Reader, func(q *http.Request) {
			bearer(r.whole("reader"))(q)
			q.Body = io.NopCloser(strings.NewReader("123456789"))
		}, 413, ""},
	} {
		w := call(g, tt.need, tt.change)
		said := w.Body.String()
		var p problem
		if w.Code == 401 || w.Code == 403 {
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: no problem: %v, %s", name, err, said)
			}
			said = p.Code
		}
		if w.Code != tt.code || said != tt.said {
			t.Errorf("%s: %d %q, want %d %q", name, w.Code, said, tt.code, tt.said)
		}
		if (w.Code == 401) != (len(w.Header().Values("WWW-Authenticate")) > 0) {
			t.Errorf("%s: WWW-Authenticate is %q", name, w.Header().Values("WWW-Authenticate"))
		}
	}
}

// TestOpenGuard: without a password and a token, whoever is on this machine may do
// everything, and a page that was led here by a name of its own nothing.
func TestOpenGuard(t *testing.T) {
	r := newRig(t, Config{}, nil)
	g := NewGuard(r.tokens, GuardConfig{})
	host := func(h string) func(*http.Request) { return func(q *http.Request) { q.Host = h } }
	for h, code := range map[string]int{
		"127.0.0.1:8080": 200, "localhost:8080": 200, "[::1]:8080": 200, "127.0.0.1": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:8080": 403, "": 403, "10.0.0.1:8080": 403,
	} {
		if w := call(g, Admin, host(h)); w.Code != code {
			t.Errorf("host %q: %d, want %d: %s", h, w.Code, code, w.Body)
		}
	}
	closed := New(Config{Closed: true})
	defer closed.Close()
	if err := closed.Load(t.Context(), r.inside, 1, 2); err != nil {
		t.Fatal(err)
	}
	if w := call(NewGuard(closed, GuardConfig{}), Any, func(*http.Request) {}); w.Code != 401 {
		t.Errorf("a server that others reach, nobody: %d, want 401", w.Code)
	}
}

func TestGuardBeforeTheTokensAreKnown(t *testing.T) {
	tokens := New(Config{User: "muster", Password: "s3cret"})
	defer tokens.Close()
	w := call(NewGuard(tokens, GuardConfig{}), Any, func(r *http.Request) { r.SetBasicAuth("muster", "s3cret") })
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q; want 503 and 1", w.Code, w.Header().Get("Retry-After"))
	}
}

// TestRate: a token that asks too much is told to wait, and others are not.
func TestRate(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	r := newRig(t, Config{Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }}, nil)
	r.everybody(t)
	r.token(t, "fast", Token{Role: Reader, Rate: 5})
	g := NewGuard(r.tokens, GuardConfig{Rate: 2})
	many := func(name string, n int) (ok int) {
		for range n {
			switch w := call(g, Any, bearer(r.whole(name))); w.Code {
			case 200:
				ok++
			case 429:
				if w.Header().Get("Retry-After") != "1" {
					t.Errorf("Retry-After is %q, want 1", w.Header().Get("Retry-After"))
				}
			default:
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		return ok
	}
	if got := many("reader", 20); got != 4 { // two seconds of 2
		t.Errorf("%d of 20 requests at once, want 4", got)
	}
	if got := many("operator", 3); got != 3 {
		t.Errorf("%d of another's 3, want 3", got)
	}
	if got := many("fast", 20); got != 10 {
		t.Errorf("%d of 20 with a rate of its own, want 10", got)
	}
	mu.Lock()
	now = now.Add(time.Second)
	mu.Unlock()
	if got := many("reader", 20); got != 2 {
		t.Errorf("%d of 20 a second later, want 2", got)
	}
}

// TestBusRate: over the bus a token and a source keep to a rate each, which is not
// that of HTTP.
func TestBusRate(t *testing.T) {
	now := time.Now()
	r := newRig(t, Config{Now: func() time.Time { return now }}, nil)
	r.everybody(t)
	r.token(t, "fast", Token{Role: Connector, Sources: []string{"fast-1"}, Rate: 5})
	g := NewGuard(r.tokens, GuardConfig{BusRate: 2})
	many := func(s bus.Speaker, tr domain.Trigger) (ok int) {
		t.Helper()
		for range 20 {
			var e *bus.Error
			switch _, err := g.MayTell(s, &tr); {
			case err == nil:
				ok++
			case !errors.As(err, &e) || e.Code != http.StatusTooManyRequests || !e.Retryable:
				t.Fatal(err)
			}
		}
		return ok
	}
	for name, tt := range map[string]struct {
		s    bus.Speaker
		t    domain.Trigger
		want int // two seconds' worth of 20 at once
	}{
		"a token":                 {bus.Speaker{Token: r.ids["operator"][0]}, domain.Trigger{Name: "start"}, 4},
		"a token with its own":    {bus.Speaker{Token: r.ids["fast"][0]}, domain.Trigger{Name: "start", Source: "fast-1"}, 10},
		"a source":                {bus.Speaker{Source: "waha-1"}, domain.Trigger{Name: "start", Source: "waha-1"}, 4},
		"a source, by its token":  {bus.Speaker{Source: "fast-1"}, domain.Trigger{Name: "start", Source: "fast-1"}, 10},
		"a source without tokens": {bus.Speaker{Source: "other"}, domain.Trigger{Name: "start", Source: "other"}, 4},
	} {
		if got := many(tt.s, tt.t); got != tt.want {
			t.Errorf("%s: %d of 20 at once, want %d", name, got, tt.want)
		}
	}
	if w := call(g, Any, bearer(r.whole("operator"))); w.Code != 200 {
		t.Errorf("the same token over HTTP: %d, want 200", w.Code)
	}
	free := NewGuard(r.tokens, GuardConfig{})
	for range 1000 {
		if _, err := free.MayTell(bus.Speaker{Source: "waha-1"}, &domain.Trigger{Name: "start", Source: "waha-1"}); err != nil {
			t.Fatalf("without a bound: %v", err)
		}
	}
	if _, err := r.tokens.Revoke(t.Context(), r.ids["operator"][0]); err != nil {
		t.Fatal(err)
	}
	if _, err := free.OnBus(r.ids["operator"][0]); !errors.Is(err, bus.ErrNotAllowed) {
		t.Errorf("a revoked token's name: %v, want ErrNotAllowed", err)
	}
	if i, err := NewGuard(r.tokens, GuardConfig{Foreign: true}).OnBus("somebody"); err != nil || i.Name != "somebody" {
		t.Errorf("a name on somebody else's server: %+v, %v", i, err)
	}
}
