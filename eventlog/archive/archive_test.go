package archive

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/musterhq/muster/eventlog"
)

var update = flag.Bool("update", false, "write the golden archive; only for a new format version")

// small limits give several frames and segments of a few records.
var small = Limits{FrameRecords: 4, FrameBytes: 200, SegmentRecords: 10, SegmentBytes: 1 << 20}

// history makes records of one partition of n.
func history(partition, n, count int) []eventlog.Record {
	rng := rand.New(rand.NewPCG(7, uint64(partition)))
	var ids []string
	for i := 0; len(ids) < 5; i++ {
		if id := fmt.Sprintf("acct-%d@s.whatsapp.net", i); eventlog.Partition(id, n) == partition {
			ids = append(ids, id)
		}
	}
	var out []eventlog.Record
	for i := range count {
		out = append(out, eventlog.Record{
			Partition: partition, Seq: uint64(i + 1), Account: ids[rng.IntN(len(ids))],
			Time: 1_767_225_600_000_000_000 + int64(i)*1_000_000 - int64(rng.IntN(10)), // not quite in order
			Data: fmt.Appendf(nil, "record %d of %d with some text", i+1, partition),
		})
	}
	return out
}

// build writes an archive with two partitions, the second one still open.
func build(t testing.TB, dir string, limits Limits) [][]eventlog.Record {
	t.Helper()
	w, err := Open(dir, []string{"inc-a", "inc-b"}, limits)
	if err != nil {
		t.Fatal(err)
	}
	all := [][]eventlog.Record{history(0, 2, 27), history(1, 2, 17)}
	for p, records := range all {
		if err := w.Append(p, records...); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Seal(0); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// read returns all records of an archive.
func read(dir string) (out [][]eventlog.Record, err error) {
	a, err := OpenArchive(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	for p := range a.Partitions() {
		var one []eventlog.Record
		for r, err := range a.Read(context.Background(), p, 0) {
			if err != nil {
				return nil, err
			}
			one = append(one, r)
		}
		out = append(out, one)
	}
	return out, nil
}

func same(a, b eventlog.Record) bool {
	return a.Partition == b.Partition && a.Seq == b.Seq && a.Account == b.Account && a.Time == b.Time && string(a.Data) == string(b.Data)
}

func equal(a, b [][]eventlog.Record) bool {
	return slices.EqualFunc(a, b, func(x, y []eventlog.Record) bool { return slices.EqualFunc(x, y, same) })
}

func TestWhatIsReadIsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	want := build(t, dir, small)
	got, err := read(dir)
	if err != nil || !equal(got, want) {
		t.Fatalf("read %d and %d records, %v", len(got[0]), len(got[1]), err)
	}
	r, err := Verify(context.Background(), dir, nil)
	if err != nil || len(r.Faults) > 0 || len(r.Gaps) > 0 || r.Records != 44 || r.Segments != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	a, err := OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for after := range uint64(28) {
		var seqs []uint64
		for r, err := range a.Read(context.Background(), 0, after) {
			if err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, r.Seq)
		}
		if len(seqs) != int(27-after) || len(seqs) > 0 && seqs[0] != after+1 {
			t.Fatalf("after %d: %v", after, seqs)
		}
	}
	for p, records := range want {
		for _, probe := range records {
			for _, from := range []uint64{0, probe.Seq} {
				var have, should []uint64
				for r, err := range a.Account(context.Background(), probe.Account, from) {
					if err != nil {
						t.Fatal(err)
					}
					have = append(have, r.Seq)
				}
				for _, r := range records {
					if r.Account == probe.Account && r.Seq >= from {
						should = append(should, r.Seq)
					}
				}
				if !slices.Equal(have, should) {
					t.Fatalf("partition %d, %s from %d: %v, want %v", p, probe.Account, from, have, should)
				}
			}
		}
	}
}

// files lists an archive's files but for the lock.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != lockFile {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEveryFlippedByteIsNamed flips every byte of every file, and cuts every file at every byte: Verify names it, and whoever reads gets an
// error or what was written, never anything else.
func TestEveryFlippedByteIsNamed(t *testing.T) {
	dir := t.TempDir()
	want := build(t, dir, small)
	for _, path := range files(t, dir) {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, at int, changed []byte) {
			if err := os.WriteFile(path, changed, 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := Verify(context.Background(), dir, nil)
			if err != nil || len(r.Faults) == 0 {
				t.Errorf("%s: %s at byte %d: %+v, %v", filepath.Base(path), what, at, r, err)
			}
			if got, err := read(dir); err == nil && !equal(got, want) {
				t.Errorf("%s: %s at byte %d: read as if nothing were wrong, with other records", filepath.Base(path), what, at)
			}
		}
		for i := range whole {
			c := slices.Clone(whole)
			c[i] ^= []byte{0xff, 0x01, 0x20, 0x80}[i%4]
			check("flip", i, c)
			check("cut", i, whole[:i])
		}
		if filepath.Ext(path) != openExt { // there, it may be the begin of what was being written
			check("one byte more", len(whole), append(slices.Clone(whole), 0))
		}
		if t.Failed() {
			return
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if r, err := Verify(context.Background(), dir, nil); err == nil && len(r.Faults) == 0 {
			t.Errorf("%s is gone and nothing is named", path)
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWrongSegmentsAreNamed swaps segments with each other, with those of
// another archive and with an older copy.
func TestWrongSegmentsAreNamed(t *testing.T) {
	dir, other, older := t.TempDir(), t.TempDir(), t.TempDir()
	build(t, dir, small)
	build(t, older, Limits{FrameRecords: 4, FrameBytes: 200, SegmentRecords: 8, SegmentBytes: 1 << 20})
	w, err := Open(other, []string{"inc-c", "inc-d"}, small)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Append(0, history(0, 2, 27)...), w.Seal(0), w.Append(1, history(1, 2, 17)...), w.Close()); err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join("00", fmt.Sprintf("%020d.seg", 1)), filepath.Join("00", fmt.Sprintf("%020d.seg", 13))
	for name, from := range map[string]string{
		"another place": filepath.Join(dir, second), "another partition": filepath.Join(dir, "01", fmt.Sprintf("%020d.seg", 1)),
		"another stream": filepath.Join(other, first), "an older copy": filepath.Join(older, first),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, first)
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			defer os.WriteFile(path, whole, 0o644)
			r, err := Verify(context.Background(), dir, nil)
			if err != nil || len(r.Faults) == 0 || r.Faults[0].Partition != 0 || r.Faults[0].First != 1 {
				t.Errorf("%+v, %v", r, err)
			}
			if _, err := read(dir); err == nil {
				t.Error("it is read as if nothing were wrong")
			}
		})
	}
}

// TestKilledAtAnyByte cuts the open segment at every byte that was not yet named
// by the manifest, as a kill in the middle of a write does, and goes on.
func TestKilledAtAnyByte(t *testing.T) {
	base := t.TempDir()
	records := history(1, 2, 9)
	w, err := Open(base, []string{"inc-a", "inc-b"}, small)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Append(1, records[:4]...), w.Flush(1)); err != nil {
		t.Fatal(err)
	}
	named := w.Manifest().Partitions[1].Open.Bytes
	if err := w.Append(1, records[4:8]...); err != nil { // a second frame, not named
		t.Fatal(err)
	}
	open := filepath.Join("01", fmt.Sprintf("%020d.open", 1))
	whole, err := os.ReadFile(filepath.Join(base, open))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(base, manifestFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for cut := named; cut <= int64(len(whole)); cut++ {
		dir := t.TempDir()
		torn := append(slices.Clone(whole[:cut]), make([]byte, cut%3)...) // some disks leave zeros
		err := errors.Join(os.Mkdir(filepath.Join(dir, "01"), 0o755),
			os.WriteFile(filepath.Join(dir, manifestFile), manifest, 0o644), os.WriteFile(filepath.Join(dir, open), torn, 0o644))
		if err != nil {
			t.Fatal(err)
		}
		w, err := Open(dir, []string{"inc-a", "inc-b"}, small)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		last := w.Last(1)
		if want := uint64(4); last != want && cut < int64(len(whole)) || last != 8 && cut == int64(len(whole)) {
			t.Fatalf("cut at %d: goes on after %d", cut, last)
		}
		if err := errors.Join(w.Append(1, records[last:]...), w.Seal(1), w.Close()); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		got, err := read(dir)
		if err != nil || !slices.EqualFunc(got[1], records, same) {
			t.Fatalf("cut at %d: %d records, %v", cut, len(got[1]), err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, open), whole[:named-1], 0o644); err != nil {
		t.Fatal(err)
	}
	var fault *Fault
	if _, err := Open(base, []string{"inc-a", "inc-b"}, small); !errors.As(err, &fault) {
		t.Fatalf("less than the manifest names: %v", err)
	}
}

// TestKilledWhileSealing stops a seal after each of its steps.
func TestKilledWhileSealing(t *testing.T) {
	records := history(0, 1, 7)
	for _, step := range []string{"the sealed file is half written", "the sealed file is there", "the manifest names it"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			w, err := Open(dir, []string{"inc"}, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Append(0, records[:5]...), w.Flush(0)); err != nil {
				t.Fatal(err)
			}
			open := filepath.Join(dir, "00", fmt.Sprintf("%020d.open", 1))
			sealed := filepath.Join(dir, "00", fmt.Sprintf("%020d.seg", 1))
			before, err := os.ReadFile(open)
			if err != nil {
				t.Fatal(err)
			}
			manifest, err := os.ReadFile(filepath.Join(dir, manifestFile))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Seal(0), w.Close()); err != nil {
				t.Fatal(err)
			}
			errs := []error{os.WriteFile(open, before, 0o644)}
			if step != "the manifest names it" {
				errs = append(errs, os.WriteFile(filepath.Join(dir, manifestFile), manifest, 0o644))
			}
			if step == "the sealed file is half written" {
				errs = append(errs, os.Truncate(sealed, 100))
			}
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			if w, err = Open(dir, []string{"inc"}, Limits{}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Append(0, records[5:]...), w.Seal(0), w.Close()); err != nil {
				t.Fatal(err)
			}
			got, err := read(dir)
			if err != nil || !slices.EqualFunc(got[0], records, same) {
				t.Fatalf("%d records, %v", len(got[0]), err)
			}
			if r, err := Verify(context.Background(), dir, nil); err != nil || len(r.Faults) > 0 {
				t.Fatalf("%+v, %v", r, err)
			}
		})
	}
}

