package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
)

func newWorkers(c *cli) *cobra.Command {
	var wait waitFor
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "Show the workers: who lives, and for how many accounts",
		Long: `Show the workers: the processes that host connections and say so by beats. The accounts of
one that has missed three beats (lapsed), or has said goodbye (left), may not send; some time
later their state is re-determined. "expected" is one that has not been heard since the
server was started.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var w api.Workers
			if err := c.query(cmd.Context(), api.WorkersQuery, api.WorkersRequest{WaitFor: wait.position()}, &w); err != nil {
				return err
			}
			return showRows(c, w, w.Workers, func(t *grid) { workerRows(t, w.Workers) })
		},
	}
	wait.flag(cmd)
	return cmd
}

func workerRows(t *grid, workers []api.Worker) {
	t.head("WORKER", "STATE", "ACCOUNTS", "LAST BEAT", "EVERY", "BOOT")
	for _, w := range workers {
		t.row(w.Name, w.State, w.Accounts, age(w.BeatAge)+" ago", seconds(w.BeatEvery), w.Boot)
	}
}

// age writes a time span for people: to the tenth of a second when it is short.
func age(s float64) string {
	d := seconds(s)
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
