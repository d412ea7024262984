package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

func newInbox(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "See what the inbox could not have judged, and settle it",
		Long: `The inbox takes triggers that are published to muster.in.<account> and keeps them until they
are judged. A message that can never be (it is no trigger, it is invalid or too large, its
account is damaged) is put aside with the reason: it is in nobody's way, and nothing of it is
lost. Here such messages are seen, retried when what was wrong is mended, or dropped.`,
	}
	cmd.AddCommand(newInboxList(c), newInboxRetry(c), newInboxDrop(c))
	return group(cmd)
}

func newInboxList(c *cli) *cobra.Command {
	var req api.InboxRequest
	var p pager
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the messages that could not be judged, the last one first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			page := api.Inbox{}
			page.Parked, page.Next, err = readPages(cmd.Context(), c, &p, func(s *server, before string, limit int) ([]api.ParkedMessage, string, error) {
				req.Before, req.Limit = before, limit
				var got api.Inbox
				err := s.Query(cmd.Context(), api.InboxQuery, req, &got)
				page.Waiting, page.Total = got.Waiting, got.Total
				return got.Parked, got.Next, err
			})
			if err != nil {
				return err
			}
			return c.showPage(page, func(t *grid) { inboxRows(t, &page) })
		},
	}
	p.define(cmd, api.DefaultLimit, "before", "begin behind this page (the next of its answer)")
	return cmd
}

func inboxRows(t *grid, page *api.Inbox) {
	if len(page.Parked) > 0 {
		t.head("ID", "ACCOUNT", "PUBLISHED", "BYTES", "REASON")
		for _, m := range page.Parked {
			t.row(m.ID, m.Account, clock(m.Published), m.Size, m.Reason)
		}
	}
	t.line("put aside: %d, waiting to be judged: %d", page.Total, page.Waiting)
}

func newInboxRetry(c *cli) *cobra.Command {
	return settleCommand(c, api.InboxRetryQuery, "retried", &cobra.Command{
		Use:   "retry (ID | --all)",
		Short: "Put messages that were put aside into the inbox again",
		Long: `Put messages that were put aside into the inbox again, behind what waits there. A trigger keeps
the time at which it was first published: when its account has been told something newer by
the same source meanwhile, it is stale.`,
		Example: `  muster inbox retry 17
  muster inbox retry --all`,
	})
}

func newInboxDrop(c *cli) *cobra.Command {
	return settleCommand(c, api.InboxDropQuery, "dropped", &cobra.Command{
		Use:   "drop (ID | --all)",
		Short: "Forget messages that were put aside",
		Example: `  muster inbox drop 17
  muster inbox drop --all`,
	})
}

// settleCommand is a command on one message or all that were put aside.
func settleCommand(c *cli, query, done string, cmd *cobra.Command) *cobra.Command {
	var all bool
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return usage("one message at a time, not %d; --all is for all of them", len(args))
		case all == (len(args) == 1):
			return usage("name one message by its id, as `muster inbox list` shows it, or all with --all")
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := api.SettleRequest{All: all}
		if !all {
			req.ID = args[0]
		}
		total, err := c.settle(cmd.Context(), query, req)
		if err != nil {
			return err
		}
		return c.show(total, func(t *grid) { t.line("%s: %d", done, total.Done) })
	}
	cmd.Flags().BoolVar(&all, "all", false, "all that are put aside now")
	return cmd
}

// settle asks until nothing is left to do.
func (c *cli) settle(ctx context.Context, query string, req api.SettleRequest) (total api.Settled, err error) {
	s, err := c.connect(ctx)
	if err != nil {
		return total, err
	}
	defer s.close()
	for {
		var got api.Settled
		if err := s.Query(ctx, query, req, &got); err != nil {
			return total, c.hint(err)
		}
		total.Done += got.Done
		if req.UpTo = got.UpTo; got.UpTo == "" {
			return total, nil
		}
	}
}

// publish puts a trigger into the inbox.
func (c *cli) publish(ctx context.Context, t domain.Trigger) error {
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no acknowledgement within %v", answerWithin))
	defer cancel()
	seq, err := s.inbox.Publish(ctx, &t)
	if errors.Is(err, bus.ErrInvalid) { // too large
		return c.invalidTrigger(t, err)
	}
	if err != nil {
		return c.hint(err)
	}
	stored := api.Published{Account: string(t.Account), Trigger: t.Name, Seq: seq}
	if c.format == table {
		return print(c.out, printable(fmt.Sprintf("%s: %s is in the inbox (%d)", t.Account, t.Name, seq))+"\n")
	}
	return printLine(c.out, stored)
}
