package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

// ClientConfig is how a Client behaves; the zero value is good.
type ClientConfig struct {
	JSON    bool          // send JSON instead of msgpack
	Timeout time.Duration // bound of one attempt (default 5 s)
	Tries   int           // attempts in all (default 5)
	Backoff time.Duration // pause before the second attempt, doubled each time (default 50 ms)
	// BySource sends each trigger on the subject of its source, which only who
	// may speak for the source can do; see ConnectorMay.
	BySource bool
	// As sends triggers and asks queries in this name, the id of the token with
	// which the connection was made: so the server knows who has sent them.
	As string
}

// Client sends triggers and asks queries. It may be used from many goroutines.
type Client struct {
	nc  *nats.Conn
	cfg ClientConfig
}

// NewClient returns a client on a connection, which stays the caller's. A
// connection made with ConnectConfig.NoBuffer tells sooner that it is lost.
func NewClient(nc *nats.Conn, cfg ClientConfig) *Client {
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Tries == 0 {
		cfg.Tries = 5
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = 50 * time.Millisecond
	}
	return &Client{nc: nc, cfg: cfg}
}

// Send has one trigger judged and returns its verdict, which is in the log when
// its outcome is one that is appended. An outcome such as rejected or invalid
// is a verdict, not an error.
//
// The error is an [*Error] that the server gave (ErrRetryable, ErrDamaged …), or
// wraps ErrUnreachable, or is ctx's. Send tries again by itself when that is
// safe: after a refusal that says so, when nobody was there, and, for a trigger
// with an id, when no answer came.
func (c *Client) Send(ctx context.Context, t domain.Trigger) (Reply, error) {
	m, err := c.command(&t)
	if err != nil {
		return Reply{}, fmt.Errorf("send %s for %q: %w", t.Name, t.Account, err)
	}
	pause := c.cfg.Backoff
	for try := 1; ; try++ {
		answer, err := c.request(ctx, m)
		if err == nil {
			return ParseReply(answer.Data)
		}
		if try >= c.cfg.Tries || !again(err, t.ID != "") {
			return Reply{}, fmt.Errorf("send %s for %q: %w", t.Name, t.Account, err)
		}
		select {
		case <-ctx.Done():
			return Reply{}, fmt.Errorf("send %s for %q: %w (%w)", t.Name, t.Account, err, context.Cause(ctx))
		case <-time.After(time.Duration(float64(pause) * (0.5 + rand.Float64()))):
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// again says whether the same trigger may be sent once more. Without an id
// that is so only when it certainly was not judged.
func again(err error, hasID bool) bool {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Retryable && (hasID || !e.Unknown)
	case errors.Is(err, errNoAnswer):
		return hasID
	default:
		return errors.Is(err, ErrUnreachable)
	}
}

// errNoAnswer is the ErrUnreachable after which the trigger may have been judged.
var errNoAnswer = errors.New("no answer came in time; it is not known whether it was judged")

// command encodes a trigger as a request. Headers cost a busy server more
// than anything else here, so there are none in the usual case: what is
// msgpack shows in the first byte.
func (c *Client) command(t *domain.Trigger) (*nats.Msg, error) {
	m := nats.Msg{Subject: CommandSubject(string(t.Account))}
	switch {
	case c.cfg.As != "":
		m.Subject = Speaker{Token: c.cfg.As}.Command(string(t.Account))
	case c.cfg.BySource && t.Source != "":
		m.Subject = Speaker{Source: t.Source}.Command(string(t.Account))
	}
	if c.cfg.JSON {
		m.Data = t.AppendJSON(make([]byte, 0, 256))
	} else {
		var err error
		if m.Data, err = codec.AppendTrigger(make([]byte, 0, 256), t); err != nil {
			return nil, err
		}
	}
	for _, h := range [...]struct{ name, value string }{
		{HeaderTraceparent, t.Traceparent}, {HeaderCorrelation, t.Correlation}, {HeaderCausation, t.Causation},
	} {
		if h.value != "" {
			if m.Header == nil {
				m.Header = nats.Header{}
			}
			m.Header[h.name] = []string{h.value}
		}
	}
	return &m, nil
}

// request is one attempt. NATS micro gives an error as an ordinary answer, so
// the headers are looked at before anything else.
func (c *Client) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	bounded, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	look := time.AfterFunc(forbiddenAfter, func() {
		if c.forbidden(m.Subject) {
			cancel()
		}
	})
	defer look.Stop()
	answer, err := c.nc.RequestMsgWithContext(bounded, m)
	switch {
	case err == nil:
		return answer, ErrorOf(answer)
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, context.Cause(ctx)
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w: nobody listens on %s", ErrUnreachable, m.Subject)
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, &Error{
			Code: http.StatusRequestEntityTooLarge, Title: "too large",
			Detail: fmt.Sprintf("the message has %d bytes and the server takes %d at most", len(m.Data), c.nc.MaxPayload()),
		}
	case c.forbidden(m.Subject):
		return nil, &Error{Code: http.StatusForbidden, Title: "not allowed", Detail: "this user may not publish on " + m.Subject}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, errNoAnswer)
	default:
		// Refused by the client library: not connected, closed. Nothing was sent.
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
}

// forbiddenAfter is when an attempt without an answer is looked at: a message that
// was refused gets none, and nobody need wait for it.
const forbiddenAfter = 250 * time.Millisecond

// forbidden says whether the server has refused a message on the subject. It says
// so beside the request, which gets no answer.
func (c *Client) forbidden(subject string) bool {
	err := c.nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), `"`+strings.ToLower(subject)+`"`)
}

// Query asks a query by its name, e.g. "accounts.get", and decodes the answer
// into resp (nil: it is not looked at). Both are JSON. Errors are those of
// Send; a query is tried once, but for one that says it may be tried again.
func (c *Client) Query(ctx context.Context, name string, req, resp any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("query %s: encode: %w", name, err)
	}
	subject := QuerySubject(name)
	if c.cfg.As != "" {
		subject = NamedQuery(c.cfg.As, name)
	}
	pause := c.cfg.Backoff
	for try := 1; ; try++ {
		answer, err := c.request(ctx, &nats.Msg{Subject: subject, Data: body})
		if err == nil {
			if resp == nil {
				return nil
			}
			if err := json.Unmarshal(answer.Data, resp); err != nil {
				return fmt.Errorf("query %s: decode the answer: %w", name, err)
			}
			return nil
		}
		if try >= c.cfg.Tries || !errors.Is(err, ErrRetryable) {
			return fmt.Errorf("query %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("query %s: %w (%w)", name, err, context.Cause(ctx))
		case <-time.After(pause):
		}
		pause = min(2*pause, 2*time.Second)
	}
}
