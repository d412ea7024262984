package wuzapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"net/url"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// Kind is the connector's name.
const Kind = "wuzapi"

// Connector is the knowledge of wuzapi. The zero value is ready.
type Connector struct{}

var _ connector.Connector = Connector{}

// New returns the connector.
func New() Connector { return Connector{} }

// Kind is wuzapi.
func (Connector) Kind() string { return Kind }

// Methods is POST.
func (Connector) Methods() []string { return []string{http.MethodPost} }

// Authentic wants an HMAC-SHA256 of the body, as it was sent, under one of the
// source's secrets.
func (Connector) Authentic(s *connector.Source, r *connector.Request) error {
	if r.Header.Get(signature) == "" {
		return peer.ErrMissing
	}
	if _, ok := signer(s, r); !ok {
		return peer.ErrWrong
	}
	return nil
}

const signature = "X-Hmac-Signature"

// signer is the secret with which the request was signed.
func signer(s *connector.Source, r *connector.Request) (secret string, ok bool) {
	return payload.Signed(sha256.New, s.Secrets, r.Body, r.Header.Get(signature))
}

// Read takes one event, as JSON or as a form.
func (Connector) Read(_ context.Context, s *connector.Source, _ connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	body, names, err := open(r)
	if err != nil {
		return nil, err
	}
	e := &event{body: body, arrival: r.At, kind: peer.ID(body, "type")}
	e.data, _ = body.Object("event")
	secret, _ := signer(s, r)
	account, ok := peer.Account(s, native(names, secret))
	e.account = account
	switch read, known := events[e.kind]; {
	case !ok:
		return []connector.Delivery{e.unmapped("event without an account", e.kind)}, nil
	case known:
		return read(e), nil
	case quiet[e.kind]:
		return []connector.Delivery{connector.Ignore()}, nil
	default:
		return []connector.Delivery{e.unmapped("event", e.kind)}, nil
	}
}

var (
	errForm   = errors.New("the body is not a form")
	errNoData = errors.New("the form has no field jsonData")
	errData   = errors.New("the field jsonData is not a JSON object")
)

// open takes a body apart: the event, and the names of the account, which stand
// beside it in a form and within it in JSON.
func open(r *connector.Request) (event, names payload.Object, err error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" {
		event, err = payload.Parse(r.Body)
		return event, event, err
	}
	form, err := url.ParseQuery(string(r.Body))
	if err != nil {
		return nil, nil, errForm
	}
	if form.Get("jsonData") == "" {
		return nil, nil, errNoData
	}
	event, err = payload.Parse([]byte(form.Get("jsonData")))
	if err != nil {
		return nil, nil, errData
	}
	names = payload.Object{}
	for _, name := range []string{"userID", "instanceName", "token"} {
		names[name] = event[name]
		if v := form.Get(name); v != "" {
			names[name] = v
		}
	}
	return event, names, nil
}

// native is the id of the account at its server.
func native(names payload.Object, secret string) string {
	for _, name := range []string{"userID", "instanceName"} {
		if id := peer.ID(names, name); id != "" {
			return id
		}
	}
	token, ok := names.Code("token")
	if !ok {
		return ""
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(token))
	return "t-" + hex.EncodeToString(mac.Sum(nil))[:12]
}

// event is one webhook.
type event struct {
	body    payload.Object
	data    payload.Object // body's event, nil when it is no object
	kind    string
	account domain.AccountID
	arrival int64 // unix ns
}

func (e *event) unmapped(what, name string) connector.Delivery {
	return peer.Unmapped(what, name, e.body.Pick("type", "state", "userID", "instanceName"))
}
