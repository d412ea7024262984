package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/bus/connector/all"
	"github.com/musterhq/muster/bus/connector/play"
	"github.com/musterhq/muster/domain"
)

func newConnectorsPlay(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "play FILE",
		Short: "Play a recorded sequence of webhooks against an empty Muster, on a virtual clock",
		Long: `Play a recorded sequence of webhooks (- is stdin) against an empty Muster in memory, on a
virtual clock: to see offline what a peer's requests lead to. Nothing is stored.

The file is one JSON object: connector (the kind), secret, config (auth, utc_offset,
verify_token, waba_numbers) and requests, each with received_at, method, path, headers and
one of body (JSON), raw (the exact body) and raw_pad. expect.until lets the clock run on.

With -o json it prints the answers, the accounts with the states that they went through,
the requests that appended nothing, the counters, and every stored event.`,
		Example: "  muster connectors play sequence.json -o json",
		Args:    takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := c.open(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			text, err := io.ReadAll(in)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			seq, err := play.Parse(text)
			if err != nil {
				return usage("%s: %w", args[0], err)
			}
			got, err := playThrough(cmd.Context(), seq)
			if err != nil {
				return usage("%s: %w", args[0], err)
			}
			return c.show(got, func(t *grid) { playSheet(t, seq, got) })
		},
	}
}

// playThrough plays a sequence through the connector that it names.
func playThrough(ctx context.Context, seq *play.Case) (*play.Result, error) {
	k, ok := all.Named(seq.Connector)
	if !ok {
		return nil, fmt.Errorf("there is no connector %q; it is one of %s", seq.Connector, strings.Join(all.Names(), ", "))
	}
	reg, _, err := registry("")
	if err != nil {
		return nil, err
	}
	judge := domain.NewJudge(reg)
	return play.Run(ctx, seq, k.New(judge), judge)
}

func playSheet(t *grid, seq *play.Case, got *play.Result) {
	t.head("REQUEST", "RECEIVED", "METHOD", "PATH", "ANSWER", "EVENTS")
	for i := range seq.Requests {
		r := &seq.Requests[i]
		path, _, _ := strings.Cut(r.Path, "?") // a query may hold a key
		t.row(i, clock(domain.FormatTime(r.At.UnixNano())), r.Method, path, got.HTTP[i], eventWords(got, i))
	}
	t.line("")
	var accounts []domain.AccountView
	for _, id := range sortedKeys(got.Accounts) {
		accounts = append(accounts, got.Accounts[id].AccountView)
	}
	accountRows(t, accounts)
	t.line("")
	for _, id := range sortedKeys(got.Accounts) {
		t.line("%s: %s", id, strings.Join(got.Accounts[id].Trail, " -> "))
	}
	t.line("%d events, %d unmapped, %d ignored", len(got.Events), got.Unmapped, got.Ignored)
	for _, name := range sortedKeys(got.Samples) {
		for _, s := range got.Samples[name] {
			t.line("unmapped from %s: %s %s", name, s.What, pairs(s.Kept))
		}
	}
}

// eventWords says what a request appended.
func eventWords(got *play.Result, i int) string {
	var words []string
	for _, e := range got.Stored[got.Spans[i][0]:got.Spans[i][1]] {
		word := e.Trigger
		if e.Key != "" {
			word += " " + e.Key
		}
		switch e.Outcome {
		case domain.Applied:
			word += " -> " + e.To
		default:
			word += " (" + e.Outcome.String() + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
