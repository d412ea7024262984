package offline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/memlog"
)

// fleet appends to a log in memory, one event after the other.
type fleet struct {
	t   *testing.T
	log *memlog.Log
	seq map[string]uint64 // of the accounts' last records
	n   map[string]uint64 // their versions
	ph  map[string][16]byte
}

func newFleet(t *testing.T, partitions int) *fleet {
	return &fleet{t, memlog.New(partitions), map[string]uint64{}, map[string]uint64{}, map[string][16]byte{}}
}

// add appends an event of each of some accounts and offers those that offered
// says to the archiver.
func (f *fleet) add(a *Archiver, accounts int, offered func(i int) bool) {
	f.t.Helper()
	for i := range accounts {
		id := fmt.Sprintf("acct-%d", i)
		f.n[id]++
		e := domain.Event{
			Version: f.n[id], Account: domain.AccountID(id), Kind: domain.KindSession, Trigger: "user_action_needed", Outcome: domain.Noop,
			From: "IDLE", To: "IDLE", At: int64(f.n[id]), Recorded: int64(f.n[id]), Source: "test", Prev: f.ph[id],
		}
		data, err := codec.Encode(&e)
		if err != nil {
			f.t.Fatal(err)
		}
		p := eventlog.Partition(id, f.log.Partitions())
		r := f.log.Append(f.t.Context(), p, []eventlog.Entry{{Account: id, Expect: f.seq[id], Data: data}})[0]
		if r.Err != nil {
			f.t.Fatal(r.Err)
		}
		f.seq[id], f.ph[id] = r.Seq, codec.Hash(data)
		if a != nil && offered(i) {
			a.Offer(p, []eventlog.Record{{Partition: p, Seq: r.Seq, Account: id, Data: data, Time: e.Recorded}})
		}
	}
}

// alike compares an archive with the log.
func (f *fleet) alike(dir string) {
	f.t.Helper()
	v, err := Verify(f.t.Context(), dir, nil)
	if err != nil || !v.Whole {
		f.t.Fatalf("verify: %+v, %v", v, err)
	}
	a, err := archive.OpenArchive(dir)
	if err != nil {
		f.t.Fatal(err)
	}
	defer a.Close()
	s, err := Compare(f.t.Context(), f.log, a)
	if err != nil || len(s.Mismatches) != 0 || s.Behind != 0 || s.Compared != s.Records {
		f.t.Fatalf("compare: %+v, %v", s, err)
	}
}

func (f *fleet) archiver(dir string) *Archiver {
	f.t.Helper()
	a, err := StartArchiver(f.t.Context(), ArchiverConfig{Dir: dir, Log: f.log, Every: 5 * time.Millisecond})
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, bound := time.NewTicker(2*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-bound:
			t.Fatal(what)
		}
	}
}

// TestArchiverHoldsAll: what was there, what is offered, and what is not: all is
// archived when Close returns, and a second archiver goes on.
func TestArchiverHoldsAll(t *testing.T) {
	f, dir := newFleet(t, 3), filepath.Join(t.TempDir(), "archive")
	f.add(nil, 20, nil)
	for range 2 {
		a := f.archiver(dir)
		f.add(a, 40, func(int) bool { return true })
		f.add(a, 40, func(i int) bool { return i%3 != 0 }) // as if another process had written
		f.add(a, 40, func(int) bool { return true })
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.alike(dir)
	}
}

// TestArchiverTellsHowFarItIs: the lag goes back to nothing when all is on disk.
func TestArchiverTellsHowFarItIs(t *testing.T) {
	f, dir := newFleet(t, 1), filepath.Join(t.TempDir(), "archive")
	a, err := StartArchiver(t.Context(), ArchiverConfig{Dir: dir, Log: f.log, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	f.add(a, 10, func(int) bool { return true })
	within(t, "nothing is told", func() bool { return a.Stats().Lag > 0 })
	if s := a.Stats(); s.Behind != 10 || s.Archived[0] != 0 || s.Error != "" || s.Dir != dir {
		t.Errorf("%+v", s)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := a.Stats(); s.Behind != 0 || s.Archived[0] != 10 || s.Lag != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

// TestArchiverTriesAgain: an archive that cannot be written is told, holds nobody
// up, and is taken up again.
func TestArchiverTriesAgain(t *testing.T) {
	f, dir := newFleet(t, 2), filepath.Join(t.TempDir(), "archive")
	a := f.archiver(dir)
	f.add(a, 10, func(int) bool { return true })
	within(t, "nothing is archived", func() bool { return a.Stats().Behind == 0 })
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	f.add(a, 10, func(int) bool { return true })
	within(t, "the failure is not told", func() bool { return a.Stats().Error != "" })
	f.add(a, 10, func(int) bool { return true })
	within(t, "it is not tried again", func() bool { s := a.Stats(); return s.Error == "" && s.Behind == 0 })
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.alike(dir)
}

// TestCloseOfABrokenArchiveEnds: the end waits for no archive that is broken.
func TestCloseOfABrokenArchiveEnds(t *testing.T) {
	f, dir := newFleet(t, 1), filepath.Join(t.TempDir(), "archive")
	a := f.archiver(dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.add(a, 10, func(int) bool { return true })
	within(t, "the failure is not told", func() bool { return a.Stats().Error != "" })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := a.Close(ctx); err == nil {
		t.Error("an archive that lacks events has ended well")
	}
	if ctx.Err() != nil {
		t.Error("the end waited for nothing")
	}
}

// TestFinishRepairFromAnyPoint: the swap is finished wherever it was interrupted.
func TestFinishRepairFromAnyPoint(t *testing.T) {
	for done := range 5 {
		data := t.TempDir()
		d := decision{Kept: "damaged-x", Partitions: []int{0, 1}, Damaged: Damaged{}}
		for p := range 2 {
			put(t, filepath.Join(streamDir(data, p), "which"), "old")
			put(t, filepath.Join(streamDir(filepath.Join(data, repairDir), p), "which"), "new")
		}
		put(t, filepath.Join(data, quarantine, "copy"), "x")
		put(t, filepath.Join(data, damageFile), `{"a":"sequence 1 of partition 0: lost"}`)
		if err := d.write(data); err != nil {
			t.Fatal(err)
		}
		steps := [][2]string{}
		for p := range 2 {
			kept := filepath.Join(data, d.Kept, filepath.Base(streamDir(data, p)))
			steps = append(steps, [2]string{streamDir(data, p), kept}, [2]string{streamDir(filepath.Join(data, repairDir), p), streamDir(data, p)})
		}
		for _, s := range steps[:done] {
			if err := move(s[0], s[1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := FinishRepair(t.Context(), data); err != nil {
			t.Fatalf("after %d steps: %v", done, err)
		}
		for p := range 2 {
			expect(t, filepath.Join(streamDir(data, p), "which"), "new")
			expect(t, filepath.Join(data, d.Kept, filepath.Base(streamDir(data, p)), "which"), "old")
		}
		expect(t, filepath.Join(data, d.Kept, quarantine, "copy"), "x")
		for _, gone := range []string{repairDir, decisionFile, damageFile, quarantine} {
			if _, err := os.Stat(filepath.Join(data, gone)); err == nil {
				t.Errorf("after %d steps: %s is still there", done, gone)
			}
		}
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, path, want string) {
	t.Helper()
	if b, err := os.ReadFile(path); err != nil || string(b) != want {
		t.Errorf("%s holds %q, want %q (%v)", path, b, want, err)
	}
}
