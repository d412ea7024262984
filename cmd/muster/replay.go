package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/machinefile"
	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/domain/trace"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/projections/stats"
)

// replayed is what `muster replay` prints.
type replayed struct {
	stats.Stats
	Digest  string  `json:"digest"`
	Events  int64   `json:"events"`
	Elapsed float64 `json:"elapsed_s"`
	Rate    float64 `json:"events_per_s"`
	// Damaged lists what was passed over; it is there with --skip-damaged only.
	Damaged []string `json:"damaged,omitempty"`
}

// asMissing makes a file that is not there a "not found".
func asMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return as(errNotFound, err)
	}
	return err
}

func newReplay(c *cli) *cobra.Command {
	var o offline.Options
	var until, account, dir, keys string
	var machines []string
	var skip bool
	cmd := &cobra.Command{
		Use:   "replay ARCHIVE",
		Short: "Fold an archive without a server, to any time, or judge it again under another table",
		Long: `Fold an archive without a server and print the fleet's numbers and the digest of its state, as
a live server would give them. --until shows the fleet as it was at a time or a sequence.

With --machine every recorded trigger is judged again under another table, on the clock of the
recorded times: how many verdicts and final states would differ, by edge, with examples. The
machine replaces that of the accounts with another version of it; one of a name of its own, as a
YAML file may hold, that of all accounts.`,
		Example: `  muster replay /backup/fleet -o json
  muster replay /backup/fleet --until 2026-01-05T12:00:00Z
  muster replay /backup/fleet --machine whatsapp@1`,
		Args: takes("ARCHIVE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := openArchive(args[0])
			if err != nil {
				return err
			}
			defer a.Close()
			if o.UntilTime, o.UntilSeq, err = parseUntil(until, a.Partitions()); err != nil {
				return err
			}
			if o.Machines, _, err = registry(dir); err != nil {
				return err
			}
			if o.Keys, err = readKeys(keys); err != nil {
				return err
			}
			o.Account = domain.AccountID(account)
			if len(machines) > 0 {
				return c.rejudge(cmd.Context(), a, o, machines)
			}
			return c.replay(cmd.Context(), a, o, skip)
		},
	}
	f := cmd.Flags()
	f.StringVar(&until, "until", "", "stop at a time (RFC 3339, as recorded), a sequence, or sequences by partition (0=120,1=98)")
	f.StringVar(&account, "account", "", "this account only")
	f.StringArrayVar(&machines, "machine", nil, "judge again under this machine, or the one of a YAML file; once per family")
	f.StringVar(&dir, "machines", "", "folder of machine files (*.yaml) beside the built-in machines")
	keysFlag(cmd, &keys, "accounts have their ids; without it they have aliases")
	f.BoolVar(&skip, "skip-damaged", false, "leave out segments that are damaged, and name them, instead of refusing")
	f.IntVar(&o.Workers, "workers", 0, "partitions folded side by side (default: one for each core)")
	return cmd
}

func (c *cli) replay(ctx context.Context, a *archive.Archive, o offline.Options, skip bool) error {
	var res replayed
	var total int
	for _, p := range a.Manifest.Partitions {
		for _, s := range p.Segments {
			total += s.Records
		}
	}
	damaged := make(chan string, 1024)
	if skip {
		o.Damaged = func(err error) {
			select {
			case damaged <- err.Error():
			default:
			}
		}
	}
	var done atomic.Int64
	o.Progress = &done
	begin := time.Now()
	stop := c.progress(ctx, "replayed", &done, int64(total))
	fleet, err := offline.Replay(ctx, a, o)
	stop()
	if err != nil {
		return err
	}
	res.Elapsed = time.Since(begin).Seconds()
	if o.Account != "" && len(fleet.Accounts()) == 0 {
		return as(errNotFound, fmt.Errorf("the archive has no account %q", o.Account))
	}
	now := time.Now().UnixNano()
	if o.UntilTime != 0 {
		now = o.UntilTime
	} else if o.UntilSeq != nil {
		now = fleet.Last
	}
	res.Stats, res.Digest, res.Events = fleet.Stats(now), fleet.Digest(), fleet.Events
	res.Rate = float64(res.Events) / res.Elapsed
	close(damaged)
	for text := range damaged {
		res.Damaged = append(res.Damaged, text)
	}
	return c.show(res, func(t *grid) {
		statsSheet(t, &res.Stats)
		t.line("")
		for _, text := range res.Damaged {
			t.line("passed over: %s", printable(text))
		}
		t.line("%d events in %.2f s, %.0f events/s", res.Events, res.Elapsed, res.Rate)
		t.line("%s", res.Digest)
	})
}

