package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

func newClaim(c *cli) *cobra.Command {
	var side, handler, source string
	cmd := &cobra.Command{
		Use:   "claim ACCOUNT CONTACT MESSAGE",
		Short: "Ask whether this handler may answer a customer's message",
		Long: `Ask whether a handler may answer a customer's message. Of all who ask, exactly one is granted
it; who was granted it is told so again. While a human is in charge of the conversation no bot
is, and the other way about. The claim is part of the account's history.

Exit codes: 0 granted, 8 not granted (the reason is printed): already_claimed,
human_in_charge, bot_in_charge or ended.`,
		Example: `  muster claim acct-1 15550100001@c.us 3EB0C431 --side bot --handler bot-7
  muster claim acct-1 c-1 m-1 --side human --handler anna && ./answer.sh`,
		Args: takes("ACCOUNT", "CONTACT", "MESSAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if side != "bot" && side != "human" {
				return usage("--side is %q; it is bot or human", side)
			}
			if handler == "" {
				return usage("name who would answer: --handler NAME")
			}
			t := domain.Trigger{
				Account: domain.AccountID(args[0]), Name: "claim", Key: args[1], Source: source, Expect: domain.NoExpect,
				Data: domain.Data{"message": args[2], "side": side, "handler": handler},
			}
			s, err := c.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer s.close()
			reply, err := s.Send(cmd.Context(), t)
			if err != nil {
				return c.hint(err)
			}
			answer := api.Claimed{
				Account: args[0], Contact: args[1], Message: args[2], Side: side, Handler: handler,
				Granted: reply.Outcome == domain.Applied || reply.Outcome == domain.Noop,
				Outcome: reply.Outcome.String(), Reason: reply.Reason, State: reply.To, Version: reply.Version, AsOf: reply.AsOf(),
			}
			if err := c.show(answer, func(t *grid) { t.line("%s", claimLine(&answer)) }); err != nil {
				return err
			}
			return verdictError(&reply.Verdict)
		},
	}
	cmd.Flags().StringVar(&side, "side", "", "who would answer: bot or human")
	cmd.Flags().StringVar(&handler, "handler", "", "the name of who would answer")
	cmd.Flags().StringVar(&source, "source", "", "who publishes it")
	return cmd
}

func claimLine(a *api.Claimed) string {
	if a.Granted {
		return printable(fmt.Sprintf("granted: %s answers %s of %s", a.Handler, a.Message, a.Contact))
	}
	return printable(fmt.Sprintf("not granted: %s of %s: %s", a.Message, a.Contact, a.Reason))
}
