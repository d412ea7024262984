package alert

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/musterhq/muster/bus"
)

// Secret is a key with which alerts are signed: whsec_ and base64. It never
// shows itself in a log, an error or JSON.
type Secret struct{ text string }

const secretPrefix = "whsec_"

// The bounds of a key, in bytes, as the specification has them.
const (
	minSecret = 24
	maxSecret = 64
)

// ErrSecret is wrapped by the error about a text that is no secret; the error
// does not quote it.
var ErrSecret = errors.New("not a secret")

// ParseSecret reads a secret.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return Secret{}, fmt.Errorf("%w: it must begin with %s, followed by base64 of %d to %d random bytes", ErrSecret, secretPrefix, minSecret, maxSecret)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Secret{}, fmt.Errorf("%w: what follows %s is not base64 with its padding", ErrSecret, secretPrefix)
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, fmt.Errorf("%w: what follows %s is base64 of %d bytes; %d to %d are possible", ErrSecret, secretPrefix, len(key), minSecret, maxSecret)
	}
	return Secret{text}, nil
}

// String hides the secret.
func (Secret) String() string { return "(secret)" }

// GoString hides the secret.
func (Secret) GoString() string { return "(secret)" }

// MarshalText hides the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// Endpoint is somebody who is told.
type Endpoint struct {
	Name string
	URL  string // https, or http to this machine
	// Secrets are the keys that the receiver may know: one, or two while one
	// replaces the other. Every alert is signed with each.
	Secrets  []Secret
	Kinds    []string          // of attention; empty = all
	Labels   map[string]string // only accounts that have all of these
	Min      int               // only incidents of at least so many accounts; 0 or 1 = single accounts, too
	Insecure bool              // http to another machine is accepted
}

// Check says what is wrong with an endpoint, in one sentence.
func (e *Endpoint) Check() error {
	if e.Name == "" || strings.ContainsAny(e.Name, " \t\n/|") || len(e.Name) > 64 {
		return fmt.Errorf("its name is %q; give one of up to 64 letters, without blanks, / and |", e.Name)
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return errors.New("its url is not one; write it like https://host/path")
	case u.Scheme == "http" && !e.Insecure && !bus.Loopback(u.Hostname()):
		return errors.New("its url is http to another machine, where anybody on the way can read it; use https, or say insecure: true")
	case len(e.Secrets) == 0:
		return errors.New("it has no secret; give one with secret, secret_file or secret_env")
	case len(e.Secrets) > 2:
		return fmt.Errorf("it has %d secrets; two are the most: the old one and the new one", len(e.Secrets))
	case e.Min < 0:
		return fmt.Errorf("min is %d; it is a number of accounts", e.Min)
	}
	return nil
}

// wants says whether the endpoint is told of a need.
func (e *Endpoint) wants(i *item) bool {
	if len(e.Kinds) > 0 && !slices.Contains(e.Kinds, i.Kind) {
		return false
	}
	for k, v := range e.Labels {
		if got, ok := i.Labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// few is how many accounts are told one by one.
const few = 3

// incidentFrom is how many accounts make an incident for the endpoint.
func (e *Endpoint) incidentFrom() int {
	if e.Min > 1 {
		return e.Min
	}
	return few + 1
}

// host names the endpoint's machine for people; a path or query may hold a key.
func (e *Endpoint) host() string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
