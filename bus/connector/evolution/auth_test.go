package evolution_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/evolution"
)

func authentic(t *testing.T, auth, authorization, body string) bool {
	t.Helper()
	s := *source
	s.Auth = auth
	h := http.Header{}
	if authorization != "" {
		h.Set("Authorization", authorization)
	}
	err := evolution.New().Authentic(&s, &connector.Request{Method: http.MethodPost, Header: h, Body: []byte(body), At: noon})
	if err != nil && (strings.Contains(err.Error(), "tok-") || strings.Contains(err.Error(), "eyJ")) {
		t.Errorf("the error quotes the proof: %v", err)
	}
	return err == nil
}

func TestHeaderProof(t *testing.T) {
	for authorization, want := range map[string]bool{
		"Bearer tok": true, "Bearer old": true, "bearer tok": true, "Bearer tok-": false, "Bearer to": false, "Bearer ": false, "Bearer": false, "tok": false, "Basic tok": false, "": false,
	} {
		for _, auth := range []string{"", "header"} {
			if got := authentic(t, auth, authorization, `{"apikey":"tok"}`); got != want {
				t.Errorf("auth %q, %q: %v", auth, authorization, got)
			}
		}
	}
	if authentic(t, "no_such_way", "Bearer tok", "{}") {
		t.Error("a way of proof that does not exist lets everybody in")
	}
}

func TestBodyKeyProof(t *testing.T) {
	for body, want := range map[string]bool{
		`{"apikey":"tok"}`: true, `{"apikey":"old","event":"x"}`: true, `{"apikey":"x","apikey":"tok"}`: true, `{"apikey":"tok","apikey":"x"}`: false,
		`{"apikey":null}`: false, `{}`: false, `{"apikey":""}`: false, `{"apikey":["tok"]}`: false, `{"APIKEY":"tok"}`: false, `{"data":{"apikey":"tok"}}`: false, `{"apikey":"tok"`: false, ``: false,
	} {
		if got := authentic(t, "body_apikey", "Bearer tok", body); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}

func signedToken(t *testing.T, method jwt.SigningMethod, key any, change func(c jwt.MapClaims)) string {
	t.Helper()
	now := time.Unix(0, noon)
	c := jwt.MapClaims{"iat": now.Add(-time.Second).Unix(), "exp": now.Add(10 * time.Minute).Unix(), "app": "evolution", "action": "webhook"}
	if change != nil {
		change(c)
	}
	text, err := jwt.NewWithClaims(method, c).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + text
}

func TestTokenProof(t *testing.T) {
	at := func(d time.Duration) func(c jwt.MapClaims) {
		return func(c jwt.MapClaims) { c["exp"] = time.Unix(0, noon).Add(d).Unix() }
	}
	set := func(name string, v any) func(c jwt.MapClaims) { return func(c jwt.MapClaims) { c[name] = v } }
	drop := func(name string) func(c jwt.MapClaims) { return func(c jwt.MapClaims) { delete(c, name) } }
	hs256 := jwt.SigningMethodHS256
	for name, c := range map[string]struct {
		token string
		good  bool
	}{
		"right":                    {signedToken(t, hs256, []byte("tok"), nil), true},
		"under the old key":        {signedToken(t, hs256, []byte("old"), nil), true},
		"under another key":        {signedToken(t, hs256, []byte("other"), nil), false},
		"under no key":             {signedToken(t, hs256, []byte{}, nil), false},
		"ended 60 s ago":           {signedToken(t, hs256, []byte("tok"), at(-60*time.Second)), true},
		"ended 61 s ago":           {signedToken(t, hs256, []byte("tok"), at(-61*time.Second)), false},
		"without an end":           {signedToken(t, hs256, []byte("tok"), drop("exp")), false},
		"an end that is no number": {signedToken(t, hs256, []byte("tok"), set("exp", "soon")), false},
		"of another app":           {signedToken(t, hs256, []byte("tok"), set("app", "evolution2")), false},
		"without an app":           {signedToken(t, hs256, []byte("tok"), drop("app")), false},
		"for another action":       {signedToken(t, hs256, []byte("tok"), set("action", "login")), false},
		"not signed":               {signedToken(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil), false},
		"HS384":                    {signedToken(t, jwt.SigningMethodHS384, []byte("tok"), nil), false},
		"HS512":                    {signedToken(t, jwt.SigningMethodHS512, []byte("tok"), nil), false},
		"no token":                 {"", false},
		"the key itself":           {"Bearer tok", false},
		"rubbish":                  {"Bearer a.b.c", false},
		"another scheme":           {"Basic " + strings.TrimPrefix(signedToken(t, hs256, []byte("tok"), nil), "Bearer "), false},
		"cut off":                  {strings.TrimSuffix(signedToken(t, hs256, []byte("tok"), nil), "AAAA")[:60], false},
	} {
		if got := authentic(t, "jwt", c.token, `{"apikey":"tok"}`); got != c.good {
			t.Errorf("%s: %v", name, got)
		}
	}
}
