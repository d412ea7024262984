package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func TestListenVerifiesAndPrints(t *testing.T) {
	const good, other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	hook, err := webhooks.NewWebhook(good)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	l := &listener{c: &cli{streams: streams{out: &out, err: &errs}, format: jsonl}, hook: hook, seen: map[string]int{}}
	post := func(secret, body string) int {
		sender, err := webhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := sender.Sign("alert_1", time.Now(), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("webhook-id", "alert_1")
		r.Header.Set("webhook-timestamp", strconv.FormatInt(time.Now().Unix(), 10))
		r.Header.Set("webhook-signature", signature)
		w := httptest.NewRecorder()
		l.ServeHTTP(w, r)
		return w.Code
	}
	for _, c := range []struct {
		secret, body string
		want         int
	}{
		{good, `{"type":"test"}`, 204}, {good, `{"type":"test"}`, 204}, {other, `{"type":"test"}`, 401}, {good, `{`, 400},
	} {
		if got := post(c.secret, c.body); got != c.want {
			t.Errorf("%s: %d, want %d", c.body, got, c.want)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"nth":1`) || !strings.Contains(lines[1], `"nth":2`) || !strings.Contains(lines[1], `"body":{"type":"test"}`) {
		t.Errorf("printed:\n%s", out.String())
	}
	if !strings.Contains(errs.String(), "refused an alert") {
		t.Errorf("on stderr: %s", errs.String())
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", w.Code)
	}
}

func TestMutesNameWhatTheyAreAbout(t *testing.T) {
	for _, args := range [][]string{
		{"attention", "mute"},
		{"attention", "unmute"},
		{"attention", "ack", "--for", "1h"},
		{"attention", "mute", "--account", "a", "--for", "1h", "--until", "2030-01-01T00:00:00Z"},
		{"attention", "unmute", "act_1", "--account", "a"},
		{"attention", "mute", "--account", "a", "--for", "-1h"},
		{"alerts", "resend"},
		{"alerts", "resend", "alert_1", "--dead"},
		{"alerts", "resend", "alert_1", "--endpoint", "ops"},
		{"alerts", "listen", "--port", "70000"},
		{"alerts", "listen", "--secret", "topsecret"},
	} {
		r := muster(t, args...)
		if r.code != 2 || strings.Contains(r.err, "topsecret") {
			t.Errorf("%v: exit code %d, %s; want 2", args, r.code, r.err)
		}
	}
}
