package main

import (
	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/buildinfo"
)

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which build this is",
		Args:  takes(),
		RunE: func(*cobra.Command, []string) error {
			info := buildinfo.Read()
			return c.show(info, func(t *grid) {
				t.line("muster %s (%s, %s)", info.Version, info.Go, info.Platform)
			})
		},
	}
}
