package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
)

func newRoute(c *cli) *cobra.Command {
	var req api.RouteRequest
	var wait waitFor
	cmd := &cobra.Command{
		Use:   "route",
		Short: "Pick accounts for a send: those that may, the one used longest ago first",
		Long: `Pick accounts that may send now (or read, or send in bulk), the one that was used longest ago
first. An account was used when its last message_pending or message_sent was observed; one that
has had none, when it entered its state. Report message_pending before you send: that moves the
account to the end, and the next one who asks is given another.

Exit codes: 0 there is at least one, 5 there is none.`,
		Example: `  muster route --do send --label pool=eu -n 10
  muster route --do send --scope new_chats -n 1 -o jsonl`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkDo(req.Do); err != nil {
				return err
			}
			if err := checkLimit(req.Limit); err != nil {
				return err
			}
			req.WaitFor = wait.position()
			var route api.Route
			if err := c.query(cmd.Context(), api.RouteQuery, req, &route); err != nil {
				return err
			}
			if err := showRows(c, route, route.Accounts, func(t *grid) { routeRows(t, &route) }); err != nil {
				return err
			}
			if len(route.Accounts) == 0 {
				return as(errCondition, errors.New("no account may do that now"))
			}
			return nil
		},
	}
	doFlag(cmd, &req.Do, &req.Scope)
	cmd.Flags().StringToStringVar(&req.Labels, "label", nil, "only accounts with this label: name=value, may be repeated")
	cmd.Flags().IntVarP(&req.Limit, "limit", "n", 10, "accounts at most")
	wait.flag(cmd)
	return cmd
}

// checkLimit refuses sizes of a page that the server does not give.
func checkLimit(n int) error {
	if n < 1 || n > api.MaxLimit {
		return usage("--limit is %d; from 1 to %d are possible", n, api.MaxLimit)
	}
	return nil
}

func routeRows(t *grid, route *api.Route) {
	t.head("ACCOUNT", "STATE", "LAST USED", "SINCE", "LABELS")
	for _, a := range route.Accounts {
		t.row(a.Account, a.State, clock(a.Used), clock(a.Since), labels(a.Labels))
	}
	if !route.Whole {
		t.line("others may come first: too many accounts have one of the labels and not the others")
	}
}
