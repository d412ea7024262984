package main

import (
	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/telemetry"
)

func newMetrics(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Print the alert rules and the dashboard for the server's metrics",
		Long: `A server tells its numbers to Prometheus on /metrics of its HTTP address; where tokens are asked
for, a reader's does (authorization in the scrape configuration). Here are the alert rules for
them, and a dashboard for Grafana.`,
	}
	for _, f := range []struct {
		use, short, example string
		text                []byte
	}{
		{"rules", "Print the alert rules, as a rule file of Prometheus", "  muster metrics rules > muster.rules.yaml", telemetry.Rules},
		{"dashboard", "Print the dashboard, as Grafana imports it", "  muster metrics dashboard > muster.json", telemetry.Dashboard},
	} {
		cmd.AddCommand(&cobra.Command{
			Use: f.use, Short: f.short, Example: f.example, Args: takes(),
			RunE: func(*cobra.Command, []string) error { return print(c.out, string(f.text)) },
		})
	}
	return group(cmd)
}
