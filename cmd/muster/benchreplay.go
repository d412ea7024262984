package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/bench"
)

func newBenchReplay(c *cli) *cobra.Command {
	var cfg bench.ReplayConfig
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Measure replays of an archive, beside the bare scan of the same archive",
		Long: `Measure replays of an archive of simulated history, in one process and one run: "scan" only
unpacks the records, "views" counts states and times to RUNNING, "fold" also folds every account,
"all" is what muster replay does, with its checks. Each on one core and on two.

With --archive the archive is kept and used again; without, it is made in a scratch folder, which
takes longer than measuring it.`,
		Example: `  muster bench replay --archive /dev/shm/history -o json
  muster bench replay --events 1000000 --accounts 5000`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Rounds < 1 || cfg.Events < 1 || cfg.Accounts < 1 || cfg.Partitions < 1 {
				return usage("--rounds, --events, --accounts and --partitions are at least 1")
			}
			cfg.Say = func(row string) { fmt.Fprintln(c.err, row) }
			rep, err := bench.Replay(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("bench replay: %w", err)
			}
			return c.show(rep, func(t *grid) {
				t.head("WHAT", "CORES", "EVENTS/S", "/ CPU S", "/ SCAN")
				for _, f := range rep.Figures {
					t.row(f.What, f.Cores, fmt.Sprintf("%.0f", f.Rate), fmt.Sprintf("%.0f", f.CPURate), fmt.Sprintf("%.2f", f.ToScan))
				}
				t.row("msgpack/v5", 1, "", fmt.Sprintf("%.0f", rep.Decoder), "")
				t.line("")
				t.line("of the events %.1f %% are about sessions, %.1f %% about messages, %.1f %% about conversations; they span %.1f hours",
					100*rep.Mix.Sessions, 100*rep.Mix.Messages, 100*rep.Mix.Conversations, rep.Mix.Hours)
				t.line("%d events of %d accounts, %.1f bytes each in the archive; %d bytes resident, %.0f by account", rep.Events, rep.Accounts, rep.BytesPerEvent, rep.Resident, rep.PerAccount)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Archive, "archive", "", "folder of an archive to measure; made and kept when it is not there")
	f.StringVar(&cfg.Dir, "dir", "", "where a scratch archive is made (default: the system's)")
	f.IntVar(&cfg.Events, "events", 10_000_000, "events of an archive that is made")
	f.IntVar(&cfg.Accounts, "accounts", 20_000, "accounts of an archive that is made")
	f.IntVar(&cfg.Partitions, "partitions", 4, "partitions of an archive that is made")
	f.IntVar(&cfg.Rounds, "rounds", 1, "how often each is measured, in turn; medians count")
	return cmd
}
