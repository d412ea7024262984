package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
)

func newAccountsCount(c *cli) *cobra.Command {
	var req api.FacetsRequest
	var wait waitFor
	cmd := &cobra.Command{
		Use:   "count",
		Short: "Count accounts by what they can be filtered by",
		Long: `Count accounts by machine, state, class, label, condition, source, what is desired and what
they need a human for. The filters are those of list; the counts are over the accounts that
they find, and exact.`,
		Example: `  muster accounts count --class down
  muster accounts count --state RUNNING --label pool=eu -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFilters(&req.ListRequest, time.Now()); err != nil {
				return err
			}
			req.WaitFor = wait.position()
			var f api.Facets
			if err := c.query(cmd.Context(), api.FacetsQuery, req, &f); err != nil {
				return err
			}
			return c.show(f, func(t *grid) { facetSheet(t, &f) })
		},
	}
	accountFilters(cmd, &req.ListRequest)
	wait.flag(cmd)
	return cmd
}

// facetSheet lays out counts for people, the largest of each kind first.
func facetSheet(t *grid, f *api.Facets) {
	t.line("%d accounts", f.Accounts)
	t.head("BY", "VALUE", "ACCOUNTS")
	rows := func(by string, counts map[string]int) {
		names := sortedKeys(counts)
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
		for _, name := range names {
			t.row(by, name, counts[name])
		}
	}
	rows("class", f.Classes)
	rows("state", f.States)
	rows("machine", f.Machines)
	rows("desired", f.Desired)
	rows("attention", f.Attention)
	rows("condition", f.Conditions)
	rows("source", f.Sources)
	for _, name := range sortedKeys(f.Labels) {
		rows("label "+name, f.Labels[name])
	}
	if f.Damaged > 0 {
		t.row("history", "damaged", f.Damaged)
	}
}
