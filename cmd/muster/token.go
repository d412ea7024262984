package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/auth"
)

func newToken(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and end the tokens by which programs and people are let in",
		Long: `A token lets a program or a person in, over HTTP (Authorization: Bearer mst_…) and over the
embedded NATS server (MUSTER_TOKEN for this program; elsewhere its id as the name and its secret
as the password). Its role says what it may do:

  connector  tell what happened to accounts, as one of its sources (--source), and ask about one
  reader     ask everything, read the event streams and the feed
  operator   also send triggers, mute and acknowledge, settle the inbox
  admin      everything, tokens included

A server that listens on this machine only and has neither a password nor a token asks nobody
for anything. With the first token, which is an admin's, that ends. The secret is shown once
and kept nowhere: the server has its SHA-256.`,
	}
	cmd.AddCommand(newTokenCreate(c), newTokenList(c), newTokenRevoke(c))
	return group(cmd)
}

func newTokenCreate(c *cli) *cobra.Command {
	var req api.TokenCreateRequest
	var expires time.Duration
	var data string
	cmd := &cobra.Command{
		Use:   "create --role ROLE",
		Short: "Make a token and print it",
		Long: `Make a token and print it: this once, for its secret is kept nowhere.

With --data the token is put straight into the data of a server that does not run: the way to
the first token of a server that other machines are to reach, or to a new one when all are lost.`,
		Example: `  muster token create --role admin --name ops
  muster token create --role connector --source waha-1 --name "waha in the cellar"
  muster token create --role reader --expires 720h
  muster token create --role admin --data /var/lib/muster`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := auth.ParseRole(req.Role); err != nil {
				return usage("--role: %w", err)
			}
			if expires < 0 {
				return usage("--expires is %v; give a time such as 12h or 720h", expires)
			}
			if expires > 0 {
				req.Expires = time.Now().Add(expires).UTC().Format(time.RFC3339Nano)
			}
			var whole, secret string
			req.ID, secret, whole = auth.NewSecret()
			req.Hash = auth.HashOf(secret)
			made, err := c.createToken(cmd.Context(), req, data)
			if err != nil {
				return err
			}
			made.Token = whole
			fmt.Fprintf(c.err, "token %s, %s; it is shown this once\n", made.ID, tokenText(&made))
			return c.show(made, func(t *grid) { t.line("%s", whole) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.Role, "role", "", "connector, reader, operator or admin")
	f.StringArrayVar(&req.Sources, "source", nil, "a source that a connector speaks for; may be given again")
	f.StringVar(&req.Name, "name", "", "a name for people, e.g. who has it; it stands beside what its holder does")
	f.DurationVar(&expires, "expires", 0, "how long it can be used, e.g. 720h (default: for ever)")
	f.IntVar(&req.Rate, "rate", 0, "HTTP requests per second (0: the server's token-rate)")
	f.StringVar(&req.By, "who", userName(), "who makes it")
	f.StringVar(&data, "data", "", "the data folder of a server that does not run, to put the token into")
	return cmd
}

// createToken has the server keep a token, or puts it into its data.
func (c *cli) createToken(ctx context.Context, req api.TokenCreateRequest, data string) (made api.Token, err error) {
	if data != "" {
		return putToken(ctx, data, req)
	}
	err = c.query(ctx, api.TokenCreateQuery, req, &made)
	return made, err
}

// tokenText says what a token may do.
func tokenText(t *api.Token) string {
	s := t.Role
	if len(t.Sources) > 0 {
		s += " for " + strings.Join(t.Sources, ", ")
	}
	if t.Expires != "" {
		s += " until " + clock(t.Expires)
	}
	return s
}

func newTokenList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens, those that have ended included, the oldest first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list api.Tokens
			if err := c.query(cmd.Context(), api.TokensQuery, api.TokensRequest{}, &list); err != nil {
				return err
			}
			return c.show(list, func(t *grid) {
				t.head("ID", "ROLE", "STATUS", "NAME", "CREATED", "BY", "EXPIRES", "SOURCES")
				for i := range list.Tokens {
					k := &list.Tokens[i]
					t.row(k.ID, k.Role, k.Status, k.Name, clock(k.Created), k.By, clock(k.Expires), strings.Join(k.Sources, ", "))
				}
			})
		},
	}
}

func newTokenRevoke(c *cli) *cobra.Command {
	var req api.TokenRevokeRequest
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "End a token, and the connections that were made with it",
		Example: `  muster token revoke k3xq… --reason "left the company"`,
		Args:    takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.ID = args[0]
			if id, _, ok := auth.Split(req.ID); ok { // the whole token does as well
				req.ID = id
			}
			var ended api.Token
			if err := c.query(cmd.Context(), api.TokenRevokeQuery, req, &ended); err != nil {
				return err
			}
			return c.show(ended, func(t *grid) { t.line("token %s is revoked", ended.ID) })
		},
	}
	cmd.Flags().StringVar(&req.By, "who", userName(), "who does it")
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why, for those who look later")
	return cmd
}