func TestWhatAWriterRefuses(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, small)
	w, err := Open(dir, []string{"inc-a", "inc-b"}, small)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, []string{"inc-a", "inc-b"}, small); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	if err := w.Append(0, history(0, 2, 27)[26]); !errors.Is(err, ErrOrder) {
		t.Errorf("a record that is there: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, incarnations := range map[string][]string{"another stream": {"inc-a", "inc-x"}, "another number": {"inc-a"}} {
		if _, err := Open(dir, incarnations, small); !errors.Is(err, ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGapsAreNamed: sequences that the stream did not have.
func TestGapsAreNamed(t *testing.T) {
	dir := t.TempDir()
	w, err := Open(dir, []string{"inc"}, small)
	if err != nil {
		t.Fatal(err)
	}
	records := slices.DeleteFunc(history(0, 1, 40), func(r eventlog.Record) bool {
		return r.Seq == 1 || r.Seq == 3 || r.Seq >= 20 && r.Seq <= 31
	})
	if err := errors.Join(w.Append(0, records...), w.Seal(0), w.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := Verify(context.Background(), dir, nil)
	want := []Gap{{0, 3, 3}, {0, 20, 31}}
	if err != nil || !slices.Equal(r.Gaps, want) || len(r.Faults) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestAnySplitGivesTheSameRecords: however the records come and however often the
// writer is closed, what is read is what came.
func TestAnySplitGivesTheSameRecords(t *testing.T) {
	records := history(0, 1, 300)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		limits := Limits{FrameRecords: 1 + rng.IntN(40), SegmentRecords: 1 + rng.IntN(200)}
		for rest := records; len(rest) > 0; {
			w, err := Open(dir, []string{"inc"}, limits)
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + rng.IntN(5) {
				n := rng.IntN(min(len(rest), 120) + 1)
				if err := w.Append(0, rest[:n]...); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
				switch rng.IntN(4) {
				case 0:
					err = w.Flush(0)
				case 1:
					err = w.Seal(0)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := read(dir)
		if err != nil || !slices.EqualFunc(got[0], records, same) {
			t.Fatalf("seed %d: %d records, %v", seed, len(got[0]), err)
		}
		if r, err := Verify(context.Background(), dir, nil); err != nil || len(r.Faults) > 0 || r.Records != len(records) {
			t.Fatalf("seed %d: %+v, %v", seed, r, err)
		}
	}
}

// TestGoldenArchive reads an archive that was written once and never changes.
func TestGoldenArchive(t *testing.T) {
	dir := filepath.Join("testdata", "v1")
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		build(t, dir, small)
		if err := os.Remove(filepath.Join(dir, lockFile)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := read(dir)
	if err != nil || !equal(got, [][]eventlog.Record{history(0, 2, 27), history(1, 2, 17)}) {
		t.Fatalf("the golden archive is read otherwise than it was written: %v", err)
	}
	r, err := Verify(context.Background(), dir, nil)
	if err != nil || len(r.Faults) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// FuzzSegment: whatever stands in a file, opening and reading it ends without a
// panic and gives no more records than its frames name.
func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	build(f, dir, small)
	for _, path := range files(f, dir) {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, filepath.Ext(path) == sealedExt)
	}
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		_, _ = parseManifest(b)
		s, err := OpenSegment(path, sealed)
		if err != nil {
			return
		}
		defer s.Close()
		read := 0
		s.read(context.Background(), 0, nil, func(_ eventlog.Record, err error) bool {
			if err == nil {
				read++
			}
			return err == nil
		})
		if read > records(s.Frames) {
			t.Fatalf("%d records read of %d", read, records(s.Frames))
		}
	})
}
