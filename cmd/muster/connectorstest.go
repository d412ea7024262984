package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/bus/connector/play"
	"github.com/musterhq/muster/bus/connector/sign"
	"github.com/musterhq/muster/cmd/internal/config"
)

// testSource is what `connectors test` was told.
type testSource struct {
	file    string
	headers []string
	dry     bool
}

func newConnectorsTest(c *cli) *cobra.Command {
	var o testSource
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "Send a webhook as a configured source would, or see what it would map to",
		Long: `Send one webhook to a running server as the source of that name would: signed with its
secret from the configuration (--config, as serve takes it), to the server's HTTP address
(--http). It is a real webhook: what it says is judged and kept.

With --dry-run nothing is sent: it shows what the webhook would lead to in an empty Muster.`,
		Example: "  muster connectors test waha --config muster.yaml --file body.json --dry-run",
		Args:    takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Load(cmd.Flags())
			if err != nil {
				return as(errUsage, err)
			}
			return c.testConnector(cmd.Context(), &cfg, args[0], &o)
		},
	}
	config.AddFlags(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&o.file, "file", "-", "the webhook's body; - is stdin")
	f.StringArrayVar(&o.headers, "header", nil, `a header that the peer sends, as "Name: value"; may be given several times`)
	f.BoolVar(&o.dry, "dry-run", false, "send nothing, and show what the webhook would lead to")
	return cmd
}

func (c *cli) testConnector(ctx context.Context, cfg *config.Config, name string, o *testSource) error {
	i := slices.IndexFunc(cfg.Connectors, func(k config.Connector) bool { return k.Name == name })
	if i < 0 {
		return as(errNotFound, fmt.Errorf("no connector %q is configured; --config names the file of serve", name))
	}
	s := cfg.Connectors[i].Source
	req, err := c.webhook(s, o)
	if err != nil {
		return err
	}
	if o.dry {
		return c.dryRun(ctx, s, req)
	}
	return c.post(ctx, cfg.HTTP, s, req)
}

// webhook makes the request that the source would send.
func (c *cli) webhook(s *connector.Source, o *testSource) (*connector.Request, error) {
	in, err := c.open(o.file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	body, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	r := &connector.Request{
		Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, Query: url.Values{}, Body: body, At: time.Now().UnixNano(),
	}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usage(`--header is %q; write it as "Name: value"`, h)
		}
		r.Header.Set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if err := sign.Request(s, r); err != nil {
		return nil, as(errUsage, err)
	}
	return r, nil
}

// pathOf is the path of a request of the source, with its query.
func pathOf(s *connector.Source, r *connector.Request) string {
	path := hub.Prefix + s.Kind
	if s.Name != s.Kind {
		path += "/" + s.Name
	}
	if len(r.Query) > 0 {
		path += "?" + r.Query.Encode()
	}
	return path
}

// webhookAnswer is what came back for a webhook.
type webhookAnswer struct {
	Connector string `json:"connector"`
	Path      string `json:"path"`
	Status    int    `json:"status"`
	Body      string `json:"body"`
}

// post sends the request to a running server.
func (c *cli) post(ctx context.Context, address string, s *connector.Source, r *connector.Request) error {
	bounded, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	path := pathOf(s, r)
	shown, _, _ := strings.Cut(path, "?")
	req, err := http.NewRequestWithContext(bounded, r.Method, "http://"+address+path, bytes.NewReader(r.Body))
	if err != nil {
		return fmt.Errorf("make the request: %w", withoutAddress(err))
	}
	req.Header = r.Header
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return as(errUnreachable, fmt.Errorf("cannot reach http://%s%s: %w; is `muster serve` running there? --http names another address", address, shown, withoutAddress(err)))
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, hub.MaxBody))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	a := webhookAnswer{Connector: s.Name, Path: shown, Status: answer.StatusCode, Body: string(body)}
	if err := c.show(a, func(t *grid) {
		t.head("CONNECTOR", "PATH", "STATUS", "BODY")
		t.row(a.Connector, a.Path, strconv.Itoa(a.Status), a.Body)
	}); err != nil {
		return err
	}
	return refusal(a.Status)
}

// withoutAddress is the cause of an HTTP error: its own text holds the address,
// and that may hold a key.
func withoutAddress(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// refusal makes an answer that is no success an error of its class.
func refusal(status int) error {
	if status/100 == 2 {
		return nil
	}
	err := fmt.Errorf("the server answered %d %s", status, http.StatusText(status))
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return as(bus.ErrNotAllowed, err)
	case http.StatusNotFound:
		return as(errNotFound, err)
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return as(errUsage, err)
	}
	return err
}

// dryRun shows what the request would lead to in an empty Muster.
func (c *cli) dryRun(ctx context.Context, s *connector.Source, r *connector.Request) error {
	headers := map[string]string{}
	for name := range r.Header {
		headers[name] = r.Header.Get(name)
	}
	text := string(r.Body)
	seq := &play.Case{Connector: s.Kind, Source: s, Requests: []play.Request{
		{At: time.Unix(0, r.At), Method: r.Method, Path: pathOf(s, r), Headers: headers, Raw: &text},
	}}
	got, err := playThrough(ctx, seq)
	if err != nil {
		return err
	}
	if err := c.show(got, func(t *grid) { playSheet(t, seq, got) }); err != nil {
		return err
	}
	return refusal(got.HTTP[0])
}
