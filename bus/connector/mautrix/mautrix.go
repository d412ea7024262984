package mautrix

import (
	"context"
	"net/http"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// Kind is the connector's name.
const Kind = "mautrix"

// Connector reads bridge states.
type Connector struct{}

var _ connector.Connector = Connector{}

// New returns the connector.
func New() Connector { return Connector{} }

// Kind is "mautrix".
func (Connector) Kind() string { return Kind }

// Methods is POST alone.
func (Connector) Methods() []string { return []string{http.MethodPost} }

// Authentic checks the bridge's token.
func (Connector) Authentic(s *connector.Source, r *connector.Request) error { return peer.Bearer(s, r) }

// Read reads the one state of a body.
func (Connector) Read(_ context.Context, s *connector.Source, _ connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	body, err := payload.Parse(r.Body)
	if err != nil {
		return nil, err
	}
	d := read(s, body)
	d.ID, d.Newest = "state/"+peer.Hash(body), true
	return []connector.Delivery{d}, nil
}

func read(s *connector.Source, body payload.Object) connector.Delivery {
	name := peer.ID(body, "state_event")
	mapping, ofLogin := ofLogins[name]
	interest, ofBridge := ofBridges[name]
	remote := peer.ID(body, "remote_id")
	account, hasAccount := peer.Account(s, remote)
	switch {
	case !ofLogin && !ofBridge:
		return unmapped("state_event", name, body)
	case ofBridge && !interest:
		return connector.Ignore()
	case remote != "" && !hasAccount, remote == "" && ofLogin:
		return unmapped("a state without a login", name, body)
	case remote == "":
		return connector.Delivery{Of: answers, Map: stateOf(body).unreachable}
	case ofBridge:
		return peer.Fact(account, "", stateOf(body).unreachable)
	}
	state := stateOf(body)
	return peer.Fact(account, "", func(a *domain.Account) []domain.Trigger { return mapping(state, a) })
}

func unmapped(what, name string, body payload.Object) connector.Delivery {
	return peer.Unmapped(what, name, body.Pick("state_event", "error", "timestamp", "remote_id", "user_action"))
}

// state is what a mapping reads of a pushed state.
type state struct {
	trigger  domain.Trigger // with time and reason, without a name
	code     string         // the bridge's error
	named    bool           // a name or number says who is logged in
	timelock bool           // new chats are restricted …
	until    int64          // … until then, unix ns; 0 = not known
}

func stateOf(body payload.Object) *state {
	at, _ := payload.Unix(body.At("timestamp"))
	s := &state{trigger: peer.At(at), code: peer.ID(body, "error")}
	text, _ := body.Text("message")
	s.trigger.Reason = peer.Reason(s.code, text)
	for _, path := range [][]string{{"remote_name"}, {"remote_profile", "phone"}, {"remote_profile", "name"}, {"remote_profile", "username"}} {
		s.named = s.named || peer.ID(body, path...) != ""
	}
	lock := body.At("info", "reachout_timelock_until")
	s.until, s.timelock = payload.RFC3339(lock)
	if !s.timelock {
		s.until, s.timelock = payload.Unix(lock)
	}
	return s
}
