package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxAnswer is the longest list that is read, in bytes: 50 000 sessions of a
// talkative server.
const maxAnswer = 128 << 20

// newClient returns a client that follows no redirection: the key in the header
// is for the server that is configured and for nobody else.
func newClient(transport http.RoundTripper, timeout time.Duration, parallel int) *http.Client {
	if transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxConnsPerHost, t.MaxIdleConnsPerHost, t.IdleConnTimeout = parallel, parallel, 10*time.Second
		transport = t
	}
	return &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// A statusError is an answer other than 200.
type statusError int

func (e statusError) Error() string {
	text := fmt.Sprintf("the server answered %d %s", int(e), http.StatusText(int(e)))
	switch e {
	case http.StatusUnauthorized, http.StatusForbidden:
		return text + "; check the key of the poll"
	case http.StatusNotFound:
		return text + "; check the address of the poll"
	}
	return text
}

// ask sends a GET with the key and returns the body of the answer. An error holds
// neither the key nor the address.
func (s *source) ask(ctx context.Context, u *url.URL) ([]byte, error) {
	select {
	case s.sh.slots <- struct{}{}:
		defer func() { <-s.sh.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("the address of the poll is none")
	}
	if s.Poll.Key != "" {
		req.Header.Set(s.kind.header, s.Poll.Key)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "muster")
	resp, err := s.sh.client.Do(req)
	if err != nil {
		return nil, bare(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
		return nil, statusError(resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", bare(err))
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return body, nil
}

// bare is an error of a request without its address, which may hold a password.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		if u.Timeout() {
			return errors.New("the server did not answer in time")
		}
		return u.Err
	}
	return err
}
