package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/bench"
)

func newBenchHooks(c *cli) *cobra.Command {
	var cfg bench.HooksConfig
	cmd := &cobra.Command{
		Use:   "hooks",
		Short: "Measure webhooks over HTTP, beside requests over NATS",
		Long: `Measure webhooks over HTTP connections that are kept, beside requests over NATS on the same
server, each as many at once. All are judged, appended, synced and answered. "plain" is the
trigger itself behind a bearer token, "waha" a signed event that is mapped on its account.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Rounds < 1 || cfg.Callers < 1 {
				return usage("--rounds and --callers are at least 1")
			}
			cfg.Say = func(row string) { fmt.Fprintln(c.err, row) }
			rep, err := bench.Hooks(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("bench hooks: %w", err)
			}
			return c.show(rep, func(t *grid) {
				t.head("WHAT", "CALLERS", "RATE/S", "P50 MS", "P99 MS", "/ REQUESTS")
				row := func(what string, f *bench.Figure, ratio float64) {
					t.row(what, f.Callers, fmt.Sprintf("%.0f", f.Rate), fmt.Sprintf("%.2f", f.P50), fmt.Sprintf("%.2f", f.P99), fmt.Sprintf("%.2f", ratio))
				}
				row("requests over NATS", &rep.Requests, 1)
				for i := range rep.Hooks {
					row("webhooks, "+rep.Hooks[i].Kind, &rep.Hooks[i].Figure, rep.Hooks[i].Ratio)
				}
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "where a scratch directory is made (default: the system's); the disk there is what is measured")
	f.StringVar(&cfg.Sync, "sync", "group", "sync mode")
	f.IntVar(&cfg.Callers, "callers", 256, "connections of webhooks, and callers of requests")
	f.IntVar(&cfg.Rounds, "rounds", 3, "how often each is measured, in turn; medians count")
	f.DurationVar(&cfg.During, "duration", 2*time.Second, "time of one measurement")
	return cmd
}