func (c *cli) rejudge(ctx context.Context, a *archive.Archive, o offline.Options, machines []string) error {
	names := make([]string, len(machines))
	for i, m := range machines {
		name, err := machineNamed(o.Machines, m)
		if err != nil {
			return err
		}
		names[i] = name
	}
	table, err := offline.NewTable(trace.Options{Machines: o.Machines, Defaults: names})
	if err != nil {
		return as(errUsage, fmt.Errorf("--machine: %w", err))
	}
	var each func(offline.Difference)
	var broken error
	if c.format == jsonl {
		each = func(d offline.Difference) {
			if broken == nil {
				broken = printLine(c.out, d)
			}
		}
	}
	r, err := offline.Rejudge(ctx, a, table, o, each)
	if err = errors.Join(err, broken); err != nil || c.format == jsonl {
		return err
	}
	return c.show(r, func(t *grid) { rejudgeSheet(t, r, names) })
}

// machineNamed registers the machine of a file, or takes the name as it is.
func machineNamed(reg *machine.Registry, name string) (string, error) {
	if !strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".yml") {
		return name, nil
	}
	if _, err := os.Stat(name); err != nil {
		return "", asMissing(err)
	}
	f, err := machinefile.Load(name)
	if err != nil {
		return "", as(errUsage, err)
	}
	return f.Machine.Name(), as(errUsage, machinefile.Register(reg, []machinefile.File{f}))
}

// maxDifferences is how many rows of each kind the table shows; JSON has all.
const maxDifferences = 20

func rejudgeSheet(t *grid, r *offline.Rejudged, machines []string) {
	t.line("%d of %d triggers of %d accounts would be judged otherwise under %s", r.Differ, r.Triggers, r.Accounts, strings.Join(machines, ", "))
	t.line("%d accounts end in the same state", r.FinalSame)
	if len(r.Edges) > 0 {
		t.line("")
		t.head("TRIGGER", "WAS", "", "WOULD BE", "", "TIMES")
		for _, e := range r.Edges[:min(len(r.Edges), maxDifferences)] {
			t.row(e.Trigger, e.Was.From+" -> "+e.Was.To, e.Was.Outcome, e.Would.From+" -> "+e.Would.To, e.Would.Outcome, e.Count)
		}
	}
	if len(r.Finals) > 0 {
		t.line("")
		t.head("ENDS IN", "WOULD END IN", "ACCOUNTS", "FOR EXAMPLE")
		for _, f := range r.Finals[:min(len(r.Finals), maxDifferences)] {
			t.row(f.Was, f.Would, f.Accounts, string(f.Sample[0]))
		}
	}
	if len(r.Examples) > 0 {
		t.line("")
		for _, d := range r.Examples[:min(len(r.Examples), maxDifferences)] {
			t.line("%s #%d: %s, would be %s: %s", printable(string(d.Account)), d.Version, d.Was.Outcome, d.Would.Outcome, printable(d.Line))
		}
	}
}

// progress shows on stderr how far something has come, when that is a terminal
// or takes long, until the returned function is called. total 0 is not known.
func (c *cli) progress(ctx context.Context, what string, done *atomic.Int64, total int64) (stop func()) {
	if total == 0 {
		total = -1
	}
	bar := progressbar.NewOptions64(total, progressbar.OptionSetWriter(c.err), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("events"),
		progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0)) // it is drawn below, and leaves no goroutine behind
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = bar.Set64(done.Load()) // what cannot be shown is no reason to stop
			case <-ctx.Done():
				_ = bar.Clear()
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}
