package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

func newAttention(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attention",
		Short: "See which accounts need a human; mute and acknowledge",
	}
	cmd.AddCommand(newAttentionList(c), newMute(c), newUnmute(c), newAck(c))
	return group(cmd)
}

func newAttentionList(c *cli) *cobra.Command {
	var req api.AttentionRequest
	var wait waitFor
	var p pager
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List who needs a human: what for, since when, why, and what to do",
		Long: `List who needs a human. Accounts of one source that need the same for the same reason since the
same time are one incident; --accounts shows them one by one. The incident that began last
comes first.

The kinds, the most pressing first:

` + kindsHelp(),
		Example: `  muster attention list
  muster attention list --kind scan_qr --label pool=eu --accounts -o jsonl`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req.WaitFor = wait.position()
			if req.Accounts {
				return c.listNeeds(cmd, &req, &p)
			}
			return c.listIncidents(cmd, &req, &p)
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.Kind, "kind", "", "only this kind, e.g. scan_qr")
	f.StringVar(&req.Source, "source", "", "only accounts of this source")
	f.StringToStringVar(&req.Labels, "label", nil, "only accounts with this label: name=value, may be repeated")
	f.BoolVar(&req.Accounts, "accounts", false, "one row for each account")
	p.define(cmd, api.DefaultLimit, "after", "begin behind this page (the next of its answer)")
	wait.flag(cmd)
	return cmd
}

// kindsHelp says what each kind means and what to do about it.
func kindsHelp() string {
	var b strings.Builder
	for _, k := range domain.AttentionKinds() {
		fmt.Fprintf(&b, "  %-20s %s. %s\n", k.Name, k.About, k.Do)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (c *cli) listIncidents(cmd *cobra.Command, req *api.AttentionRequest, p *pager) (err error) {
	page := api.Attention{}
	page.Incidents, page.Next, err = readPages(cmd.Context(), c, p, func(s *server, after string, limit int) ([]api.Incident, string, error) {
		req.After, req.Limit = after, limit
		var got api.Attention
		err := s.Query(cmd.Context(), api.AttentionQuery, req, &got)
		page.Total, page.AsOf = got.Total, got.AsOf
		return got.Incidents, got.Next, err
	})
	if err != nil {
		return err
	}
	return c.showPage(page, func(t *grid) { incidentRows(t, &page) })
}

func incidentRows(t *grid, page *api.Attention) {
	if len(page.Incidents) == 0 {
		t.line("no account needs a human")
		return
	}
	t.head("KIND", "ACCOUNTS", "SINCE", "SOURCE", "REASON", "WHO", "WHAT TO DO")
	for _, i := range page.Incidents {
		who := strings.Join(i.Sample, ", ")
		if more := i.Accounts - len(i.Sample); more > 0 {
			who += fmt.Sprintf(" and %d more", more)
		}
		t.row(i.Kind, i.Accounts, clock(i.Since), i.Source, i.Reason, who, i.Do)
	}
	if page.Total != nil {
		t.line("incidents: %d, accounts: %d", page.Total.Incidents, page.Total.Accounts)
	}
}

func (c *cli) listNeeds(cmd *cobra.Command, req *api.AttentionRequest, p *pager) (err error) {
	page := api.Attention{}
	page.Accounts, page.Next, err = readPages(cmd.Context(), c, p, func(s *server, after string, limit int) ([]api.NeedsAttention, string, error) {
		req.After, req.Limit = after, limit
		var got api.Attention
		err := s.Query(cmd.Context(), api.AttentionQuery, req, &got)
		page.AsOf = got.AsOf
		return got.Accounts, got.Next, err
	})
	if err != nil {
		return err
	}
	return c.showPage(page, func(t *grid) {
		t.head("ACCOUNT", "KIND", "STATE", "SINCE", "SOURCE", "REASON", "WHAT TO DO")
		for _, n := range page.Accounts {
			t.row(n.Account, n.Kind, n.State, clock(n.Since), n.Source, n.Reason, n.Do)
		}
	})
}
