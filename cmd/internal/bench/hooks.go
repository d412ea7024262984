package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/sign"
	"github.com/musterhq/muster/cmd/internal/config"
)

// HooksConfig is what Hooks measures: webhooks over HTTP connections that are
// kept, beside requests over NATS, on the same server.
type HooksConfig struct {
	Dir     string // where a scratch directory is made; "" = the system's
	Sync    string
	Callers int              // connections of webhooks, and callers of requests
	Rounds  int              // how often each is measured, in turn; the medians count
	During  time.Duration    // of one measurement
	Say     func(row string) // gets each figure as it comes; nil: nobody
}

// HooksReport is what Hooks found. Rates are per second; each webhook and each
// request is judged, appended, synced and answered.
type HooksReport struct {
	Requests Figure    `json:"requests"` // over NATS
	Hooks    []HookRun `json:"hooks"`
}

// HookRun is the measurement of one kind of connector.
type HookRun struct {
	Kind string `json:"kind"`
	Figure
	Ratio float64 `json:"ratio"` // its rate / that of the requests
}

// A hookLoad makes the n-th webhook of a caller.
type hookLoad struct {
	source *connector.Source
	body   func(prefix string, caller, n int) []byte
}

var hookLoads = []hookLoad{
	{&connector.Source{Kind: "plain", Name: "plain", Secrets: []string{"bench-secret"}}, plainBody},
	{&connector.Source{Kind: "waha", Name: "waha", Secrets: []string{"bench-secret"}}, wahaBody},
}

// Hooks measures requests and each kind of webhook in turn.
func Hooks(ctx context.Context, cfg HooksConfig) (rep HooksReport, err error) {
	say := AppendConfig{Say: cfg.Say}
	dir, err := os.MkdirTemp(cfg.Dir, "muster-bench-*")
	if err != nil {
		return rep, err
	}
	c := config.Default()
	c.Data, c.HTTP, c.NATSListen, c.Sync = dir, "127.0.0.1:0", "127.0.0.1:0", cfg.Sync
	for _, l := range hookLoads {
		c.Connectors = append(c.Connectors, config.Connector{Source: l.source})
	}
	s, err := run(ctx, c, dir)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	requests := make([]Figure, 0, cfg.Rounds)
	hooks := make([][]Figure, len(hookLoads))
	for round := range cfg.Rounds {
		f, err := sendLoad(ctx, s.app.NATSURL(), cfg.Callers, cfg.During, fmt.Sprintf("r%d", round))
		if err != nil {
			return rep, fmt.Errorf("requests: %w", err)
		}
		say.say("%-20s callers %4d: %8.0f/s  p50 %7.2f ms  p99 %7.2f ms", "requests over NATS", f.Callers, f.Rate, f.P50, f.P99)
		requests = append(requests, f)
		for i, l := range hookLoads {
			h, err := hookRun(ctx, s.app.HTTPAddr(), &l, cfg.Callers, cfg.During, fmt.Sprintf("h%d", round))
			if err != nil {
				return rep, fmt.Errorf("webhooks of kind %s: %w", l.source.Kind, err)
			}
			say.say("%-20s callers %4d: %8.0f/s  p50 %7.2f ms  p99 %7.2f ms  (%.2f of requests)", "webhooks, "+l.source.Kind, h.Callers, h.Rate, h.P50, h.P99, h.Rate/f.Rate)
			hooks[i] = append(hooks[i], h)
		}
	}
	rep.Requests = middle(requests)
	for i, l := range hookLoads {
		f := middle(hooks[i])
		rep.Hooks = append(rep.Hooks, HookRun{l.source.Kind, f, f.Rate / rep.Requests.Rate})
	}
	return rep, nil
}

// middle is the figure with the median rate.
func middle(list []Figure) Figure {
	rates := make([]float64, len(list))
	for i, f := range list {
		rates[i] = f.Rate
	}
	m := median(rates)
	for _, f := range list {
		if f.Rate == m {
			return f
		}
	}
	return Figure{}
}

// hookRun sends webhooks, each over the caller's own connection.
func hookRun(ctx context.Context, address string, l *hookLoad, callers int, during time.Duration, prefix string) (Figure, error) {
	conns := make([]*httpConn, callers)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.conn.Close()
			}
		}
	}()
	for i := range conns {
		var err error
		if conns[i], err = dialHTTP(ctx, address); err != nil {
			return Figure{}, err
		}
	}
	return drive(ctx, callers, during, func(_ context.Context, caller, n int) error {
		r := &connector.Request{Header: http.Header{}, Query: url.Values{}, Body: l.body(prefix, caller, n)}
		if err := sign.Request(l.source, r); err != nil {
			return err
		}
		var header strings.Builder
		for name, values := range r.Header {
			header.WriteString(name + ": " + values[0] + "\r\n")
		}
		status, err := conns[caller].post("/hooks/"+l.source.Kind, header.String(), r.Body)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("a webhook was answered %d", status)
		}
		return err
	})
}

// plainBody is the trigger that a request would be.
func plainBody(prefix string, caller, n int) []byte {
	t := step("p"+prefix, caller, n)
	t.Source = "plain/bench"
	return t.AppendJSON(nil)
}

// wahaBody is a session that starts and stops in turn; each is an event of
// several hundred bytes, of which the connector reads a history of statuses.
func wahaBody(prefix string, caller, n int) []byte {
	round, at := n/accountsPerCaller, time.Now().UnixMilli()
	status, before := "STARTING", "STOPPED"
	if round%2 == 1 {
		status, before = before, status
	}
	return fmt.Appendf(nil, `{"id":"evt_%s-%d-%d","timestamp":%d,"event":"session.status","session":"%s-%d-%d","metadata":{"tenant":"bench"},`+
		`"me":{"id":"15550100001@c.us","lid":"10000001@lid","pushName":"Shop One"},"payload":{"name":"bench","status":"%s",`+
		`"statuses":[{"status":"%s","timestamp":%d},{"status":"%s","timestamp":%d}]},"engine":"GOWS","environment":{"version":"2026.9.1","engine":"GOWS","tier":"PLUS"}}`,
		prefix, caller, n, at, prefix, caller, n%accountsPerCaller, status, before, at-1000, status, at)
}
