package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/bench"
)

func newBenchDeadlines(c *cli) *cobra.Command {
	var cfg bench.DeadlinesConfig
	cmd := &cobra.Command{
		Use:   "deadlines",
		Short: "Measure how late deadlines fire when all accounts have one at once",
		Long: `Measure how late deadlines fire when all accounts have one at once, while clients send
triggers over NATS; then how long a start takes that finds as many overdue. The history is
read after each: it must hold exactly one event for every deadline, or the run fails.
"judged" is from the due time to the record's own time, "stored" to when the log had it.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Accounts < 1 || cfg.Rate < 0 || cfg.Spread < 0 {
				return usage("bench deadlines: at least one account, and no negative rate or spread")
			}
			cfg.Say = func(row string) { fmt.Fprintln(c.err, row) }
			rep, err := bench.Deadlines(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("bench deadlines: %w", err)
			}
			return c.show(rep, func(t *grid) {
				t.line("%d deadlines due within %v, %.0f triggers/s meanwhile", rep.Accounts, cfg.Spread, rep.Triggers)
				t.head("LATE", "P50 MS", "P99 MS", "MAX MS")
				for _, r := range []struct {
					name string
					bench.Lateness
				}{{"judged", rep.Lateness}, {"stored", rep.Stored}} {
					t.row(r.name, fmt.Sprintf("%.1f", r.P50), fmt.Sprintf("%.1f", r.P99), fmt.Sprintf("%.1f", r.Max))
				}
				t.line("a start with all of them overdue: ready after %.2f s, all fired after %.2f s", rep.Restart.ReadyS, rep.Restart.FiredS)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "where a scratch directory is made (default: the system's)")
	f.IntVar(&cfg.Accounts, "accounts", 100_000, "accounts, with one deadline each")
	f.IntVar(&cfg.Rate, "rate", 5000, "triggers per second that clients send meanwhile; 0 = none")
	f.DurationVar(&cfg.Spread, "spread", time.Second, "the deadlines are due evenly over this time; 0 = all at one instant")
	return cmd
}
