package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain/machine"
)

func newCan(c *cli) *cobra.Command {
	var req api.CanRequest
	cmd := &cobra.Command{
		Use:   "can ACCOUNT",
		Short: "May this account send now? If not, why and until when",
		Long: `Ask whether an account may send, read or send in bulk now: what its state can, minus what
its conditions block. With --scope it is asked for one kind of send only, e.g. new_chats.
The answer knows every verdict that was given before it was asked for.

Exit codes: 0 it may, 5 it may not (the reason is printed), 3 there is no such account.`,
		Example: `  muster can acct-1 --do send
  muster can acct-1 --do send --scope new_chats -o json
  muster can acct-1 --do bulk && ./campaign.sh acct-1`,
		Args: takes("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkDo(req.Do); err != nil {
				return err
			}
			req.Account = args[0]
			var can api.Can
			if err := c.query(cmd.Context(), api.CanQuery, req, &can); err != nil {
				return err
			}
			if err := c.show(can, func(t *grid) { t.line("%s", canLine(&can)) }); err != nil {
				return err
			}
			if !can.Can {
				return &saidError{as(errCondition, errors.New(can.Reason))}
			}
			return nil
		},
	}
	doFlag(cmd, &req.Do, &req.Scope)
	return cmd
}

// doFlag defines the flags that say what an account is to do.
func doFlag(cmd *cobra.Command, do, scope *string) {
	cmd.Flags().StringVar(do, "do", machine.CanSend, "what it is to do: read, send or bulk")
	cmd.Flags().StringVar(scope, "scope", "", "for which kind of send, e.g. new_chats (default: none named)")
}

// checkDo refuses a word that is no capability.
func checkDo(do string) error {
	for _, w := range machine.Capabilities() {
		if do == w {
			return nil
		}
	}
	return usage("--do is %q; it is read, send or bulk", do)
}

// canLine is the answer in one line.
func canLine(can *api.Can) string {
	what := can.Do
	if what == machine.CanBulk {
		what = "send in bulk"
	}
	if can.Scope != "" {
		what += " in " + can.Scope
	}
	if can.Can {
		return printable(fmt.Sprintf("yes: %s may %s (it is %s)", can.Account, what, can.State))
	}
	return printable(fmt.Sprintf("no: %s may not %s%s: %s", can.Account, what, untilWords(can.Until), can.Reason))
}
