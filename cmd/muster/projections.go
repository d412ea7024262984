package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
)

func newProjections(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "projections",
		Short: "Look at the views that questions are answered from, and fold them anew",
		Long: `Look at the views (read models) that questions are answered from. Each is folded from the
history alone, so each can be folded anew at any time.`,
	}
	cmd.AddCommand(newProjectionsList(c), newProjectionsRebuild(c))
	return group(cmd)
}

func newProjectionsList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the views and how they fare",
		Long: `List the views. "halted" is one that could not take an event: it takes no more of that
partition, and its answers know nothing newer of it. "parked" is one that has passed events
over. Which of the two it is, the setting "poison" of the server says.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var p api.Projections
			if err := c.query(cmd.Context(), api.ProjectionsQuery, api.ProjectionsRequest{}, &p); err != nil {
				return err
			}
			return showRows(c, p, p.Projections, func(t *grid) { projectionRows(t, p.Projections) })
		},
	}
}

func projectionRows(t *grid, list []api.Projection) {
	t.head("VIEW", "VERSION", "STATE", "FAULTS", "LAST REBUILD")
	for _, p := range list {
		t.row(p.Name, p.Version, p.State, faultText(&p), rebuildText(&p.Rebuild))
	}
}

// faultText tells of the events that a view could not take.
func faultText(p *api.Projection) string {
	if len(p.Faults) == 0 {
		return ""
	}
	f := p.Faults[0]
	n := p.Parked + uint64(len(p.Halted))
	return fmt.Sprintf("%d, the first: partition %d, sequence %d, account %s: %s", n, f.Partition, f.Seq, f.Account, f.Error)
}

// rebuildText tells how far a rebuild has come, or how it ended.
func rebuildText(b *api.Rebuild) string {
	switch {
	case b.Running:
		left := "?"
		if b.Left != nil {
			left = age(*b.Left)
		}
		return fmt.Sprintf("%d of %d events, %.0f/s, %s left", b.Done, b.Total, b.PerSecond, left)
	case b.Failed != "":
		return "failed: " + b.Failed
	case b.Ended != "":
		return fmt.Sprintf("%s, %d events, %.0f/s", clock(b.Ended), b.Done, b.PerSecond)
	}
	return ""
}

func newProjectionsRebuild(c *cli) *cobra.Command {
	var req api.RebuildRequest
	cmd := &cobra.Command{
		Use:   "rebuild NAME",
		Short: "Fold a view anew beside the one that answers, and put it in its place",
		Long: `Fold a view anew from the first event of the history. The old one goes on answering until
the new one has caught up and takes its place; when that fails, the old one stays. Progress is
told on stderr. The server goes on when this command is ended.`,
		Example: `  muster projections rebuild accounts
  muster projections rebuild talk --max-rate 20000`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Name = args[0]
			if req.MaxRate < 0 {
				return usage("--max-rate is %v; it is events per second, 0 for no bound", req.MaxRate)
			}
			return c.rebuild(cmd.Context(), req)
		},
	}
	cmd.Flags().Float64Var(&req.MaxRate, "max-rate", 0, "events per second at most; 0 = as many as the server can")
	return cmd
}

// rebuildEvery is how often it is asked how far a rebuild has come.
const rebuildEvery = 500 * time.Millisecond

func (c *cli) rebuild(ctx context.Context, req api.RebuildRequest) error {
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var p api.Projection
	if err := s.Query(ctx, api.RebuildQuery, req, &p); err != nil {
		return c.hint(err)
	}
	tick := time.NewTicker(rebuildEvery)
	defer tick.Stop()
	for p.Rebuild.Running {
		fmt.Fprintf(c.err, "%s: %s\n", p.Name, rebuildText(&p.Rebuild))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var all api.Projections
		if err := s.Query(ctx, api.ProjectionsQuery, api.ProjectionsRequest{}, &all); err != nil {
			return c.hint(err)
		}
		for _, one := range all.Projections {
			if one.Name == p.Name {
				p = one
			}
		}
	}
	if p.Rebuild.Failed != "" {
		return fmt.Errorf("%s; the old view stayed", strings.TrimSpace(p.Rebuild.Failed))
	}
	return c.show(p, func(t *grid) { projectionRows(t, []api.Projection{p}) })
}
