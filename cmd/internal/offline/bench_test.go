package offline

import (
	"context"
	"flag"
	"testing"

	"github.com/musterhq/muster/cmd/internal/sim"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/codec"
)

// generate writes a simulated history into an archive.
func generate(t testing.TB, dir string, partitions, accounts, events int) {
	t.Helper()
	incarnations := make([]string, partitions)
	for i := range incarnations {
		incarnations[i] = "bench"
	}
	w, err := archive.Open(dir, incarnations, archive.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	seqs := make([]uint64, partitions)
	last := map[string][16]byte{}
	for e := range sim.Events(1, accounts) {
		if events--; events < 0 {
			break
		}
		id := string(e.Account)
		e.Prev = last[id]
		data, err := codec.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		last[id] = codec.Hash(data)
		p := eventlog.Partition(id, partitions)
		seqs[p]++
		if err := w.Append(p, eventlog.Record{Partition: p, Seq: seqs[p], Account: id, Data: data, Time: e.Recorded}); err != nil {
			t.Fatal(err)
		}
	}
	for p := range partitions {
		if err := w.Seal(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func machines(t testing.TB) *machine.Registry {
	t.Helper()
	return lifecycle.Registry()
}

// kept is an archive to measure instead of a new one, e.g. of muster bench replay.
var kept = flag.String("archive", "", "an archive to measure")

// every says which recorded sequences are imported: each one costs the start of a
// server.
var every = flag.Int("every", 4, "import every n-th recorded sequence")

// BenchmarkReplay measures a replay on one core: the views alone, and the fold
// with the counts of states and the times to RUNNING. muster bench replay
// measures more.
func BenchmarkReplay(b *testing.B) {
	dir := *kept
	if dir == "" {
		dir = b.TempDir()
		generate(b, dir, 4, 2_000, 200_000)
	}
	a, err := archive.OpenArchive(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	for name, o := range map[string]Options{"fold": {}, "views": {ViewsOnly: true}} {
		b.Run(name, func(b *testing.B) {
			o.Machines, o.Workers, o.NoTransitions = machines(b), 1, true
			var events int64
			for b.Loop() {
				f, err := Replay(context.Background(), a, o)
				if err != nil {
					b.Fatal(err)
				}
				events += f.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
