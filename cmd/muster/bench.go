package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/bench"
)

func newBench(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this program on this machine",
		Long: `Measure this program on this machine, with real servers on a scratch directory and clients
over loopback. Figures come on stderr as they are measured; the report is data. Compare
figures of one run with each other, never with those of another machine.`,
	}
	cmd.AddCommand(newBenchAppend(c), newBenchInbox(c), newBenchRestart(c), newBenchQuery(c), newBenchDeadlines(c), newBenchHooks(c), newBenchReplay(c))
	return group(cmd)
}

func newBenchAppend(c *cli) *cobra.Command {
	var cfg bench.AppendConfig
	cmd := &cobra.Command{
		Use:   "append",
		Short: "Measure durable appends: request, judge, append, sync, answer",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Say = func(row string) { fmt.Fprintln(c.err, row) }
			rep, err := bench.Append(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("bench append: %w", err)
			}
			return c.showAppend(&rep)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "where scratch directories are made (default: the system's); the disk there is what is measured")
	f.StringSliceVar(&cfg.Syncs, "sync", []string{"group", "always", "interval"}, "sync modes")
	f.IntSliceVar(&cfg.Partitions, "partitions", []int{1, 2, 4, 8}, "partition counts")
	f.IntSliceVar(&cfg.Callers, "callers", []int{1, 16, 256, 1024}, "numbers of callers that wait for an answer each")
	f.DurationVar(&cfg.During, "duration", 2*time.Second, "time of one measurement")
	f.BoolVar(&cfg.Erasable, "erasable", false, "encrypt what is personal, as the setting erasable does")
	return cmd
}

func newBenchInbox(c *cli) *cobra.Command {
	var cfg bench.InboxConfig
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Measure how fast an inbox is emptied that filled up while Muster was down",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Say = func(row string) { fmt.Fprintln(c.err, row) }
			rep, err := bench.Inbox(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("bench inbox: %w", err)
			}
			return c.show(rep, func(t *grid) {
				t.head("WHAT", "RATE/S", "/ REQUESTS")
				t.row(fmt.Sprintf("requests of %d callers", rep.Append.Callers), fmt.Sprintf("%.0f", rep.Append.Rate), "1.00")
				t.row("published into the inbox", fmt.Sprintf("%.0f", rep.Publish), fmt.Sprintf("%.2f", rep.Publish/rep.Append.Rate))
				t.row("drained from the inbox", fmt.Sprintf("%.0f", rep.Drain), fmt.Sprintf("%.2f", rep.Ratio))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "where scratch directories are made (default: the system's); the disk there is what is measured")
	f.StringVar(&cfg.Sync, "sync", "group", "sync mode")
	f.IntVar(&cfg.Partitions, "partitions", 4, "partition count")
	f.IntVar(&cfg.Callers, "callers", 1024, "callers of the requests that it is compared with")
	f.DurationVar(&cfg.During, "duration", 2*time.Second, "time of the measurement of requests")
	f.IntVar(&cfg.Messages, "messages", 100_000, "messages in the inbox")
	return cmd
}

func newBenchRestart(c *cli) *cobra.Command {
	var cfg bench.RestartConfig
	cmd := &cobra.Command{
		Use:   "restart",
		Short: "Measure memory and starts: from the log alone, and from snapshots",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("bench restart: find this program: %w", err)
			}
			cfg.Program = program
			cfg.Say = func(row string) { fmt.Fprintln(c.err, row) }
			rep, err := bench.Restart(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("bench restart: %w", err)
			}
			return c.show(rep, func(t *grid) {
				t.head("WHAT", "FIGURE")
				t.row("resident bytes per account, above an empty server", fmt.Sprintf("%.0f", rep.BytesPerAccount))
				t.row("replay, events/s", fmt.Sprintf("%.0f", rep.ReplayRate))
				t.row("bare ordered consumer, events/s", fmt.Sprintf("%.0f", rep.ConsumerRate))
				t.row("replay / bare consumer", fmt.Sprintf("%.2f", rep.ReplayRatio))
				t.row("from the log alone, s", fmt.Sprintf("%.2f", rep.ReplayS))
				t.row("from snapshots, s", fmt.Sprintf("%.2f", rep.SnapshotS))
				t.row("log alone / snapshots", fmt.Sprintf("%.1f", rep.SnapshotGain))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "where scratch directories are made (default: the system's)")
	f.IntVar(&cfg.Accounts, "accounts", 200_000, "accounts")
	f.IntVar(&cfg.Events, "events", 1_000_000, "events, spread evenly over the accounts")
	return cmd
}

func (c *cli) showAppend(rep *bench.AppendReport) error {
	return c.show(rep, func(t *grid) {
		t.head("SYNC", "PARTITIONS", "CALLERS", "RATE/S", "P50 MS", "P99 MS", "/ ECHO", "/ RAW")
		for _, r := range rep.Runs {
			t.row(r.Sync, r.Partitions, r.Callers, fmt.Sprintf("%.0f", r.Rate), fmt.Sprintf("%.2f", r.P50), fmt.Sprintf("%.2f", r.P99),
				fmt.Sprintf("%.2f", r.Rate/rep.Echo.Rate), fmt.Sprintf("%.2f", r.Rate/rep.Raw.Rate))
		}
		t.row("echo", "", rep.Echo.Callers, fmt.Sprintf("%.0f", rep.Echo.Rate), "", "", "1.00", "")
		t.row("raw", "", "", fmt.Sprintf("%.0f", rep.Raw.Rate), "", "", "", "1.00")
	})
}
