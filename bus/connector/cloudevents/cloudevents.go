package cloudevents

import (
	"context"
	"net/http"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// Kind is the connector's name.
const Kind = "cloudevents"

// Connector reads CloudEvents.
type Connector struct{ judge *domain.Judge }

var (
	_ connector.Connector = (*Connector)(nil)
	_ connector.Shaker    = (*Connector)(nil)
)

// New returns the connector. The judge says which triggers and machines there
// are.
func New(judge *domain.Judge) *Connector { return &Connector{judge: judge} }

// Kind is "cloudevents".
func (*Connector) Kind() string { return Kind }

// Methods are POST, and OPTIONS for the web hook's handshake.
func (*Connector) Methods() []string { return []string{http.MethodPost, http.MethodOptions} }

// The headers of the web hook's handshake.
const (
	requestOrigin = "WebHook-Request-Origin"
	requestRate   = "WebHook-Request-Rate"
	allowedOrigin = "WebHook-Allowed-Origin"
	allowedRate   = "WebHook-Allowed-Rate"
)

// Shake answers the question whether a sender may deliver here: who knows the
// token may, from anywhere and at any rate.
func (*Connector) Shake(_ *connector.Source, r *connector.Request) (connector.Answer, bool) {
	if r.Method != http.MethodOptions {
		return connector.Answer{}, false
	}
	origin := r.Header.Get(requestOrigin)
	if origin == "" {
		return connector.Answer{Status: http.StatusBadRequest, Body: requestOrigin + " is missing"}, true
	}
	// Names as the specification spells them, which is not Go's way.
	h := http.Header{"Allow": {"POST, OPTIONS"}, allowedOrigin: {origin}}
	if r.Header.Get(requestRate) != "" {
		h[allowedRate] = []string{"*"}
	}
	return connector.Answer{Status: http.StatusOK, Header: h}, true
}

// Authentic checks the sender's token.
func (*Connector) Authentic(s *connector.Source, r *connector.Request) error {
	return peer.Bearer(s, r)
}

// Read reads the events of a request. The error names the event, when there are
// several, and the attribute or field.
func (c *Connector) Read(_ context.Context, _ *connector.Source, _ connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	events, err := read(r.Header, r.Body)
	if err != nil {
		return nil, err
	}
	list := make([]connector.Delivery, 0, len(events))
	for i := range events {
		d, err := c.delivery(&events[i], r.At)
		if err != nil {
			return nil, events[i].fault(err)
		}
		list = append(list, d)
	}
	return list, nil
}

func (c *Connector) delivery(e *event, now int64) (connector.Delivery, error) {
	if err := e.check(); err != nil {
		return connector.Delivery{}, err
	}
	if !e.ours() {
		return peer.Unmapped("type", e.attributes["type"], e.sample()), nil
	}
	t, err := e.trigger()
	if err != nil {
		return connector.Delivery{}, err
	}
	if err := peer.Judgeable(c.judge, &t, now); err != nil {
		return connector.Delivery{}, err
	}
	return peer.Verbatim(&t), nil
}

// sample is what may be kept of an event of another type.
func (e *event) sample() map[string]any {
	kept := map[string]any{}
	for _, name := range []string{"type", "source", "id", "subject", "time"} {
		if v := e.attributes[name]; v != "" {
			kept[name] = payload.Clip(v)
		}
	}
	return kept
}
