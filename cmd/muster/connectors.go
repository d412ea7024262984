package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
)

func newConnectors(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connectors",
		Short: "Sources of webhooks: what they sent, and whether they are set up right",
		Long: `Sources of webhooks. They are configured under "connectors" in the file of serve --config
(see muster config example), and send to /hooks/<kind> or /hooks/<kind>/<name>.`,
	}
	cmd.AddCommand(newConnectorsList(c), newConnectorsTest(c), newConnectorsPlay(c))
	return group(cmd)
}

func newConnectorsList(c *cli) *cobra.Command {
	var req api.ConnectorsRequest
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the configured sources and what they have sent since the server's start",
		Long: `Show the configured sources of a running server and what they have sent since its start.
A delivery is the smallest unit that a webhook holds. Each is a fact (triggers were judged),
a duplicate, ignored (known, and of no interest) or unmapped (not known). --samples shows
what was kept of the last unmapped ones: names, ids, times, codes and states.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var got api.Connectors
			if err := c.query(cmd.Context(), api.ConnectorsQuery, req, &got); err != nil {
				return err
			}
			return showRows(c, got, got.Connectors, func(t *grid) { connectorRows(t, got.Connectors, req.Samples) })
		},
	}
	cmd.Flags().BoolVar(&req.Samples, "samples", false, "also show what was kept of the last unmapped deliveries")
	return cmd
}

func connectorRows(t *grid, list []api.Connector, samples bool) {
	t.head("NAME", "KIND", "PATH", "REQUESTS", "LAST", "FACTS", "DUPLICATES", "IGNORED", "UNMAPPED", "REFUSED", "UNAVAILABLE")
	for i := range list {
		k := &list[i]
		t.row(k.Name, k.Kind, k.Path, k.Requests, clock(k.Last), k.Facts, k.Duplicates, k.Ignored, k.Unmapped, refused(k), k.Unavailable)
	}
	if !samples {
		return
	}
	t.line("")
	t.head("NAME", "AT", "UNMAPPED", "KEPT")
	for i := range list {
		for _, s := range list[i].Samples {
			t.row(list[i].Name, clock(s.At), s.What, pairs(s.Kept))
		}
	}
}

// refused says how many requests were refused, and as what.
func refused(k *api.Connector) string {
	var words []string
	for _, row := range []struct {
		n    int64
		what string
	}{{k.Unauthenticated, "not authenticated"}, {k.Malformed, "malformed"}, {k.TooLarge, "too large"}, {k.Aborted, "cut off"}} {
		if row.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", row.n, row.what))
		}
	}
	if len(words) == 0 {
		return "0"
	}
	return strings.Join(words, ", ")
}

// pairs writes an object for people, by name.
func pairs(m map[string]any) string {
	var words []string
	for _, name := range sortedKeys(m) {
		words = append(words, fmt.Sprintf("%s=%v", name, m[name]))
	}
	return strings.Join(words, " ")
}
