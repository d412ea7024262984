package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// post sends one alert to a handler over real HTTP.
func post(t *testing.T, ctx context.Context, h http.HandlerFunc, change func(*Endpoint)) Result {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	e := Endpoint{Name: "ops", URL: server.URL + "/hook?key=hidden", Secrets: secrets(t, keyA)}
	if change != nil {
		change(&e)
	}
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	s, hang := newHTTPSender("test")
	defer hang()
	return s.Send(ctx, &e, &Delivery{ID: "alert_1", Body: `{"type":"test"}`})
}

func TestEachSecretOfARotationVerifies(t *testing.T) {
	for name, texts := range map[string][]string{"one": {keyA}, "old and new": {keyA, keyB}} {
		for _, key := range texts {
			r := post(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				hook, err := webhooks.NewWebhook(key)
				if err == nil {
					err = hook.Verify(body, r.Header)
				}
				if err != nil {
					t.Errorf("%s: the reference verifier refuses it: %v", name, err)
				}
				if got := len(strings.Fields(r.Header.Get("webhook-signature"))); got != len(texts) {
					t.Errorf("%s: %d signatures, want %d", name, got, len(texts))
				}
				if r.Header.Get("webhook-id") != "alert_1" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("User-Agent") != "Muster/test" {
					t.Errorf("%s: the headers are %v", name, r.Header)
				}
				w.WriteHeader(http.StatusAccepted)
			}, func(e *Endpoint) { e.Secrets = secrets(t, texts...) })
			if r != (Result{Code: 202}) {
				t.Errorf("%s: the result is %+v", name, r)
			}
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	r := post(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hook" {
			t.Error("the redirect was followed")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}, nil)
	if r != (Result{Code: 307, Err: "307 Temporary Redirect"}) {
		t.Errorf("the result is %+v", r)
	}
}

func TestAReceiverAsksForAPause(t *testing.T) {
	r := post(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	}, nil)
	if r.Code != 429 || r.RetryAfter != 2*time.Minute {
		t.Errorf("the result is %+v", r)
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-5": 0, "Thu, 01 Jan 2026 12:10:00 GMT": 10 * time.Minute, "Thu, 01 Jan 2026 11:00:00 GMT": 0, "999999999": 24 * time.Hour,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("Retry-After %q is %v, want %v", text, got, want)
		}
	}
}

func TestAReceiverThatHangsIsLeft(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := post(t, ctx, func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil { // the server notices that the client has gone only behind the body
			t.Error(err)
		}
		cancel(cause)
		<-r.Context().Done()
	}, nil)
	if r.Code != 0 || r.Err != "enough" {
		t.Errorf("the result is %+v", r)
	}
}

func TestNobodyListening(t *testing.T) {
	r := post(t, t.Context(), nil, func(e *Endpoint) { e.URL = "http://127.0.0.1:1/hook?key=hidden" })
	if r.Code != 0 || !strings.Contains(r.Err, "refused") || strings.Contains(r.Err, "hidden") {
		t.Errorf("the result is %+v", r)
	}
}

func TestSecretsAreCheckedAndNeverShown(t *testing.T) {
	for text, want := range map[string]string{
		"":               "begin with whsec_",
		"topsecret":      "begin with whsec_",
		"whsec_%%%%":     "not base64",
		"whsec_c2hvcnQ=": "base64 of 5 bytes",
	} {
		_, err := ParseSecret(text)
		if !errors.Is(err, ErrSecret) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
	s := secrets(t, keyA)[0]
	asJSON, err := json.Marshal(Endpoint{Secrets: []Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v", s, s), fmt.Sprintf("%+v", Endpoint{Secrets: []Secret{s}}), string(asJSON)} {
		if strings.Contains(shown, "MfKQ9r8") {
			t.Errorf("the secret shows: %s", shown)
		}
	}
}

func TestEndpointsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Endpoint)
		want   string // "" = it is good
	}{
		"https":                 {func(*Endpoint) {}, ""},
		"http to this machine":  {func(e *Endpoint) { e.URL = "http://localhost:9000/" }, ""},
		"http elsewhere":        {func(e *Endpoint) { e.URL = "http://ops.example/" }, "insecure: true"},
		"http elsewhere, meant": {func(e *Endpoint) { e.URL, e.Insecure = "http://ops.example/", true }, ""},
		"another scheme":        {func(e *Endpoint) { e.URL = "ftp://ops.example/" }, "https://host/path"},
		"no name":               {func(e *Endpoint) { e.Name = "" }, "its name"},
		"no secret":             {func(e *Endpoint) { e.Secrets = nil }, "no secret"},
		"three secrets":         {func(e *Endpoint) { e.Secrets = secrets(t, keyA, keyA, keyB) }, "two are the most"},
		"a negative bound":      {func(e *Endpoint) { e.Min = -1 }, "min is -1"},
	} {
		e := endpoint(t, "ops")
		c.change(&e)
		err := e.Check()
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestPausesGrowWithJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 100 {
		d, ok := wait(fmt.Sprint("alert_", i), 1, 0)
		if !ok || d < 4*time.Second || d > 6*time.Second {
			t.Fatalf("the first pause is %v", d)
		}
		seen[d] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 alerts have only %d pauses: they would all come back at once", len(seen))
	}
	if d, _ := wait("x", 9, 0); d < 8*time.Hour || d > 12*time.Hour {
		t.Errorf("the last pause is %v, want 10 h and a jitter", d)
	}
	if _, ok := wait("x", 10, 0); ok {
		t.Error("there is no end of tries")
	}
	if d, _ := wait("x", 1, 100*time.Hour); d != 24*time.Hour {
		t.Errorf("a receiver can ask for %v, want a day at most", d)
	}
}
