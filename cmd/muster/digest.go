package main

import (
	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
)

func newDigest(c *cli) *cobra.Command {
	var wait waitFor
	cmd := &cobra.Command{
		Use:   "digest",
		Short: "Show the digest of the whole fleet's state",
		Long: `Show the digest of the whole fleet's state. Two servers, a server before and after a
restart, or a server and "muster try" on the same trace agree when the digest is the same.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var d api.Digest
			if err := c.query(cmd.Context(), api.DigestQuery, api.DigestRequest{WaitFor: wait.position()}, &d); err != nil {
				return err
			}
			return c.show(d, func(t *grid) { t.line("%s over %d accounts", d.Digest, d.Accounts) })
		},
	}
	wait.flag(cmd)
	return cmd
}
