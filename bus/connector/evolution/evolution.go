package evolution

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// Kind is the connector's name.
const Kind = "evolution"

// Connector is the knowledge of Evolution API. The zero value is ready.
type Connector struct{}

var (
	_ connector.Connector = Connector{}
	_ connector.Tailer    = Connector{}
)

// New returns the connector.
func New() Connector { return Connector{} }

// Kind is evolution.
func (Connector) Kind() string { return Kind }

// Methods is POST.
func (Connector) Methods() []string { return []string{http.MethodPost} }

// Tail says that a segment is the name of an event: the server appends it when
// the webhook is set to one path per event.
func (Connector) Tail(segment string) bool {
	name := eventName(segment)
	_, known := events[name]
	return known || quiet[name]
}

// eventName is how names of events are compared: CONNECTION_UPDATE,
// connection-update and connection.update are one.
func eventName(s string) string {
	return strings.NewReplacer("_", ".", "-", ".").Replace(strings.ToLower(s))
}

// Read takes one event. Any JSON object is one; its data may be a list.
func (Connector) Read(_ context.Context, s *connector.Source, _ connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	body, err := payload.Parse(r.Body)
	if err != nil {
		return nil, err
	}
	told, _ := body.Text("event")
	instance, _ := body.Text("instance")
	e := event{body: body, name: eventName(told), instance: instance, at: happened(body["date_time"], s.UTCOffset, r.At)}
	account, ok := peer.Account(s, instance)
	e.account = account
	switch read, known := events[e.name]; {
	case !ok:
		return one(e.unmapped("event without an instance", told))
	case known:
		return e.each(read), nil
	case quiet[e.name]:
		return one(connector.Ignore())
	default:
		return one(e.unmapped("event", told))
	}
}

func one(d connector.Delivery) ([]connector.Delivery, error) { return []connector.Delivery{d}, nil }

// happened is the time of an event, unix ns. The server writes its local time and
// a Z behind it; a time that names another zone is taken at its word.
func happened(v any, offset time.Duration, arrival int64) int64 {
	if at, ok := payload.Unix(v); ok {
		return at
	}
	text, _ := v.(string)
	at, ok := payload.RFC3339(text)
	switch {
	case !ok:
		return arrival
	case strings.HasSuffix(text, "Z") || strings.HasSuffix(text, "z"):
		return at - int64(offset)
	default:
		return at
	}
}

// event is one webhook, or one unit of it when its data is a list.
type event struct {
	body     payload.Object
	name     string // as eventName writes it
	instance string
	account  domain.AccountID
	at       int64 // unix ns
	data     payload.Object
	raw      any // data as it came
}

// each reads the data of the event, or each element of a list of them.
func (e event) each(read func(*event) connector.Delivery) []connector.Delivery {
	list, ok := e.body.List("data")
	if !ok {
		list = []any{e.body["data"]}
	}
	var out []connector.Delivery
	for _, v := range list {
		unit := e
		unit.raw = v
		unit.data, _ = v.(map[string]any)
		out = append(out, read(&unit))
	}
	return out
}

// id names the event by what it says, so that it is the same through the webhook
// of the instance and through the global one.
func (e *event) id() string { return peer.Hash(e.name, e.instance, e.body["date_time"], e.raw) }

// fact is a delivery of this event; the rule gets a trigger of the event's time.
func (e *event) fact(id string, rule func(a *domain.Account, t domain.Trigger) []domain.Trigger) connector.Delivery {
	t := peer.At(e.at)
	return peer.Fact(e.account, id, func(a *domain.Account) []domain.Trigger { return rule(a, t) })
}

func (e *event) unmapped(what, name string) connector.Delivery {
	sample := e.body.Pick("event", "instance", "date_time")
	for name, v := range e.data.Pick("state", "status", "statusReason", "disconnectionReasonCode", "statusCode") {
		sample["data."+name] = v
	}
	return peer.Unmapped(what, name, sample)
}
