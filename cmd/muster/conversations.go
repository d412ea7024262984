package main

import (
	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
)

func newConversations(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conversations",
		Short: "Look at conversations: who is in charge, who waits for an answer",
	}
	cmd.AddCommand(newConversationsGet(c), newConversationsList(c))
	return group(cmd)
}

func newConversationsGet(c *cli) *cobra.Command {
	var wait waitFor
	cmd := &cobra.Command{
		Use:     "get ACCOUNT CONTACT",
		Short:   "Show one conversation: who is in charge, what is open, who claimed what",
		Example: "  muster conversations get acct-1 15550100001@c.us -o json",
		Args:    takes("ACCOUNT", "CONTACT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v api.Conversation
			req := api.ConversationRequest{Account: args[0], Contact: args[1], WaitFor: wait.position()}
			if err := c.query(cmd.Context(), api.ConversationQuery, req, &v); err != nil {
				return err
			}
			return c.show(v, func(t *grid) { conversationSheet(t, &v) })
		},
	}
	wait.flag(cmd)
	return cmd
}

// maxClaims is how many claims the table shows; JSON has all.
const maxClaims = 10

func conversationSheet(t *grid, v *api.Conversation) {
	t.line("%s with %s is %s", printable(v.Account), printable(v.Contact), v.State)
	if v.NobodyAnswering {
		t.line("nobody answers")
	}
	if len(v.OpenTurns) > 0 {
		t.line("")
		t.head("OPEN MESSAGE", "SINCE")
		for _, turn := range v.OpenTurns {
			t.row(turn.Message, clock(turn.At))
		}
	}
	if len(v.Claims) > 0 {
		t.line("")
		t.head("CLAIMED MESSAGE", "BY")
		for _, one := range v.Claims[max(0, len(v.Claims)-maxClaims):] {
			t.row(one.Message, one.Handler)
		}
	}
}

func newConversationsList(c *cli) *cobra.Command {
	var req api.ConversationsRequest
	var wait waitFor
	var p pager
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List conversations, page by page, by account and contact",
		Long: `List conversations in the order of account and contact. --unanswered shows those in which a
customer waits for an answer.`,
		Example: `  muster conversations list --mode human --unanswered
  muster conversations list --account acct-1 -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch req.Mode {
			case "", "bot", "human", "ended":
			default:
				return usage("--mode is %q; it is bot, human or ended", req.Mode)
			}
			req.WaitFor = wait.position()
			page := api.Conversations{}
			var err error
			page.Conversations, page.Next, err = readPages(cmd.Context(), c, &p, func(s *server, after string, limit int) ([]api.Conversation, string, error) {
				req.After, req.Limit = after, limit
				var got api.Conversations
				err := s.Query(cmd.Context(), api.ConversationsQuery, req, &got)
				page.AsOf = got.AsOf
				return got.Conversations, got.Next, err
			})
			if err != nil {
				return err
			}
			return c.showPage(page, func(t *grid) { conversationRows(t, page.Conversations) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.Account, "account", "", "only those of this account")
	f.StringVar(&req.Mode, "mode", "", "only those of which this side is in charge: bot or human; or ended")
	f.BoolVar(&req.Unanswered, "unanswered", false, "only those in which a customer waits for an answer")
	p.define(cmd, api.DefaultLimit, "after", "begin behind this page (the next of its answer)")
	wait.flag(cmd)
	return cmd
}

func conversationRows(t *grid, list []api.Conversation) {
	t.head("ACCOUNT", "CONTACT", "STATE", "OPEN", "WAITING SINCE", "NOBODY ANSWERS")
	for _, v := range list {
		t.row(v.Account, v.Contact, v.State, len(v.OpenTurns), clock(v.WaitingSince), v.NobodyAnswering)
	}
}
