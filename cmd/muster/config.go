package main

import (
	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/config"
)

func newConfig(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Look at the configuration of serve",
	}
	cmd.AddCommand(newConfigPrint(c), newConfigExample(c))
	return group(cmd)
}

func newConfigPrint(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print every setting and where its value comes from",
		Long: `Print every setting as serve would take it, given the same flags, environment and file,
and where each value comes from. The output is itself a file that --config reads.`,
		Example:     "  MUSTER_PARTITIONS=8 muster config print --config muster.yaml",
		Annotations: inYAML,
		Args:        takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(cmd.Flags())
			if err != nil {
				return as(errUsage, err)
			}
			if f := c.format.or(asYAML); f == asYAML || f == table {
				return print(c.out, cfg.YAML())
			}
			values := cfg.All()
			return showRows(c, values, values, nil)
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

func newConfigExample(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "Print a configuration file with every setting explained",
		Args:  takes(),
		RunE:  func(*cobra.Command, []string) error { return print(c.out, config.Example()) },
	}
}
