package payload

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"hash"
	"net/http"
	"strings"
)

// Signed says with which of the keys a body was signed: proof is the HMAC in
// hexadecimal digits, small or capital. All keys are tried, whatever fits.
func Signed(h func() hash.Hash, keys []string, body []byte, proof string) (key string, ok bool) {
	given, err := hex.DecodeString(proof)
	if err != nil || len(given) == 0 {
		return "", false
	}
	for _, k := range keys {
		mac := hmac.New(h, []byte(k))
		mac.Write(body)
		if hmac.Equal(given, mac.Sum(nil)) && k != "" {
			key, ok = k, true
		}
	}
	return key, ok
}

// Secret says whether given is one of the secrets. Neither the lengths nor the
// first difference show in the time that it takes.
func Secret(secrets []string, given string) bool {
	sum, found := sha256.Sum256([]byte(given)), 0
	for _, s := range secrets {
		want := sha256.Sum256([]byte(s))
		same := subtle.ConstantTimeCompare(sum[:], want[:])
		if s != "" {
			found |= same
		}
	}
	return found == 1
}

// Bearer is the token of an Authorization header of the scheme Bearer, "" when
// there is none.
func Bearer(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
