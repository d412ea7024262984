package peer

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"hash"
	"strings"

	"github.com/musterhq/muster/bus/connector"
)

// Why a request is not authentic.
var (
	ErrMissing = errors.New("the proof of the sender is missing")
	ErrWrong   = errors.New("the proof of the sender is wrong")
)

// Same says whether what was given is one of the secrets. How long it takes
// depends on neither.
func Same(secrets []string, given string) bool {
	got := sha256.Sum256([]byte(given))
	found := 0
	for _, secret := range secrets {
		want := sha256.Sum256([]byte(secret))
		found |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return found == 1 && given != ""
}

// Secret checks a secret that was given as it is. The error is [ErrMissing] or
// [ErrWrong].
func Secret(secrets []string, given string) error {
	switch {
	case given == "":
		return ErrMissing
	case !Same(secrets, given):
		return ErrWrong
	default:
		return nil
	}
}

// Bearer checks `Authorization: Bearer <secret>`. The error is [ErrMissing] or
// [ErrWrong].
func Bearer(secrets []string, r *connector.Request) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ErrMissing
	}
	return Secret(secrets, strings.TrimSpace(token))
}

// MAC checks a hex HMAC of the body under one of the secrets. The error is
// [ErrMissing] or [ErrWrong].
func MAC(h func() hash.Hash, secrets []string, given string, body []byte) error {
	if given == "" {
		return ErrMissing
	}
	got, err := hex.DecodeString(given)
	if err != nil {
		return ErrWrong
	}
	found := 0
	for _, secret := range secrets {
		mac := hmac.New(h, []byte(secret))
		mac.Write(body)
		found |= subtle.ConstantTimeCompare(got, mac.Sum(nil))
	}
	if found != 1 {
		return ErrWrong
	}
	return nil
}
