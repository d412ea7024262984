package auth

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/musterhq/muster/bus"
)

// GuardConfig bounds what one caller may ask.
type GuardConfig struct {
	Rate    int   // requests per second of one token over HTTP; 0 = no bound
	BusRate int   // triggers and questions per second of one token, or one source, over NATS; 0 = no bound
	Body    int64 // largest body in bytes; 0 = no bound
	// Foreign: the NATS server is somebody else's. Who may publish in a name is
	// then its business, and such a name is believed.
	Foreign bool
}

// Guard stands before HTTP routes.
type Guard struct {
	tokens *Tokens
	cfg    GuardConfig
	cross  *http.CrossOriginProtection

	mu     sync.Mutex
	limits map[string]*rate.Limiter // by the token's id or the source; at most mostLimits
}

// NewGuard returns a Guard that asks these tokens.
func NewGuard(t *Tokens, cfg GuardConfig) *Guard {
	return &Guard{tokens: t, cfg: cfg, cross: http.NewCrossOriginProtection(), limits: map[string]*rate.Limiter{}}
}

// Need lets a request through to h when it comes from somebody who meets the need
// and has not asked too much. The request's context then carries the Identity.
//
// Else the answer is problem+json: 401 without or with wrong credentials, 403
// with a role that does not do, 429 with Retry-After, 503 until the tokens are
// known. Credentials are "Authorization: Bearer mst_…", or Basic with the
// configured name and password, or with a token's id and secret.
func (g *Guard) Need(need Role, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, err := g.admit(r, need)
		if err != nil {
			Refuse(w, err)
			return
		}
		if g.cfg.Body > 0 {
			r.Body = http.MaxBytesReader(w, r.Body, g.cfg.Body)
		}
		h.ServeHTTP(w, r.WithContext(With(r.Context(), i)))
	})
}

// admit returns who makes the request, or why it is refused.
func (g *Guard) admit(r *http.Request, need Role) (*Identity, *bus.Error) {
	if !g.tokens.ready() {
		return nil, &bus.Error{Code: http.StatusServiceUnavailable, Title: "not ready", Detail: "the server is starting", Retryable: true}
	}
	i, refused := g.identify(r)
	if refused != nil {
		return nil, refused
	}
	if err := g.cross.Check(r); err != nil {
		return nil, &bus.Error{Code: http.StatusForbidden, Title: "cross-origin request", Detail: "a page of another origin has made this request"}
	}
	var e *bus.Error
	if err := Allow(With(context.Background(), i), need); errors.As(err, &e) {
		return nil, e
	}
	return i, g.pace(i)
}

// identify returns who the credentials of a request name.
func (g *Guard) identify(r *http.Request) (*Identity, *bus.Error) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case scheme == "":
		return g.anonymous(r)
	case strings.EqualFold(scheme, "Bearer"):
		if id, secret, ok := Split(strings.TrimSpace(text)); ok {
			if k, ok := g.tokens.find(id, secret); ok {
				return k.identity(), nil
			}
		}
		return nil, unauthorized("the token is not known, has expired, or was revoked")
	default:
		user, password, _ := r.BasicAuth()
		if g.tokens.password(user, password) {
			return &Identity{Name: user, Role: Admin}, nil
		}
		if k, ok := g.tokens.find(user, password); ok {
			return k.identity(), nil
		}
		return nil, unauthorized("name and password are not right")
	}
}

// anonymous is who gives no credentials: an admin where none are asked for. The
// Host must then be this machine's, so that a page in a browser here cannot use a
// name of its own that leads here.
func (g *Guard) anonymous(r *http.Request) (*Identity, *bus.Error) {
	if g.tokens.Required() {
		return nil, unauthorized("give a token: Authorization: Bearer mst_…")
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if !bus.Loopback(strings.Trim(host, "[]")) {
		return nil, &bus.Error{Code: http.StatusForbidden, Title: "not allowed",
			Detail: "without credentials only requests to 127.0.0.1, ::1 or localhost are answered"}
	}
	return &Identity{Name: anonymous, Role: Admin}, nil
}

// burst is how many requests a caller may make at once: those of so many seconds.
const burst = 2

// pace is nil while the caller keeps to its rate over HTTP.
func (g *Guard) pace(i *Identity) *bus.Error {
	most := i.Rate
	if most == 0 {
		most = g.cfg.Rate
	}
	if i.Token == "" {
		return nil
	}
	return g.take(i.Token, most)
}

// mostLimits bounds what is remembered: where nobody is asked for a token, whoever
// comes makes names up. Beyond it all begin anew.
const mostLimits = 1 << 16

// take is nil while somebody stays below so many requests per second; 0 = no bound.
func (g *Guard) take(who string, most int) *bus.Error {
	if most == 0 {
		return nil
	}
	g.mu.Lock()
	l := g.limits[who]
	if l == nil {
		if len(g.limits) >= mostLimits {
			clear(g.limits)
		}
		l = rate.NewLimiter(rate.Limit(most), burst*most)
		g.limits[who] = l
	}
	g.mu.Unlock()
	if l.AllowN(g.tokens.cfg.Now(), 1) {
		return nil
	}
	return &bus.Error{Code: http.StatusTooManyRequests, Title: "too many requests",
		Detail: "no more than " + strconv.Itoa(most) + " requests per second may come in this name", Retryable: true}
}

// problem is an error as RFC 9457 has it, with Muster's code.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
}

// codes are the stable codes of what Refuse tells.
var codes = map[int]string{
	http.StatusUnauthorized:       "not_authenticated",
	http.StatusForbidden:          "not_allowed",
	http.StatusTooManyRequests:    "too_many_requests",
	http.StatusServiceUnavailable: "starting",
}

// retryAfter is how long a caller is told to wait that asked too much or too early.
const retryAfter = time.Second

// Refuse answers a request that is not let through, as problem+json.
func Refuse(w http.ResponseWriter, e *bus.Error) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	switch e.Code {
	case http.StatusUnauthorized:
		h.Add("WWW-Authenticate", `Bearer realm="muster"`)
		h.Add("WWW-Authenticate", `Basic realm="muster"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	w.WriteHeader(e.Code)
	_ = json.NewEncoder(w).Encode(problem{"about:blank", e.Title, e.Code, e.Detail, codes[e.Code]}) // the client may have gone
}
