package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
)

func newTimeline(c *cli) *cobra.Command {
	var p pager
	cmd := &cobra.Command{
		Use:   "timeline ACCOUNT",
		Short: "Show an account's events, the last one first",
		Example: `  muster timeline acct-1
  muster timeline acct-1 --all -o jsonl > acct-1.jsonl`,
		Args: takes("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			page := api.Timeline{Account: args[0]}
			page.Events, page.Next, err = readPages(cmd.Context(), c, &p, func(s *server, before string, limit int) ([]api.Event, string, error) {
				var got api.Timeline
				err := s.Query(cmd.Context(), api.TimelineQuery, api.TimelineRequest{Account: args[0], Before: before, Limit: limit}, &got)
				page.AsOf = got.AsOf
				return got.Events, got.Next, err
			})
			if err != nil {
				return err
			}
			return c.showPage(page, func(t *grid) { eventRows(t, page.Events) })
		},
	}
	p.define(cmd, 50, "before", "begin before this page (the next of its answer)")
	return cmd
}

func eventRows(t *grid, events []api.Event) {
	t.head("VERSION", "AT", "TRIGGER", "OUTCOME", "FROM", "TO", "SOURCE", "REASON", "CONDITIONS")
	for i := range events {
		e := &events[i]
		if e.Error != "" {
			t.row("?", "", "", "unreadable", "", "", "", e.Error, "")
			continue
		}
		trigger := e.Trigger
		if e.Key != "" {
			trigger += " " + e.Key
		}
		t.row(e.Version, clock(e.At), trigger, e.Outcome, e.From, e.To, e.Source, eventReason(e), eventConditions(e))
	}
}

// eventReason is why it was refused, or why it happened.
func eventReason(e *api.Event) string {
	switch {
	case e.Verdict != "":
		return e.Verdict
	case e.ReasonCode != "":
		return e.ReasonCode
	}
	return e.ReasonText
}

// eventConditions are the conditions that an event set (+) and ended (-).
func eventConditions(e *api.Event) string {
	var words []string
	for _, c := range e.Set {
		name := "+" + c.Name
		if c.Scope != "" {
			name += "/" + c.Scope
		}
		words = append(words, name)
	}
	for _, name := range e.Ended {
		words = append(words, "-"+name)
	}
	return strings.Join(words, " ")
}
