package evolution

import (
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
)

// proofs are the ways in which a server proves who it is; the source's Auth
// chooses one.
var proofs = map[string]func(s *connector.Source, r *connector.Request) error{
	"":            peer.Bearer, // the default
	"header":      peer.Bearer,
	"jwt":         token,
	"body_apikey": bodyKey,
}

var errAuth = errors.New("the source's auth is set to something that does not exist; want header, jwt or body_apikey")

// Authentic checks the proof that the source is set to.
func (Connector) Authentic(s *connector.Source, r *connector.Request) error {
	check, known := proofs[s.Auth]
	if !known {
		return errAuth
	}
	return check(s, r)
}

// bodyKey: the global webhook cannot carry headers, but every body carries the
// key of the instance, unless the server hides it.
func bodyKey(s *connector.Source, r *connector.Request) error {
	body, err := payload.Parse(r.Body)
	if err != nil {
		return peer.ErrMissing
	}
	key, _ := body.Text("apikey")
	return peer.Secret(s, key)
}

// claims are what the server puts into a token.
type claims struct {
	App    string `json:"app"`
	Action string `json:"action"`
	jwt.RegisteredClaims
}

// leeway is how long ago a token may have ended: clocks differ. The token's
// instant of end belongs to it, hence the nanosecond.
const leeway = time.Minute + time.Nanosecond

var errToken = errors.New("the token is not one of this server for a webhook, or has expired")

// token: a token that lives for minutes, signed with HS256 and nothing else.
func token(s *connector.Source, r *connector.Request) error {
	text := payload.Bearer(r.Header)
	if text == "" {
		return peer.ErrMissing
	}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(func() time.Time { return time.Unix(0, r.At) }))
	good := false
	for _, secret := range s.Secrets {
		var c claims
		_, err := parser.ParseWithClaims(text, &c, func(*jwt.Token) (any, error) { return []byte(secret), nil })
		good = good || err == nil && secret != "" && c.App == "evolution" && c.Action == "webhook"
	}
	if !good {
		return errToken
	}
	return nil
}
