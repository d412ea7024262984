package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/bench"
)

func newBenchQuery(c *cli) *cobra.Command {
	var cfg bench.QueryConfig
	cmd := &cobra.Command{
		Use:   "query",
		Short: "Measure what questions take while triggers come in",
		Long: `Measure what questions take over NATS, with a fleet in memory and triggers coming in: can,
route, accounts get, a page of accounts, stats. One in ten accounts is rate limited, one in
seven restricted in a scope. Everything runs in one process on this machine, the callers, too;
"echo" is a bare request and reply through the same server, to compare with.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Say = func(row string) { fmt.Fprintln(c.err, row) }
			rep, err := bench.Query(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("bench query: %w", err)
			}
			return c.show(rep, func(t *grid) {
				t.line("%d accounts, %.0f triggers/s", rep.Accounts, rep.Triggers)
				t.head("QUERY", "CALLERS", "RATE/S", "P50 MS", "P99 MS")
				for _, r := range append(rep.Runs, bench.QueryRun{Query: "echo", Figure: rep.Echo}) {
					t.row(r.Query, r.Callers, fmt.Sprintf("%.0f", r.Rate), fmt.Sprintf("%.3f", r.P50), fmt.Sprintf("%.3f", r.P99))
				}
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "where a scratch directory is made (default: the system's)")
	f.IntVar(&cfg.Accounts, "accounts", 200_000, "accounts")
	f.IntVar(&cfg.Rate, "rate", 1000, "triggers per second that come in meanwhile; 0 = none")
	f.IntVar(&cfg.Callers, "callers", 1, "callers that ask side by side")
	f.DurationVar(&cfg.During, "duration", 3*time.Second, "time of one measurement")
	return cmd
}
