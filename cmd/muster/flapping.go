package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
)

func newAccountsFlapping(c *cli) *cobra.Command {
	var wait waitFor
	var window time.Duration
	cmd := &cobra.Command{
		Use:   "flapping",
		Short: "Show which accounts come and go, and how often",
		Long: `Show which accounts come and go: how many have the condition flapping, by machine and
source, and those that moved into DISCONNECTED twice or more often in the last minutes, the
worst first. The condition itself, with its since and until, stands in
"muster accounts list --condition flapping -o json".`,
		Example: "  muster accounts flapping --window 1h",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if window <= 0 || window > time.Hour {
				return usage("--window is %s; from 1s to 1h are possible", window)
			}
			var got api.Transitions
			req := api.TransitionsRequest{Window: window.String(), WaitFor: wait.position()}
			if err := c.query(cmd.Context(), api.TransitionsQuery, req, &got); err != nil {
				return err
			}
			return c.show(got.Flapping, func(t *grid) { flappingSheet(t, got.Flapping) })
		},
	}
	cmd.Flags().DurationVar(&window, "window", 10*time.Minute, "count the losses of so much time up to now, 1h at most")
	wait.flag(cmd)
	return cmd
}

// flappingSheet lays it out for people.
func flappingSheet(t *grid, f *api.Flapping) {
	t.line("%d accounts are flapping", f.Accounts)
	for _, by := range []struct {
		head   string
		counts map[string]int
	}{{"MACHINE", f.Machines}, {"SOURCE", f.Sources}} {
		if len(by.counts) == 0 {
			continue
		}
		t.line("")
		t.head(by.head, "ACCOUNTS")
		for _, name := range byCount(by.counts) {
			t.row(name, by.counts[name])
		}
	}
	if len(f.Lost) == 0 {
		return
	}
	t.line("")
	t.head("ACCOUNT", "TIMES LOST", "LAST", "STATE", "MACHINE", "SOURCE", "FLAPPING")
	for _, l := range f.Lost {
		t.row(l.Account, l.Times, clock(l.Last), l.State, l.Machine, l.Source, l.Flapping)
	}
	if !f.Whole {
		t.line("")
		t.line("more accounts were lost than are kept; some may be missing")
	}
}
