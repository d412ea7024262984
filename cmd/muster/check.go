package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newCheck(c *cli) *cobra.Command {
	var address string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Ask a running server whether it is ready",
		Long: `Ask a running server by HTTP (/readyz) whether it has replayed its history and serves.
Exit code 0: ready; 5: up but not ready; 6: not reachable. It is the health check of the container.`,
		Example: "  muster check --http http://127.0.0.1:8080",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("no answer within %v", timeout))
			defer cancel()
			answer, err := ready(ctx, address)
			if err != nil {
				return err
			}
			return c.show(answer, func(t *grid) { t.line("ready") })
		},
	}
	cmd.Flags().StringVar(&address, "http", probeAddress(os.Getenv("MUSTER_HTTP")), "HTTP address of the server")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

// readiness is what /readyz said.
type readiness struct {
	Ready  bool            `json:"ready"`
	Status int             `json:"status"` // of HTTP
	Answer json.RawMessage `json:"answer,omitempty"`
}

// maxProbe is as much of an answer as is read.
const maxProbe = 64 << 10

func ready(ctx context.Context, address string) (readiness, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/readyz", nil)
	if err != nil {
		return readiness{}, usage("--http: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return readiness{}, as(errUnreachable, fmt.Errorf("check: %w", err))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProbe))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return readiness{}, as(errUnreachable, fmt.Errorf("check: %w", err))
	}
	r := readiness{Ready: resp.StatusCode == http.StatusOK, Status: resp.StatusCode}
	if json.Valid(body) {
		r.Answer = body
	}
	if !r.Ready {
		return r, as(errCondition, fmt.Errorf("%s is not ready: %s", address, printable(why(resp.Status, body))))
	}
	return r, nil
}

// why returns the reason that an answer gives, or else all of it.
func why(status string, body []byte) string {
	var answer struct{ Reason string }
	if json.Unmarshal(body, &answer) == nil && answer.Reason != "" {
		return answer.Reason
	}
	if text := strings.TrimSpace(string(body)); text != "" {
		return status + ": " + text
	}
	return status
}

// probeAddress returns the address at which a server that listens on listen is
// asked from the same machine.
func probeAddress(listen string) string {
	if listen == "" {
		return "http://127.0.0.1:8080"
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "http://" + listen
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
