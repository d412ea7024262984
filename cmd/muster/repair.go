package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/offline"
)

func newRepair(c *cli) *cobra.Command {
	var cfg offline.RepairConfig
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Put back from an archive what the stream has lost",
		Long: `Put back into the data folder of a stopped server what its streams have lost and an archive
holds: the same bytes at the same sequences. Without --apply it only says
what it would do.

New streams are written beside the old ones, read back through a server and compared, and then
take their place; the old ones are kept in a folder within the data folder (damaged-TIME), to be
removed by hand. Whole records behind damage in a block are kept, too, and so are those of the
copies that earlier starts have made of damaged blocks (quarantine). Where stream and archive
hold different events at one place nothing is done, and the exit code is 4.

With an empty data folder it makes the streams anew, as they were archived. Snapshots and saved
views are deleted, since they were folded without the records that come back; the next start
reads the whole history. A repair that is killed can be run again, and the next start of the
server finishes what was decided.`,
		Example: `  muster repair --archive /backup/fleet --data ./muster-data
  muster repair --archive /backup/fleet --data ./muster-data --apply`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Archive == "" || cfg.Data == "" {
				return usage("--archive and --data are both needed: the folder of the archive, and the data folder of a server that is not running")
			}
			r, err := offline.Repair(cmd.Context(), cfg)
			switch {
			case errors.Is(err, offline.ErrConflict):
				return as(errConflict, err)
			case errors.Is(err, fs.ErrNotExist):
				return as(errNotFound, err)
			case err != nil:
				return err
			}
			if err := c.show(r, func(t *grid) { repairSheet(t, r) }); err != nil {
				return err
			}
			if r.Missing > 0 || len(r.Damaged) > 0 {
				return &saidError{fmt.Errorf("%d acknowledged events are in none of the sources, %d accounts stay damaged", r.Missing, len(r.Damaged))}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Archive, "archive", "", "folder of the archive")
	f.StringVar(&cfg.Data, "data", "", "data folder of a server that is not running")
	f.BoolVar(&cfg.Apply, "apply", false, "do it; without, only say what would be done")
	return cmd
}

func repairSheet(t *grid, r *offline.Repaired) {
	for _, p := range r.Partitions {
		state := "whole"
		if p.Needed {
			state = "is written anew"
		}
		t.line("partition %d: %d whole records in the stream, %d with what comes back: %s", p.Partition, p.Stream, p.Records, state)
		for _, l := range p.FromArchive {
			t.line("  from the archive: sequences %d to %d, %s", l.First, l.Last, firstAccounts(l.Accounts))
		}
		for _, l := range p.FromCopies {
			t.line("  from copies of damaged blocks: sequences %d to %d, %s", l.First, l.Last, firstAccounts(l.Accounts))
		}
		for _, g := range p.Missing {
			t.line("  nowhere: sequences %d to %d", g.First, g.Last)
		}
	}
	for id, why := range r.Damaged {
		t.line("stays damaged: %s: %s", printable(id), printable(why))
	}
	switch {
	case !r.Needed:
		t.line("there is nothing to repair")
	case r.Applied:
		t.line("%d events were put back; the streams as they were are kept in %s", r.Restored, r.Kept)
	default:
		t.line("%d events would be put back; nothing was changed (--apply does it)", r.Restored)
	}
}

// firstAccounts names accounts, the first ones when there are many.
func firstAccounts(ids []string) string {
	const most = 5
	more := ""
	if n := len(ids) - most; n > 0 {
		ids, more = ids[:most], fmt.Sprintf(" and %d more", n)
	}
	return printable(strings.Join(ids, ", ")) + more
}
