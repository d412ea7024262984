package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/trace"
)

// importing is what `muster import` prints.
type importing struct {
	*offline.Imported
	Counts trace.Counts `json:"counts"` // of the verdicts on the trace
	Digest string       `json:"digest"` // of the state that the trace leads to
}

func newImport(c *cli) *cobra.Command {
	var opts trace.Options
	var dir, until, data string
	var partitions int
	cmd := &cobra.Command{
		Use:   "import TRACE",
		Short: "Bring a past in: judge a trace and append what came of it to a stopped server's data",
		Long: `Judge a trace (one JSON object a line, oldest first; - is stdin) as "muster try" does, on the
clock of its lines, and append the resulting events to the data folder of a server that is not
running; the folder is made when it is not there. What "muster export" wrote is taken as it was
recorded, deadlines included, and gives the same state again. The accounts must have no history: when one has,
it is named and nothing is written. Run again after it was interrupted, it goes on where it was.`,
		Example: `  muster import past.jsonl --data ./muster-data
  muster export /backup/fleet -o jsonl | muster import - --data ./new-data`,
		Args: takes("TRACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if data == "" {
				return usage("--data is missing: the data folder of a server that is not running")
			}
			if err := setUntil(&opts, until, cmd.Flags().Changed("until")); err != nil {
				return err
			}
			if opts.Mode != "" && opts.Mode != domain.ModeObserve && opts.Mode != domain.ModeSupervise {
				return usage("--mode is %q; it is observe or supervise", opts.Mode)
			}
			var err error
			if opts.Machines, _, err = registry(dir); err != nil {
				return err
			}
			if _, err := trace.NewJudge(opts); err != nil {
				return as(errUsage, fmt.Errorf("--machine: %w", err))
			}
			in, err := c.open(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			res, err := trace.Run(in, opts)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			done, err := offline.Import(cmd.Context(), data, partitions, res)
			var other *offline.HistoryError
			if errors.As(err, &other) {
				return as(errConflict, err)
			}
			if err != nil {
				return err
			}
			out := importing{Imported: done, Counts: res.Counts, Digest: res.Digest}
			return c.show(out, func(t *grid) {
				t.line("%d events of %d accounts: %d appended, %d were there", done.Events, done.Accounts, done.Appended, done.Present)
				if n := res.Counts; n.Invalid > 0 {
					t.line("%d lines were invalid and left out; muster try names them", n.Invalid)
				}
				t.line("%s", res.Digest)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", "", "data folder of a server that is not running; made when it is not there")
	f.IntVar(&partitions, "partitions", 0, "partitions of a folder that is made (default: as serve)")
	f.StringArrayVar(&opts.Defaults, "machine", nil, "machine of accounts that name none (default whatsapp@2); once per family, e.g. also message@1")
	f.StringVar(&opts.Mode, "mode", "", "mode of accounts that name none: observe (default) or supervise")
	f.StringVar(&until, "until", "", "let deadlines fire until this time, RFC 3339 (default: the time of the last line)")
	f.StringVar(&dir, "machines", "", "folder of machine files (*.yaml) beside the built-in machines")
	return cmd
}
