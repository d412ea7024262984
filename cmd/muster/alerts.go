package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/bus/alert"
	"github.com/musterhq/muster/cmd/internal/api"
)

func newAlerts(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alerts",
		Short: "See what was told to whom, send it again, try it out",
		Long: `Alerts tell other systems which accounts need a human: webhooks, signed after the Standard
Webhooks specification (https://www.standardwebhooks.com). Who is told stands in the file of
"muster serve --config FILE":

  alerts:
    endpoints:
      - name: ops
        url: https://ops.example.org/muster
        secret_file: /run/secrets/alerts
        kinds: [login_needed, banned]

login_needed, banned and damaged are told at once, everything else when it has stood for three
minutes. Many accounts of one source with one reason within a minute are one incident. Every
alert is tried ten times over some 18 hours, under one webhook-id, and can be sent again after
that. Whoever receives alerts should answer with 2xx quickly and may see one twice, with the
same webhook-id, when the connection broke.`,
	}
	cmd.AddCommand(newAlertsList(c), newDeliveries(c), newResend(c), newAlertsTest(c), newListen(c))
	return group(cmd)
}

func newAlertsList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List what was told and is not over, and what is muted",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var got api.Alerts
			if err := c.query(cmd.Context(), api.AlertsQuery, api.AlertsRequest{}, &got); err != nil {
				return err
			}
			return showRows(c, got, got.Open, func(t *grid) { alertRows(t, &got) })
		},
	}
}

func alertRows(t *grid, a *api.Alerts) {
	if len(a.Endpoints) == 0 {
		t.line("nobody is told: `muster serve` has no alerts in its configuration")
	} else {
		t.head("ENDPOINT", "WAITING", "DISABLED SINCE")
		for _, e := range a.Endpoints {
			t.row(e.Name, e.Waiting, clock(e.Disabled))
		}
	}
	if len(a.Open) > 0 {
		t.line("")
		t.head("INCIDENT", "ENDPOINT", "KIND", "ACCOUNTS", "SINCE", "SOURCE", "REASON", "STATUS", "WHO")
		for _, o := range a.Open {
			who := strings.Join(o.Sample, ", ")
			if more := o.Accounts - len(o.Sample); more > 0 {
				who += fmt.Sprintf(" and %d more", more)
			}
			t.row(o.Incident, o.Endpoint, o.Kind, o.Accounts, clock(o.Since), o.Source, o.Reason, o.Status, who)
		}
	}
	if len(a.Mutes)+len(a.Acks) > 0 {
		t.line("")
		t.head("ACTION", "TARGET", "UNTIL", "BY", "REASON", "ID")
		for _, list := range [][]api.Action{a.Mutes, a.Acks} {
			for _, m := range list {
				t.row(m.Action, targetText(m.Target), clock(m.Until), m.By, m.Reason, m.ID)
			}
		}
	}
	t.line("")
	n := a.Counts
	t.line("since the start: %d began, %d healed, %d muted; %d alerts made, %d delivered, %d tries failed, %d dead; %d may still heal",
		n.Opened, n.Healed, n.Muted, n.Made, n.Delivered, n.Failed, n.Dead, a.Debounced)
}

func newDeliveries(c *cli) *cobra.Command {
	var req api.DeliveriesRequest
	cmd := &cobra.Command{
		Use:   "deliveries",
		Short: "List alerts on their way, the one made last first: status, tries, when the next one is",
		Example: `  muster alerts deliveries --status dead
  muster alerts deliveries --account acct-1 -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var got api.Deliveries
			if err := c.query(cmd.Context(), api.DeliveriesQuery, req, &got); err != nil {
				return err
			}
			return showRows(c, got, got.Deliveries, func(t *grid) { deliveryRows(t, got.Deliveries) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.Endpoint, "endpoint", "", "only to this endpoint")
	f.StringVar(&req.Account, "account", "", "only about this account")
	f.StringVar(&req.Status, "status", "", "only these: pending, delivered or dead")
	f.IntVar(&req.Limit, "limit", api.DefaultLimit, fmt.Sprintf("how many at most, 1 to %d", api.MaxLimit))
	return cmd
}

func deliveryRows(t *grid, list []api.Delivery) {
	if len(list) == 0 {
		t.line("no alert was made, or none that is asked for")
		return
	}
	t.head("ID", "ENDPOINT", "TYPE", "KIND", "ABOUT", "STATUS", "TRIES", "MADE", "NEXT", "LAST")
	for _, d := range list {
		about := d.Account
		if about == "" {
			about = d.Incident
		}
		last := d.Error
		if last == "" && d.Code != 0 {
			last = fmt.Sprint(d.Code)
		}
		t.row(d.ID, d.Endpoint, d.Type, d.Kind, about, d.Status, d.Attempts, clock(d.Made), clock(d.Next), last)
	}
}

func newResend(c *cli) *cobra.Command {
	var req api.ResendRequest
	cmd := &cobra.Command{
		Use:   "resend (ID | --dead)",
		Short: "Send alerts once more that were delivered or given up, under the same webhook-id",
		Example: `  muster alerts resend alert_k3x…
  muster alerts resend --dead --endpoint ops`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1 || req.Dead == (len(args) == 1):
				return usage("name one alert by its id, as `muster alerts deliveries` shows it, or all that are dead with --dead")
			case req.Endpoint != "" && !req.Dead:
				return usage("--endpoint goes with --dead")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				req.ID = args[0]
			}
			var got api.Resent
			if err := c.query(cmd.Context(), api.ResendQuery, req, &got); err != nil {
				return err
			}
			return c.show(got, func(t *grid) { t.line("sent again: %d", got.Done) })
		},
	}
	cmd.Flags().BoolVar(&req.Dead, "dead", false, "all that were given up")
	cmd.Flags().StringVar(&req.Endpoint, "endpoint", "", "with --dead: only those to this endpoint")
	return cmd
}

func newAlertsTest(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "test ENDPOINT",
		Short: "Send a test alert and say what came back",
		Long: `Send a test alert to an endpoint and say what came back. When it is taken, an endpoint that was
disabled because it had answered 410 is enabled again.`,
		Args: takes("ENDPOINT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var d api.Delivery
			if err := c.query(cmd.Context(), api.TestAlertQuery, api.TestAlertRequest{Endpoint: args[0]}, &d); err != nil {
				return err
			}
			err := c.show(d, func(t *grid) {
				if d.Status == string(alert.Delivered) {
					t.line("%s has taken the test alert (%d)", d.Endpoint, d.Code)
				}
			})
			if err == nil && d.Status != string(alert.Delivered) {
				err = fmt.Errorf("%s has not taken the test alert: %s", d.Endpoint, d.Error)
			}
			return err
		},
	}
}
