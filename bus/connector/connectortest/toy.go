package connectortest

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/domain"
)

// Toy is the smallest connector that shows every way through the hub: POST with
// a bearer token and a JSON list of [ToyUnit].
type Toy struct{}

var (
	_ connector.Connector = Toy{}
	_ connector.Shaker    = Toy{}
	_ connector.Tailer    = Toy{}
)

// ToyUnit is one unit of a toy's body. Exactly one of Name, Unknown and Boring
// says what it is.
type ToyUnit struct {
	ID       string   `json:"id"`
	Account  string   `json:"account"`  // native; "*" = all that are up
	Triggers []string `json:"triggers"` // begin and lost go through the rules of all connectors
	Newest   bool     `json:"newest"`
	Unknown  string   `json:"unknown"`
	Boring   bool     `json:"boring"`
}

// Kind is toy.
func (Toy) Kind() string { return "toy" }

// Methods are POST and OPTIONS.
func (Toy) Methods() []string { return []string{http.MethodPost, http.MethodOptions} }

// Tail takes the segment "event".
func (Toy) Tail(segment string) bool { return segment == "event" }

// Shake answers OPTIONS.
func (Toy) Shake(_ *connector.Source, r *connector.Request) (connector.Answer, bool) {
	return connector.Answer{Status: http.StatusOK, Header: http.Header{"Toy": {"yes"}}, Body: "hello"}, r.Method == http.MethodOptions
}

// Authentic compares the bearer token.
func (Toy) Authentic(s *connector.Source, r *connector.Request) error {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, secret := range s.Secrets {
		if subtle.ConstantTimeCompare([]byte(token), []byte(secret)) == 1 {
			return nil
		}
	}
	return errors.New("the token is not the source's")
}

// Read takes the list apart.
func (Toy) Read(_ context.Context, s *connector.Source, _ connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	var units []ToyUnit
	if err := json.Unmarshal(r.Body, &units); err != nil {
		return nil, errors.New("the body is no list of units")
	}
	list := make([]connector.Delivery, len(units))
	for i := range units {
		list[i] = units[i].delivery(s)
	}
	return list, nil
}

func (u *ToyUnit) delivery(s *connector.Source) connector.Delivery {
	switch {
	case u.Boring:
		return connector.Ignore()
	case u.Unknown != "":
		return connector.Delivery{Unmapped: "event " + u.Unknown, Sample: map[string]any{"event": u.Unknown}}
	}
	d := connector.Delivery{ID: u.ID, Newest: u.Newest, Map: u.triggers}
	if u.Account == "*" {
		d.Of = connector.Up
	} else {
		d.Accounts = []domain.AccountID{s.Account(u.Account)}
	}
	return d
}

func (u *ToyUnit) triggers(a *domain.Account) (list []domain.Trigger) {
	for _, name := range u.Triggers {
		switch name {
		case "begin":
			list = append(list, connector.Begin(a, domain.Trigger{})...)
		case "ready":
			list = append(list, connector.Ready(a, domain.Trigger{}, true)...)
		case "known":
			list = append(list, connector.Known(a, domain.Trigger{}, "probe_failed")...)
		default:
			list = append(list, domain.Trigger{Name: name})
		}
	}
	return list
}
