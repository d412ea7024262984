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
		Long: `Measure what questions take over NATS, with a fleet in memory and triggers coming in:
distribution, pages of accounts by state, label and attention, counts by facet, can, route,
why and more. A history is written first and the server started on it again, from its
snapshots and saved views. One in ten accounts is rate limited, one in seven restricted in a
scope, one in fifty lost, one in a hundred logged out. Everything runs in one process on this
machine, the callers, too; "echo" is a bare request and reply through the same server, to
compare with.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Say = func(row string) { fmt.Fprintln(c.err, row) }
			rep, err := bench.Query(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("bench query: %w", err)
			}
			return c.show(rep, func(t *grid) {
				t.line("%d accounts, %d events; started in %.2f s, %.0f bytes for each account; %.0f triggers/s",
					rep.Accounts, rep.Events, rep.StartS, rep.Bytes, rep.Triggers)
				t.head("QUERY", "CALLERS", "RATE/S", "P50 MS", "P99 MS", "WANTED")
				for _, r := range append(rep.Runs, bench.QueryRun{Query: "echo", Figure: rep.Echo}) {
					t.row(r.Query, r.Callers, fmt.Sprintf("%.0f", r.Rate), fmt.Sprintf("%.3f", r.P50), fmt.Sprintf("%.3f", r.P99), wanted(r.Wanted))
				}
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "where a scratch directory is made (default: the system's)")
	f.StringVar(&cfg.Data, "data", "", "use this data directory, and keep it: filled when it is empty (default: a scratch one)")
	f.StringSliceVar(&cfg.Only, "only", nil, "ask only these questions, by their names in the table")
	f.StringVar(&cfg.Profiles, "profiles", "", "write a CPU profile of each question into this directory")
	f.IntVar(&cfg.Accounts, "accounts", 200_000, "accounts")
	f.IntVar(&cfg.Events, "events", 1_000_000, "events of the history before; at least some 1.25 for each account")
	f.IntVar(&cfg.Rate, "rate", 2000, "triggers per second that come in meanwhile; 0 = none")
	f.IntVar(&cfg.Callers, "callers", 1, "callers that ask side by side")
	f.DurationVar(&cfg.During, "duration", 3*time.Second, "time of one measurement")
	return cmd
}

// wanted is a bound in milliseconds for people, "" for none.
func wanted(ms float64) string {
	if ms == 0 {
		return ""
	}
	return fmt.Sprintf("%g", ms)
}
