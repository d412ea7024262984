package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/domain"
)

// exporting are the flags of `muster export`.
type exporting struct {
	from          source
	archive, keys string
	format, out   string
	account       string
	filter        offline.Filter
	labels        []string
	after, before string
}

func newExport(c *cli) *cobra.Command {
	var x exporting
	cmd := &cobra.Command{
		Use:   "export [ARCHIVE]",
		Short: "Write the history as JSON lines, CSV, Parquet or OCEL 2.0",
		Long: `Write the history of an archive, of a server (--server), or of the data folder of a stopped one
(--data), oldest first.

  jsonl    trace lines with all that was judged, Muster's own deadlines too, each with the time
           at which it was recorded (the field "recorded"): "muster try" and "muster import" make
           the same history of them again
  said     trace lines with what publishers said alone: for "muster send --file", and for
           "muster try", whose clock makes the deadlines anew (heartbeats are not stored, so
           wecom accounts seem to miss them)
  csv      a row for each event, with a head
  parquet  the same rows, typed and compressed
  ocel     an object-centric event log (OCEL 2.0 in JSON) for process mining: the objects are
           accounts, messages and conversations, with their states over time; held in memory

DuckDB:  SELECT to_state, count(*) FROM 'fleet.parquet' WHERE outcome = 'applied' GROUP BY 1
pandas:  pandas.read_parquet("fleet.parquet").groupby(["from_state", "trigger", "to_state"]).size()
PM4Py:   pm4py.discover_oc_petri_net(pm4py.read_ocel2_json("fleet.json"))`,
		Example: `  muster export /backup/fleet -o parquet --out fleet.parquet
  muster export /backup/fleet --account +15550100001 > trace.jsonl
  muster export -o ocel --label pool=eu --from 2026-01-01T00:00:00Z --out fleet.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				x.archive = args[0]
			}
			return c.export(cmd.Context(), &x)
		},
	}
	f := cmd.Flags()
	f.StringVar(&x.from.data, "data", "", "data folder of a server that is not running, instead of --server")
	keysFlag(cmd, &x.keys, "ids and texts are as they were; without it they have aliases and tokens")
	f.StringVarP(&x.format, "output", "o", "jsonl", "format: "+strings.Join(offline.Formats(), ", ")) // instead of that of all commands
	f.StringVar(&x.out, "out", "", "file to write (default: stdout)")
	f.StringVar(&x.account, "account", "", "this account only")
	f.StringVar(&x.filter.Machine, "machine", "", "accounts of this machine only")
	f.StringArrayVar(&x.labels, "label", nil, "accounts with this label only, key=value; repeat for all of several")
	f.StringVar(&x.filter.Trigger, "trigger", "", "events of this trigger only")
	f.StringVar(&x.after, "from", "", "events at this time or later, RFC 3339")
	f.StringVar(&x.before, "to", "", "events before this time, RFC 3339")
	return cmd
}

// read checks the flags.
func (x *exporting) read() error {
	x.filter.Account = domain.AccountID(x.account)
	if !slices.Contains(offline.Formats(), x.format) {
		return usage("-o is %q; it is one of %s", x.format, strings.Join(offline.Formats(), ", "))
	}
	if x.archive != "" && x.from.data != "" {
		return usage("an archive and --data are given; give one")
	}
	for _, l := range x.labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return usage("--label is %q; it is key=value", l)
		}
		if x.filter.Labels == nil {
			x.filter.Labels = map[string]string{}
		}
		x.filter.Labels[k] = v
	}
	for name, to := range map[string]*int64{"from": &x.filter.From, "to": &x.filter.To} {
		text := x.after
		if name == "to" {
			text = x.before
		}
		if text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return usage("--%s is %q; it is a time such as 2026-01-01T10:00:00Z", name, text)
		}
		*to = t.UnixNano()
	}
	return nil
}

func (c *cli) export(ctx context.Context, x *exporting) error {
	if err := x.read(); err != nil {
		return err
	}
	keys, err := readKeys(x.keys)
	if err != nil {
		return err
	}
	stored, done, err := x.history(ctx, c)
	if err != nil {
		return err
	}
	defer done()
	h := offline.Opened(stored, keys)
	if x.out == "" {
		_, err := x.write(ctx, h, c.out)
		return err
	}
	f, err := os.Create(x.out)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	n, err := x.write(ctx, h, f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.err, "%d events in %s\n", n, x.out)
	return nil
}

func (x *exporting) history(ctx context.Context, c *cli) (offline.History, func(), error) {
	if x.archive == "" {
		return x.from.log(ctx, c)
	}
	a, err := openArchive(x.archive)
	if err != nil {
		return nil, nil, err
	}
	return a, func() { _ = a.Close() }, nil
}

func (x *exporting) write(ctx context.Context, h offline.History, w io.Writer) (int64, error) {
	sink, err := offline.NewSink(x.format, w)
	if err != nil {
		return 0, err
	}
	return offline.Export(ctx, h, x.filter, sink)
}
