package offline

import (
	"context"
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

// BenchmarkReplay measures a replay of a simulated history: the records that are
// only unpacked, those that go through the views, and the whole fold.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	const events = 400_000
	generate(b, dir, 4, 20_000, events)
	a, err := archive.OpenArchive(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	for name, o := range map[string]Options{"fold": {}, "views": {ViewsOnly: true}} {
		b.Run(name, func(b *testing.B) {
			o.Machines, o.Workers = machines(b), 1
			for b.Loop() {
				f, err := Replay(context.Background(), a, o)
				if err != nil || f.Events != events {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
	b.Run("scan", func(b *testing.B) {
		var bytes int64
		for b.Loop() {
			bytes = 0
			for p := range a.Partitions() {
				for _, s := range a.Segments(p) {
					sc := s.Scan()
					var block archive.Block
					for sc.Next(&block) == nil {
						for _, e := range block.Entries {
							bytes += int64(len(e.Data))
						}
					}
					sc.Close()
				}
			}
		}
		b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
		b.ReportMetric(float64(bytes)/events, "B/event")
	})
}
