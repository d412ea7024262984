package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/trace"
)

func newTry(c *cli) *cobra.Command {
	var opts trace.Options
	var dir, until string
	cmd := &cobra.Command{
		Use:   "try FILE",
		Short: "Judge a trace without a server, on a virtual clock",
		Long: `Judge a trace (one JSON object a line, oldest first; - is stdin) without a server. The time
is that of the lines; between them the deadlines fire that were due. Nothing is stored.

With -o json it prints the accounts, every verdict, the counts and the digest of the state,
which is the digest a server would have.`,
		Example: `  muster try trace.jsonl
  muster try trace.jsonl --machine whatsapp@1 --until 2026-01-05T12:00:00Z -o json`,
		Args: takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
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
			return c.try(args[0], opts)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&opts.Defaults, "machine", nil, "machine of accounts that name none (default whatsapp@2); once per family, e.g. also message@1")
	f.StringVar(&opts.Mode, "mode", "", "mode of accounts that name none: observe (default) or supervise")
	f.StringVar(&until, "until", "", "let deadlines fire until this time, RFC 3339 (default: the time of the last line)")
	f.StringVar(&dir, "machines", "", "folder of machine files (*.yaml) beside the built-in machines")
	return cmd
}

func setUntil(opts *trace.Options, text string, given bool) error {
	if !given {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return usage("--until is %q; it is a time such as 2026-01-01T10:00:00Z", text)
	}
	opts.Until, opts.HasUntil = t.UnixNano(), true
	return nil
}

func (c *cli) try(path string, opts trace.Options) error {
	if _, err := trace.NewJudge(opts); err != nil {
		return as(errUsage, fmt.Errorf("--machine: %w", err))
	}
	in, err := c.open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	res, err := trace.Run(in, opts)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if c.format == jsonl {
		return c.tryLines(res)
	}
	return c.show(res, func(t *grid) { trySheet(t, res) })
}

// tryLines prints one verdict a line.
func (c *cli) tryLines(res *trace.Result) error {
	for i := range res.Verdicts {
		if err := printLine(c.out, &res.Verdicts[i]); err != nil {
			return err
		}
	}
	return nil
}

func trySheet(t *grid, res *trace.Result) {
	t.head("LINE", "ACCOUNT", "KEY", "TRIGGER", "OUTCOME", "FROM", "TO", "VERSION", "REASON")
	for i := range res.Verdicts {
		v := &res.Verdicts[i]
		line := "muster" // its own trigger
		if v.Line > 0 {
			line = fmt.Sprint(v.Line)
		}
		t.row(line, v.Account, v.Key, v.Trigger, v.Outcome, v.From, v.To, v.Version, v.Reason)
	}
	t.line("")
	var accounts []domain.AccountView
	for _, id := range sortedKeys(res.Accounts) {
		accounts = append(accounts, res.Accounts[id])
	}
	accountRows(t, accounts)
	t.line("")
	n := &res.Counts
	t.line("%d verdicts: %d applied, %d noop, %d stale, %d rejected, %d duplicate, %d conflict, %d invalid",
		len(res.Verdicts), n.Applied, n.Noop, n.Stale, n.Rejected, n.Duplicate, n.Conflict, n.Invalid)
	t.line("%s", res.Digest)
}
