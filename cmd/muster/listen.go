package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/musterhq/muster/bus/alert"
)

// secretVariable holds the secret of `muster alerts listen` when no flag does.
const secretVariable = "MUSTER_ALERT_SECRET"

// maxAlert is the largest body that a listener reads, in bytes.
const maxAlert = 1 << 20

func newListen(c *cli) *cobra.Command {
	var secret string
	var port int
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Receive alerts on this machine, verify and print them: for trying out",
		Long: `Receive alerts on this machine, verify their signatures and print them, until interrupted. It
shows what a receiver does, and is meant for trying out. Without a secret (--secret or
` + secretVariable + `) it makes one and prints what to put into the configuration.`,
		Example: "  muster alerts listen --port 9095",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return usage("--port is %d; it is 0 (any free one) to 65535", port)
			}
			if secret == "" {
				secret = os.Getenv(secretVariable)
			}
			return c.listen(cmd.Context(), secret, port)
		},
	}
	cmd.Flags().StringVar(&secret, "secret", "", "the endpoint's secret, whsec_…; others can read a command line, so better give "+secretVariable)
	cmd.Flags().IntVar(&port, "port", 9095, "port on 127.0.0.1")
	return cmd
}

// listen receives alerts until ctx ends.
func (c *cli) listen(ctx context.Context, secret string, port int) error {
	made := secret == ""
	if made {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		secret = "whsec_" + base64.StdEncoding.EncodeToString(key)
	}
	if _, err := alert.ParseSecret(secret); err != nil {
		return usage("the secret is %w", err)
	}
	hook, err := webhooks.NewWebhook(secret)
	if err != nil {
		return usage("the secret cannot be read")
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("listen for alerts: %w", err)
	}
	fmt.Fprintf(c.err, "listening for alerts on http://%s/\n", l.Addr())
	if made {
		fmt.Fprintf(c.err, "put this into the file of `muster serve --config`:\n\nalerts:\n  endpoints:\n    - {name: here, url: \"http://%s/\", secret: %s}\n\n", l.Addr(), secret)
	}
	server := &http.Server{Handler: &listener{c: c, hook: hook, seen: map[string]int{}}, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(bounded)
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("listen for alerts: %w", err)
	}
	return <-stopped
}

// listener is a small receiver.
type listener struct {
	c    *cli
	hook *webhooks.Webhook

	mu   sync.Mutex
	seen map[string]int // how often each webhook-id came
}

// received is one alert as it is printed.
type received struct {
	ID     string          `json:"id"`
	Nth    int             `json:"nth"` // 2 and more: it came before
	Signed string          `json:"timestamp"`
	Body   json.RawMessage `json:"body"`
}

// ServeHTTP takes one alert.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "post alerts here", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAlert))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	if err := l.hook.Verify(body, r.Header); err != nil {
		fmt.Fprintf(l.c.err, "refused an alert: %v\n", err)
		http.Error(w, "the signature is not right", http.StatusUnauthorized)
		return
	}
	if !json.Valid(body) {
		http.Error(w, "the body is not JSON", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	l.show(r.Header, body)
}

func (l *listener) show(h http.Header, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := h.Get(webhooks.HeaderWebhookID)
	l.seen[id]++
	got := received{ID: id, Nth: l.seen[id], Signed: h.Get(webhooks.HeaderWebhookTimestamp), Body: body}
	if l.c.format.or(table) != table {
		if err := printLine(l.c.out, got); err != nil {
			fmt.Fprintln(l.c.err, err)
		}
		return
	}
	var text bytes.Buffer
	if err := json.Indent(&text, body, "", "  "); err != nil {
		text.Write(body)
	}
	again := ""
	if got.Nth > 1 {
		again = fmt.Sprintf(" (it came before: %d)", got.Nth)
	}
	if err := print(l.c.out, fmt.Sprintf("%s%s\n%s\n\n", printable(id), again, text.String())); err != nil {
		fmt.Fprintln(l.c.err, err)
	}
}
