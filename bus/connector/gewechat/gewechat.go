package gewechat

import (
	"context"
	"net/http"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/bus/connector/wechat"
)

// Kind is the connector's name.
const Kind = "gewechat"

// Connector reads gewechat callbacks.
type Connector struct{}

var _ connector.Connector = Connector{}

// New returns the connector.
func New() Connector { return Connector{} }

// Kind is "gewechat".
func (Connector) Kind() string { return Kind }

// Methods is POST alone.
func (Connector) Methods() []string { return []string{http.MethodPost} }

// Authentic checks the key in the address.
func (Connector) Authentic(s *connector.Source, r *connector.Request) error {
	return wechat.Authentic(s, r)
}

// types are the known values of TypeName; one without a reading is of no interest.
var types = map[string]func(*connector.Source, payload.Object) connector.Delivery{
	"AddMsg":      message,
	"Offline":     offline,
	"ModContacts": nil,
	"DelContacts": nil,
}

// Read reads the one callback of a body.
func (Connector) Read(_ context.Context, s *connector.Source, _ connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	body, err := payload.Parse(r.Body)
	if err != nil {
		return nil, err
	}
	return []connector.Delivery{read(s, body)}, nil
}

func read(s *connector.Source, body payload.Object) connector.Delivery {
	name := peer.ID(body, "TypeName")
	reading, known := types[name]
	switch {
	case known && reading != nil:
		return reading(s, body)
	case known, name == "" && body.Has("testMsg"): // the test post of the set-up
		return connector.Ignore()
	default:
		return unmapped("type", name, body)
	}
}

func unmapped(what, name string, body payload.Object) connector.Delivery {
	return peer.Unmapped(what, name, body.Pick("TypeName", "Appid", "Wxid"))
}

func offline(s *connector.Source, body payload.Object) connector.Delivery {
	account, ok := peer.Account(s, peer.ID(body, "Wxid"))
	if !ok {
		return unmapped("an Offline without an account", "", body)
	}
	return peer.Fact(account, "", wechat.Offline(peer.At(0)))
}

// notices are the values of MsgType that nobody wrote: friend requests,
// suggestions, calls, synced states, system notices, revocations.
var notices = map[int64]bool{37: true, 40: true, 50: true, 51: true, 52: true, 53: true, 9999: true, 10000: true, 10002: true}

func message(s *connector.Source, body payload.Object) connector.Delivery {
	wxid := peer.ID(body, "Wxid")
	account, ok := peer.Account(s, wxid)
	if !ok {
		return unmapped("an AddMsg without an account", "", body)
	}
	m := wechat.Message{ID: peer.ID(body, "Data", "NewMsgId")}
	if m.ID == "" {
		return unmapped("an AddMsg without an id", "", body)
	}
	m.At, _ = payload.Unix(body.At("Data", "CreateTime"))
	kind, _ := body.Int("Data", "MsgType")
	if from := peer.ID(body, "Data", "FromUserName", "string"); from != wxid && wechat.Person(from) && !notices[kind] {
		m.Person = from
	}
	return peer.Fact(account, "msg/"+m.ID, m.Triggers)
}
