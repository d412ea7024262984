package waha

import (
	"context"
	"crypto/sha512"
	"errors"
	"net/http"
	"strings"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// Kind is the connector's name.
const Kind = "waha"

// Connector is the knowledge of WAHA. The zero value is ready.
type Connector struct{}

var _ connector.Connector = Connector{}

// New returns the connector.
func New() Connector { return Connector{} }

// Kind is waha.
func (Connector) Kind() string { return Kind }

// Methods is POST.
func (Connector) Methods() []string { return []string{http.MethodPost} }

var errAlgorithm = errors.New("the signature is not said to be of the algorithm sha512")

// Authentic wants an HMAC-SHA512 of the body under one of the source's secrets.
func (Connector) Authentic(s *connector.Source, r *connector.Request) error {
	proof := r.Header.Get("X-Webhook-Hmac")
	if proof == "" {
		return peer.ErrMissing
	}
	if r.Header.Get("X-Webhook-Hmac-Algorithm") != "sha512" {
		return errAlgorithm
	}
	if _, ok := payload.Signed(sha512.New, s.Secrets, r.Body, proof); !ok {
		return peer.ErrWrong
	}
	return nil
}

// Read takes one event. Any JSON object is one.
func (Connector) Read(_ context.Context, s *connector.Source, _ connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	body, err := payload.Parse(r.Body)
	if err != nil {
		return nil, err
	}
	e := &event{body: body, arrival: r.At, request: r.Header.Get("X-Webhook-Request-Id")}
	e.name, _ = body.Text("event")
	e.payload, _ = body.Object("payload")
	session, _ := body.Text("session")
	account, ok := peer.Account(s, session)
	e.account = account
	switch read, known := events[e.name]; {
	case !ok:
		return one(e.unmapped("event without a session", e.name))
	case known:
		return one(read(e))
	case ofNoInterest(e.name):
		return one(connector.Ignore())
	default:
		return one(e.unmapped("event", e.name))
	}
}

func one(d connector.Delivery) ([]connector.Delivery, error) { return []connector.Delivery{d}, nil }

// events says who reads which event.
var events = map[string]func(*event) connector.Delivery{
	"session.status": readStatus,
	"engine.event":   readEngine,
	"message.ack":    readAck,
	"message":        readMessage,
	"message.any":    readMessage,
}

// quiet are events that are known and of no interest; with a dot at the end, all
// that begin so.
var quiet = []string{
	"state.change", "message.reaction", "message.ack.group", "message.waiting", "message.edited", "message.revoked",
	"event.response", "event.response.failed", "group.", "label.", "call.", "presence.", "poll.", "chat.", "contact.",
}

func ofNoInterest(name string) bool {
	for _, q := range quiet {
		if name == q || strings.HasSuffix(q, ".") && strings.HasPrefix(name, q) {
			return true
		}
	}
	return false
}

// event is one webhook.
type event struct {
	body, payload payload.Object
	name          string
	account       domain.AccountID
	arrival       int64  // unix ns
	request       string // id of the request, which a retry repeats
}

// id is the id of the event; older versions have only that of the request.
func (e *event) id() string {
	if id := peer.ID(e.body, "id"); id != "" {
		return id
	}
	if len(e.request) > maxRequestID {
		return ""
	}
	return e.request
}

const maxRequestID = 512

// time is when the event was made, unix ns; when it came, where it does not say.
func (e *event) time() int64 {
	if at, ok := payload.Unix(e.body["timestamp"]); ok {
		return at
	}
	return e.arrival
}

// fact is a delivery of this event; the rule gets a trigger of the event's time.
func (e *event) fact(id string, rule func(a *domain.Account, t domain.Trigger) []domain.Trigger) connector.Delivery {
	t := peer.At(e.time())
	return peer.Fact(e.account, id, func(a *domain.Account) []domain.Trigger { return rule(a, t) })
}

func (e *event) unmapped(what, name string) connector.Delivery {
	sample := e.body.Pick("id", "event", "session", "timestamp", "engine")
	for name, v := range e.payload.Pick("status", "event", "ack") {
		sample["payload."+name] = v
	}
	return peer.Unmapped(what, name, sample)
}
