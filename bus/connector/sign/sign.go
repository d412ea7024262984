// Package sign makes requests that a connector believes: what each peer adds to a
// request to prove where it comes from.
//
// It is for who plays the peer: `muster connectors test`, measurements, tests.
// Which proof is right is the connector's own; that both agree is tested with
// recorded requests of real form.
package sign

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/musterhq/muster/bus/connector"
)

// tokenLife is how long a made token is good.
const tokenLife = 10 * time.Minute

// Request adds the source's proof, under its first secret, to a request: to its
// header, its query or, where the peer does so, its body. The error names a kind
// that is not known, or a body that cannot carry the proof.
func Request(s *connector.Source, r *connector.Request) error {
	secret := s.Secrets[0]
	switch s.Kind {
	case "waha":
		r.Header.Set("X-Webhook-Hmac-Algorithm", "sha512")
		r.Header.Set("X-Webhook-Hmac", mac(sha512.New, secret, r.Body))
	case "cloud":
		r.Header.Set("X-Hub-Signature-256", "sha256="+mac(sha256.New, secret, r.Body))
	case "wuzapi":
		r.Header.Set("X-Hmac-Signature", mac(sha256.New, secret, r.Body))
	case "gewechat", "eyun":
		r.Query.Set("key", secret)
	case "evolution":
		return evolution(s, r)
	case "mautrix", "cloudevents", "plain":
		r.Header.Set("Authorization", "Bearer "+secret)
	default:
		return fmt.Errorf("it is not known how %q proves where its requests come from", s.Kind)
	}
	return nil
}

func mac(of func() hash.Hash, secret string, body []byte) string {
	h := hmac.New(of, []byte(secret))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

func evolution(s *connector.Source, r *connector.Request) error {
	switch s.Auth {
	case "jwt":
		r.Header.Set("Authorization", "Bearer "+token(s.Secrets[0], time.Unix(0, r.At)))
	case "body_apikey":
		return withKey(r, s.Secrets[0])
	default:
		r.Header.Set("Authorization", "Bearer "+s.Secrets[0])
	}
	return nil
}

// token is a JSON web token as Evolution API makes it.
func token(secret string, now time.Time) string {
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"app":"evolution","action":"webhook"}`, now.Unix(), now.Add(tokenLife).Unix())
	text := head + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// withKey puts the key into the body's object.
func withKey(r *connector.Request, secret string) error {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &body); err != nil || body == nil {
		return errors.New("the key goes into the body, and that is no JSON object")
	}
	key, err := json.Marshal(secret)
	if err != nil {
		return err
	}
	body["apikey"] = key
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(body); err != nil {
		return err
	}
	r.Body = bytes.TrimSpace(out.Bytes())
	return nil
}
