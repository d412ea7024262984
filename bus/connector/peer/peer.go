package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/domain"
)

// Why a request is not authentic.
var (
	ErrMissing = errors.New("the proof of the sender is missing")
	ErrWrong   = errors.New("the proof of the sender is wrong")
)

// Secret checks that what was given is one of the source's secrets. The error is
// [ErrMissing] or [ErrWrong].
func Secret(s *connector.Source, given string) error {
	switch {
	case given == "":
		return ErrMissing
	case !payload.Secret(s.Secrets, given):
		return ErrWrong
	default:
		return nil
	}
}

// Bearer checks `Authorization: Bearer <secret>`. The error is [ErrMissing] or
// [ErrWrong].
func Bearer(s *connector.Source, r *connector.Request) error {
	return Secret(s, payload.Bearer(r.Header))
}

// Account is the account of a native id of the source; ok is false when that
// cannot name one.
func Account(s *connector.Source, native string) (id domain.AccountID, ok bool) {
	if native == "" {
		return "", false
	}
	id, err := domain.ParseAccountID(string(s.Account(native)))
	return id, err == nil
}

// Fact is a delivery about one account.
func Fact(account domain.AccountID, id string, triggers func(a *domain.Account) []domain.Trigger) connector.Delivery {
	return connector.Delivery{Accounts: []domain.AccountID{account}, ID: id, Map: triggers}
}

// Unmapped is a delivery that is not known: what it is, the name that it gives
// itself ("" = none), and what may be kept of it.
func Unmapped(what, name string, sample map[string]any) connector.Delivery {
	if name != "" {
		what = fmt.Sprintf("%s %q", what, payload.Clip(name))
	}
	return connector.Delivery{Unmapped: what, Sample: sample}
}

// At returns a trigger that happened at a time, unix ns; 0 or less: the time is
// not known, and the arrival will stand for it.
func At(ns int64) domain.Trigger {
	return domain.Trigger{At: max(ns, 0), HasAt: ns > 0, Expect: domain.NoExpect}
}

// The longest texts that are taken, in bytes. Real ids have less than a hundred.
const (
	maxID     = 512
	maxReason = 300
)

// ID is what names something (a message, a contact, a state): a text, or a
// number as it is written. "" when there is none, or one that is none by its
// length.
func ID(o payload.Object, path ...string) string {
	id, _ := o.Code(path...)
	if len(id) > maxID {
		return ""
	}
	return id
}

// Reason is a reason in the peer's words, each bounded.
func Reason(code, text string) domain.Reason {
	return domain.Reason{Code: bound(code), Text: bound(text)}
}

func bound(s string) string {
	if len(s) <= maxReason {
		return s
	}
	return strings.ToValidUTF8(s[:maxReason], "") + "…"
}

// Hash names what has no name, by its whole content: 32 hex digits, equal for
// equal values in whatever order their fields were written.
func Hash(parts ...any) string {
	b, err := json.Marshal(parts) // sorts the fields of objects
	if err != nil {
		panic("peer: a value that was read from JSON cannot be written: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Judgeable says what is wrong with a trigger that its sender worded: no known
// trigger, no known machine, or anything else for which a new account could not
// be judged. Muster's own decoders have read it before.
func Judgeable(j *domain.Judge, t *domain.Trigger, now int64) error {
	if v := j.Decide(nil, t, now).Verdict; v.Outcome == domain.Invalid {
		return errors.New(v.Reason)
	}
	return nil
}

// Verbatim is a delivery of a trigger that its sender worded.
func Verbatim(t *domain.Trigger) connector.Delivery {
	d := Fact(t.Account, t.ID, func(*domain.Account) []domain.Trigger { return []domain.Trigger{*t} })
	d.Verbatim = true
	return d
}
