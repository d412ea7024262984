package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

// Prefix is how every token begins: mst_<id>_<secret>.
const Prefix = "mst_"

// ErrInvalid is wrapped by the error about a token that cannot be made.
var ErrInvalid = errors.New("not a token")

// Token is what is kept of a token. The secret is not: Hash is its SHA-256.
type Token struct {
	ID      string    `json:"id"`
	Hash    string    `json:"hash"` // hexadecimal
	Role    Role      `json:"role"`
	Sources []string  `json:"sources,omitempty"` // of a Connector
	Name    string    `json:"name,omitempty"`    // for people
	Rate    int       `json:"rate,omitempty"`    // requests per second, over HTTP and over NATS each; 0 = the server's default
	Created time.Time `json:"created"`
	By      string    `json:"by"` // who made it
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
}

// idBytes and secretBytes are the random bytes of a token's two parts.
const (
	idBytes     = 10
	secretBytes = 32
)

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewSecret makes the two parts of a new token, and the whole of it.
func NewSecret() (id, secret, whole string) {
	b := make([]byte, idBytes+secretBytes)
	_, _ = rand.Read(b) // never fails, by its contract
	id, secret = idEncoding.EncodeToString(b[:idBytes]), hex.EncodeToString(b[idBytes:])
	return id, secret, Prefix + id + "_" + secret
}

// Split takes a token apart; ok is false for what does not look like one.
func Split(whole string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(whole, Prefix)
	if !ok {
		return "", "", false
	}
	id, secret, ok = strings.Cut(rest, "_")
	return id, secret, ok && plainID(id) && secret != ""
}

// plainID says whether an id is one that NewSecret makes: it becomes a key of the
// bucket and a part of subjects.
func plainID(id string) bool {
	b, err := idEncoding.DecodeString(id)
	return err == nil && len(b) == idBytes
}

// HashOf is what is kept of a secret. The secret is 32 random bytes, so a fast
// hash is no weaker than a slow one.
func HashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Live says whether a token can be used at a time.
func (t *Token) Live(now time.Time) bool {
	return t.Revoked.IsZero() && (t.Expires.IsZero() || now.Before(t.Expires))
}

// matches compares in a time that does not depend on where the two differ.
func (t *Token) matches(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(HashOf(secret)), []byte(t.Hash)) == 1
}

func (t *Token) identity() *Identity {
	name := t.Name
	if name == "" {
		name = "token " + t.ID
	}
	return &Identity{Token: t.ID, Name: name, Role: t.Role, Sources: t.Sources, Rate: t.Rate}
}

// mostSources and mostName bound a token's record; the sources become subjects
// of every connection.
const (
	mostSources = 64
	mostName    = 128
	mostRate    = 1_000_000
)

// check is nil for a token that may be kept.
func (t *Token) check(now time.Time) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
	if _, err := ParseRole(string(t.Role)); err != nil {
		return fault("%w", err)
	}
	sum, err := hex.DecodeString(t.Hash)
	switch {
	case !plainID(t.ID):
		return fault("the id %q is not one of %d bytes in base 32", t.ID, idBytes)
	case err != nil || len(sum) != sha256.Size:
		return fault("the hash is not a SHA-256 in hexadecimal")
	case t.Role == Connector && len(t.Sources) == 0:
		return fault("a connector needs the sources that it speaks for")
	case t.Role != Connector && len(t.Sources) > 0:
		return fault("only a connector has sources; the role is %s", t.Role)
	case len(t.Sources) > mostSources:
		return fault("it has %d sources; %d are the most", len(t.Sources), mostSources)
	case len(t.Name) > mostName || !utf8.ValidString(t.Name) || strings.ContainsFunc(t.Name, unicode.IsControl):
		return fault("the name is text of at most %d bytes without control characters", mostName)
	case t.Rate < 0 || t.Rate > mostRate:
		return fault("rate is %d; from 0 (the server's default) to %d are possible", t.Rate, mostRate)
	case !t.Expires.IsZero() && !t.Expires.After(now):
		return fault("it would have expired at %s already", t.Expires.UTC().Format(time.RFC3339))
	case t.By == "":
		return fault("by is empty; say who makes it")
	}
	for _, s := range t.Sources {
		if _, err := domain.ParseAccountID(s); err != nil || s == "muster" {
			return fault("%q is no source's name: text of 1 to 128 bytes without control characters, not \"muster\"", s)
		}
	}
	return nil
}

// View is a token as it is shown: without its hash.
func View(t *Token, now time.Time) api.Token {
	v := api.Token{
		ID: t.ID, Role: string(t.Role), Sources: t.Sources, Name: t.Name, Rate: t.Rate, By: t.By, Created: text(t.Created),
		Expires: text(t.Expires), Revoked: text(t.Revoked), Status: "live",
	}
	switch {
	case !t.Revoked.IsZero():
		v.Status = "revoked"
	case !t.Live(now):
		v.Status = "expired"
	}
	return v
}

func text(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return domain.FormatTime(at.UnixNano())
}
