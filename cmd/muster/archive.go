package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/offline"
	"github.com/musterhq/muster/eventlog/archive"
)

// archived is what `muster archive` prints.
type archived struct {
	Archive  string         `json:"archive"`
	Added    int64          `json:"added"`
	Records  int            `json:"records"`
	Segments int            `json:"segments"`
	Bytes    int64          `json:"bytes"`
	Last     map[int]uint64 `json:"last"` // by partition
	Elapsed  float64        `json:"elapsed_s"`
}

func newArchive(c *cli) *cobra.Command {
	var from source
	var out string
	var follow, seal bool
	var limits archive.Limits
	cmd := &cobra.Command{
		Use:   "archive",
		Short: "Copy the history into files that can be proven and replayed without a server",
		Long: `Copy the history of a server (--server), or of the data folder of a stopped one (--data), into
an archive: immutable segments with checksums, a chain and a manifest. Run again, it adds what
came since. --follow goes on until it is interrupted; "muster serve --archive" does the same
within the server. Nothing is ever taken out of the server.`,
		Example: `  muster archive --out /backup/fleet
  muster archive --data ./muster-data --out /backup/fleet`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return usage("--out is missing: the folder of the archive")
			}
			ctx := cmd.Context()
			log, done, err := from.log(ctx, c)
			if err != nil {
				return err
			}
			defer done()
			begin := time.Now()
			w, err := offline.OpenFor(ctx, out, log, limits)
			if err != nil {
				return err
			}
			var added atomic.Int64
			stop := c.progress(ctx, "archived", &added, 0)
			copying := offline.Copying{Archived: &added}
			if follow {
				err = offline.Follow(ctx, log, w, copying)
			} else {
				err = offline.Copy(ctx, log, w, copying)
			}
			stop()
			for p := 0; err == nil && seal && p < log.Partitions(); p++ {
				err = w.Seal(p)
			}
			res := archived{Archive: out, Added: added.Load(), Last: map[int]uint64{}}
			for p := range log.Partitions() {
				res.Last[p] = w.Last(p)
			}
			if e := w.Close(); err == nil {
				err = e
			}
			if err != nil {
				return err
			}
			for _, p := range w.Manifest().Partitions {
				res.add(&p)
			}
			res.Elapsed = time.Since(begin).Seconds()
			return c.show(res, func(t *grid) {
				t.line("%s: %d records added, %d in all, %d sealed segments, %d bytes", res.Archive, res.Added, res.Records, res.Segments, res.Bytes)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "folder of the archive; made when it is not there")
	f.StringVar(&from.data, "data", "", "data folder of a server that is not running, instead of --server")
	f.BoolVar(&follow, "follow", false, "go on with what comes, until interrupted")
	f.BoolVar(&seal, "seal", true, "seal the segments at the end, so that all of the archive is immutable; the next run begins new ones")
	f.IntVar(&limits.SegmentRecords, "segment-records", 0, "records of a segment (default 1000000)")
	return cmd
}

func (a *archived) add(p *archive.Partition) {
	a.Segments += len(p.Segments)
	for _, s := range p.Segments {
		a.Records += s.Records
		a.Bytes += s.Bytes
	}
	if p.Open != nil {
		a.Records += p.Open.Records
		a.Bytes += p.Open.Bytes
	}
}

func newVerify(c *cli) *cobra.Command {
	var from source
	var live bool
	var keyDir string
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check an archive to its last byte, and against the stream",
		Long: `Check an archive: sizes, checksums, the chain of segments, the order of each account's events.
With --stream it is also compared record by record with the history of the server (--server) or
of a data folder (--data). With --keys every sealed record is opened, too. The exit code is 0 when all is whole and 1 when something is damaged.`,
		Example: `  muster verify /backup/fleet
  muster verify /backup/fleet --stream -o json`,
		Args: takes("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			keys, err := readKeys(keyDir)
			if err != nil {
				return err
			}
			v, err := offline.Verify(ctx, args[0], keys)
			if err != nil {
				return asMissing(err)
			}
			if v.Whole && (live || from.data != "") {
				if v.Stream, err = compare(ctx, c, &from, args[0]); err != nil {
					return err
				}
				v.Whole = len(v.Stream.Mismatches) == 0
			}
			if err := c.show(v, func(t *grid) { verifySheet(t, args[0], v) }); err != nil {
				return err
			}
			if !v.Whole {
				return &saidError{fmt.Errorf("%s is damaged", args[0])}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from.data, "data", "", "compare with the data folder of a server that is not running")
	keysFlag(cmd, &keyDir, "open every record that there is a key for, too")
	cmd.Flags().BoolVar(&live, "stream", false, "compare with the history of the server that --server names")
	return cmd
}

func verifySheet(t *grid, dir string, v *offline.Verified) {
	t.line("%s: %d records in %d sealed segments, %d partitions, %d bytes", dir, v.Records, v.Segments, v.Partitions, v.Bytes)
	for _, f := range v.Faults {
		t.line("damaged: %s", printable(f.Error()))
	}
	for _, g := range v.Gaps {
		t.line("missing: partition %d, sequences %d to %d", g.Partition, g.First, g.Last)
	}
	if s := v.Sealed; s != nil {
		t.line("sealed: %d records were opened, there is no key for %d", s.Opened, s.Closed)
	}
	if s := v.Stream; s != nil {
		t.line("the stream: %d records, %d of them alike in the archive, %d not archived yet", s.Records, s.Compared, s.Behind)
		for _, m := range s.Mismatches {
			t.line("differs: partition %d, sequences %d to %d %s: %s", m.Partition, m.First, m.Last, printable(m.Account), m.What)
		}
	}
	if v.Whole {
		t.line("whole")
	}
}

// compare reads the stream beside the archive.
func compare(ctx context.Context, c *cli, from *source, dir string) (*offline.StreamReport, error) {
	log, done, err := from.log(ctx, c)
	if err != nil {
		return nil, err
	}
	defer done()
	a, err := openArchive(dir)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return offline.Compare(ctx, log, a)
}
