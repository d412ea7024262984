package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

func newMessages(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "messages",
		Short: "Look at messages",
	}
	cmd.AddCommand(newMessagesGet(c), newMessagesList(c))
	return group(cmd)
}

func newMessagesGet(c *cli) *cobra.Command {
	var wait waitFor
	cmd := &cobra.Command{
		Use:     "get ACCOUNT ID",
		Short:   "Show one message: its state and when it got there",
		Long:    "Show one message. Open messages are known, and closed ones (replied to, timed out, failed) for 24 hours.",
		Example: "  muster messages get acct-1 3EB0C431 -o json",
		Args:    takes("ACCOUNT", "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var m api.Message
			req := api.MessageRequest{Account: args[0], ID: args[1], WaitFor: wait.position()}
			if err := c.query(cmd.Context(), api.MessageQuery, req, &m); err != nil {
				return err
			}
			return c.show(m, func(t *grid) { messageSheet(t, &m) })
		},
	}
	wait.flag(cmd)
	return cmd
}

func messageSheet(t *grid, m *api.Message) {
	t.line("%s of %s is %s%s", printable(m.ID), printable(m.Account), m.State, lateWord(m.Late))
	t.head("STATUS", "AT")
	for _, status := range domain.Statuses() {
		if at, ok := m.Times[status]; ok {
			t.row(status, clock(at))
		}
	}
	if m.Due != "" {
		t.row("reply due", clock(m.Due))
	}
	if m.Closed != "" {
		t.row("closed", clock(m.Closed))
	}
}

func lateWord(late bool) string {
	if late {
		return ", late"
	}
	return ""
}

func newMessagesList(c *cli) *cobra.Command {
	var req api.MessagesRequest
	var wait waitFor
	var p pager
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List messages, page by page, by account and id",
		Long: `List messages in the order of account and id: open ones, and closed ones for 24 hours.
--overdue shows those to which no reply came in time.`,
		Example: `  muster messages list --account acct-1
  muster messages list --overdue --all -o jsonl`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if req.State != "" && !slices.Contains(domain.MessageStates(), req.State) {
				return usage("--state is %q; it is one of %s", req.State, strings.Join(domain.MessageStates(), ", "))
			}
			req.WaitFor = wait.position()
			page := api.Messages{}
			var err error
			page.Messages, page.Next, err = readPages(cmd.Context(), c, &p, func(s *server, after string, limit int) ([]api.Message, string, error) {
				req.After, req.Limit = after, limit
				var got api.Messages
				err := s.Query(cmd.Context(), api.MessagesQuery, req, &got)
				page.AsOf = got.AsOf
				return got.Messages, got.Next, err
			})
			if err != nil {
				return err
			}
			return c.showPage(page, func(t *grid) { messageRows(t, page.Messages) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.Account, "account", "", "only those of this account")
	f.StringVar(&req.State, "state", "", "only those in this state, e.g. SENT")
	f.BoolVar(&req.Overdue, "overdue", false, "only those to which no reply came in time")
	p.define(cmd, api.DefaultLimit, "after", "begin behind this page (the next of its answer)")
	wait.flag(cmd)
	return cmd
}

func messageRows(t *grid, list []api.Message) {
	t.head("ACCOUNT", "MESSAGE", "STATE", "LATE", "FIRST", "REPLY DUE", "CLOSED")
	for _, m := range list {
		t.row(m.Account, m.ID, m.State, m.Late, clock(m.First), clock(m.Due), clock(m.Closed))
	}
}
