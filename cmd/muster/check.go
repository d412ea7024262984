package main

import (
	"context"
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
			return c.show(answer, func(t *grid) { t.line("%s", printable(answer.Detail)) })
		},
	}
	cmd.Flags().StringVar(&address, "http", probeAddress(os.Getenv("MUSTER_HTTP")), "HTTP address of the server")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

// readiness is what /readyz said.
type readiness struct {
	Ready  bool   `json:"ready"`
	Status int    `json:"status"`
	Detail string `json:"detail"` // the server's words
}

// maxProbe is as much of an answer as is read.
const maxProbe = 4 << 10

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
		return readiness{}, as(errUnreachable, fmt.Errorf("check %s: %w", address, err))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProbe))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return readiness{}, as(errUnreachable, fmt.Errorf("check %s: %w", address, err))
	}
	words := strings.TrimSpace(string(body))
	if words == "" {
		words = resp.Status
	}
	if resp.StatusCode != http.StatusOK {
		return readiness{}, as(errCondition, fmt.Errorf("not ready (%d): %s", resp.StatusCode, printable(words)))
	}
	return readiness{Ready: true, Status: resp.StatusCode, Detail: words}, nil
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
