package alert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// tryWithin bounds one try.
const tryWithin = 15 * time.Second

// Sender makes one try of one delivery.
type Sender interface {
	Send(ctx context.Context, e *Endpoint, d *Delivery) Result
}

// httpSender posts alerts.
type httpSender struct {
	client *http.Client
	agent  string
}

var _ Sender = (*httpSender)(nil)

// newHTTPSender returns a Sender; close ends its idle connections.
func newHTTPSender(version string) (s *httpSender, close func()) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 4
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	return &httpSender{
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		agent: "Muster/" + version,
	}, transport.CloseIdleConnections
}

// Send posts the delivery and returns what came back. A redirect is not followed:
// it is a failure like every other answer that is not 2xx.
func (s *httpSender) Send(ctx context.Context, e *Endpoint, d *Delivery) Result {
	bounded, cancel := context.WithTimeoutCause(ctx, tryWithin, fmt.Errorf("no answer within %v", tryWithin))
	defer cancel()
	req, err := http.NewRequestWithContext(bounded, http.MethodPost, e.URL, strings.NewReader(d.Body))
	if err != nil {
		return Result{Err: "the request cannot be made"}
	}
	if err := sign(req.Header, e.Secrets, d, time.Now()); err != nil {
		return Result{Err: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.agent)
	if d.Trace != "" {
		req.Header.Set("traceparent", d.Trace)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if cause := context.Cause(bounded); cause != nil {
			return Result{Err: cause.Error()}
		}
		return Result{Err: withoutURL(err)}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 16<<10) // so that the connection can be used again; its end is all the same
	r := Result{Code: resp.StatusCode}
	if r.Code < 200 || r.Code > 299 {
		r.Err = strings.TrimSpace(strconv.Itoa(r.Code) + " " + http.StatusText(r.Code))
		r.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	return r
}

// sign puts the headers of the specification: the id, which stays the same in
// every try, the time of this try, and a signature with each of the secrets.
func sign(h http.Header, secrets []Secret, d *Delivery, now time.Time) error {
	var signatures []string
	for _, secret := range secrets {
		hook, err := webhooks.NewWebhook(secret.text)
		if err != nil {
			return errors.New("a secret cannot be read") // ParseSecret has let it through: its words could quote it
		}
		signature, err := hook.Sign(d.ID, now, []byte(d.Body))
		if err != nil {
			return fmt.Errorf("sign the alert: %w", err)
		}
		signatures = append(signatures, signature)
	}
	h.Set(webhooks.HeaderWebhookID, d.ID)
	h.Set(webhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(webhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return nil
}

// withoutURL says what went wrong without quoting the URL, which may hold a key.
func withoutURL(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// retryAfter reads a Retry-After header: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return time.Duration(min(n, int(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
