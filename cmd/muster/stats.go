package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/projections/stats"
)

func newStats(c *cli) *cobra.Command {
	var wait waitFor
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show the fleet: accounts by state, transitions, time to RUNNING",
		Long: `Show the fleet's numbers: how many accounts are in which state, which transitions were
made, why accounts logged out, and how long they take to reach RUNNING. The median and the
other quantiles count the accounts that still wait; where too many do, there is no figure.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var st stats.Stats
			if err := c.query(cmd.Context(), api.StatsQuery, api.StatsRequest{WaitFor: wait.position()}, &st); err != nil {
				return err
			}
			return c.show(st, func(t *grid) { statsSheet(t, &st) })
		},
	}
	wait.flag(cmd)
	return cmd
}

// maxEdges is how many edges the table shows; JSON has all.
const maxEdges = 15

func statsSheet(t *grid, st *stats.Stats) {
	t.line("%d accounts", st.Accounts)
	t.line("")
	t.head("MACHINE", "STATE", "ACCOUNTS", "SHARE")
	for _, m := range sortedKeys(st.ByMachine) {
		for _, s := range byCount(st.ByMachine[m]) {
			t.row(m, s, st.ByMachine[m][s], share(st.ByMachine[m][s], st.Accounts))
		}
	}
	t.line("")
	t.line("judged: %d applied, %d noop, %d stale, %d rejected",
		st.Outcomes["applied"], st.Outcomes["noop"], st.Outcomes["stale"], st.Outcomes["rejected"])
	t.line("transitions: %d, of them %d in the last minute", st.Transitions.Total, st.Transitions.LastMinute)
	edgeRows(t, st.Transitions.Edges)
	if st.LoggedOut.Total > 0 {
		t.line("")
		t.line("logged out: %d", st.LoggedOut.Total)
		t.head("REASON", "TIMES")
		for _, r := range byCount(st.LoggedOut.ByReason) {
			t.row(r, st.LoggedOut.ByReason[r])
		}
	}
	t.line("")
	t.head("TIME TO RUNNING", "REACHED", "ABANDONED", "OPEN", "MEAN s", "MEDIAN s", "95 % BAND", "P90 s", "P99 s")
	episodeRow(t, "onboarding", &st.TimeToRunning.Onboarding)
	episodeRow(t, "recovery", &st.TimeToRunning.Recovery)
}

func edgeRows(t *grid, edges []stats.Edge) {
	if len(edges) == 0 {
		return
	}
	t.head("FROM", "TRIGGER", "TO", "TIMES")
	for i, e := range edges {
		if i == maxEdges {
			break
		}
		t.row(e.From, e.Trigger, e.To, e.Count)
	}
	if more := len(edges) - maxEdges; more > 0 {
		t.line("and %d more edges (-o json has all)", more)
	}
}

func episodeRow(t *grid, name string, e *stats.Episodes) {
	band := cell(e.MedianCI[0]) + " to " + cell(e.MedianCI[1])
	if e.MedianCI[0] == nil && e.MedianCI[1] == nil {
		band = "-"
	}
	t.row(name, e.Reached, e.Abandoned, e.Open, e.Mean, e.Median, band, e.P90, e.P99)
}

func share(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// sortedKeys returns the keys of m in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// byCount returns the keys of m, the greatest number first.
func byCount[N cmp.Ordered](m map[string]N) []string {
	keys := sortedKeys(m)
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(m[b], m[a]) })
	return keys
}
