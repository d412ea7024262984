package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/subscribe"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// tailFlags are the flags of muster tail.
type tailFlags struct {
	account  string
	triggers []string
	outcomes []string
	states   []string
	sources  []string
	since    string
	most     int
}

func newTail(c *cli) *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow what happens, one line for each judged trigger",
		Long: `Follow what happens: one line for each trigger that was judged, as the server writes it.

It reads the event streams themselves, and so misses nothing: when the server is started
again it goes on behind the last line that it printed. Interrupt it to end it, or give -n.

Between accounts of different partitions there is no order; each account's lines are in order.`,
		Example: `  muster tail --account acct-1 --since 1h
  muster tail --outcome rejected,stale
  muster tail --state LOGGED_OUT -o jsonl`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.tail(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.account, "account", "", "only this account")
	flags.StringSliceVar(&f.triggers, "trigger", nil, "only these triggers, with commas between")
	flags.StringSliceVar(&f.outcomes, "outcome", nil, "only these outcomes: "+strings.Join(outcomeNames(), ", "))
	flags.StringSliceVar(&f.states, "state", nil, "only what led to one of these states, or found the account there")
	flags.StringSliceVar(&f.sources, "source", nil, "only what these sources said")
	flags.StringVar(&f.since, "since", "", `begin in the past: a duration such as 5m, a time such as 2026-01-01T10:00:00Z, a sequence (of each partition), or a position as "as_of" gives it`)
	flags.IntVarP(&f.most, "count", "n", 0, "end after so many lines (0: never)")
	return cmd
}

// outcomeNames are the outcomes that are appended.
func outcomeNames() (names []string) {
	for o := domain.Applied; o.Appended(); o++ {
		names = append(names, o.String())
	}
	return names
}

// wants says whether an event passes the filters.
func (f *tailFlags) wants(e *subscribe.Event) bool {
	has := func(list []string, word string) bool {
		return list == nil || slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, word) })
	}
	if e.Err != nil {
		return f.triggers == nil && f.outcomes == nil && f.states == nil && f.sources == nil
	}
	return has(f.triggers, e.Trigger) && has(f.outcomes, e.Outcome.String()) && has(f.states, e.To) &&
		(f.sources == nil || slices.Contains(f.sources, e.Source))
}

// config checks the flags.
func (f *tailFlags) config(now time.Time) (cfg subscribe.Config, err error) {
	for _, o := range f.outcomes {
		if !slices.Contains(outcomeNames(), strings.ToLower(o)) {
			return cfg, usage("--outcome is %q; it is one of %s", o, strings.Join(outcomeNames(), ", "))
		}
	}
	if f.most < 0 {
		return cfg, usage("--count is %d; it is not negative", f.most)
	}
	cfg = subscribe.Config{Account: f.account, Start: subscribe.FromNow}
	if f.since == "" {
		return cfg, nil
	}
	if seq, err := strconv.ParseUint(f.since, 10, 64); err == nil {
		cfg.First = max(seq, 1)
		return cfg, nil
	}
	if d, err := time.ParseDuration(f.since); err == nil && d >= 0 {
		cfg.Since = now.Add(-d)
		return cfg, nil
	}
	if t, err := time.Parse(time.RFC3339, f.since); err == nil {
		cfg.Since = t
		return cfg, nil
	}
	if err := json.Unmarshal([]byte(f.since), &cfg.After); err == nil && cfg.After != nil {
		return cfg, nil
	}
	return cfg, usage(`--since is %q; it is a duration such as 5m, a time such as 2026-01-01T10:00:00Z, a sequence such as 120, or a position such as {"0":120}`, f.since)
}

// tail prints events until the context ends, the reader goes away, or there
// were enough.
func (c *cli) tail(ctx context.Context, f *tailFlags) error {
	cfg, err := f.config(time.Now())
	if err != nil {
		return err
	}
	connection := c.connectConfig("muster tail")
	connection.Logger = slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: slog.LevelInfo}))
	nc, err := bus.Connect(ctx, connection)
	if err != nil {
		return c.hint(err)
	}
	defer nc.Close()
	sub, err := subscribe.Open(ctx, nc, cfg)
	if errors.Is(err, eventlog.ErrNotFound) {
		err = as(errNotFound, err)
	}
	if err != nil {
		return fmt.Errorf("tail: %w", err)
	}
	defer sub.Close()
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away is an error of the write
	for n := 0; f.most == 0 || n < f.most; {
		e, err := sub.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case !f.wants(&e):
			continue
		}
		n++
		if err := c.printEvent(&e); err != nil {
			if errors.Is(err, syscall.EPIPE) {
				return nil
			}
			return err
		}
	}
	return nil
}

// printEvent prints one event: as a line for people, or as JSON.
func (c *cli) printEvent(e *subscribe.Event) error {
	switch c.format.or(table) {
	case asJSON:
		return printJSON(c.out, e.View())
	case jsonl:
		return printLine(c.out, e.View())
	}
	if e.Err != nil {
		return print(c.out, fmt.Sprintf("[%s] %s: unreadable (%v)\n", e.Stored.Format("2006-01-02T15:04:05.000Z"), e.Account, e.Err))
	}
	return print(c.out, domain.LogLine(&e.Event)+"\n")
}
