package natslog_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natslog/barrier"
	"github.com/musterhq/muster/eventlog/natslog/blockscan"
	"github.com/musterhq/muster/eventlog/natstest"
)

// The store of the damage tests: 4500 records of 4000 bytes, one per account
// a-<sequence>, so that there are three blocks; block 2 holds about 2060 to 4120.
const damageRecords = 4500

// damagedStore is the store of a server that does not run.
type damagedStore struct {
	dir   string // the server's store
	msgs  string // folder of the blocks
	marks string
}

// makeStore returns a copy of a store that is made once.
func makeStore(t *testing.T, whole string) damagedStore {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	return damagedStore{dir, filepath.Join(barrier.StreamDir(dir, "", "MUSTER_EV_00"), "msgs"), filepath.Join(dir, "marks")}
}

// makeWhole makes the store that the cases damage, and stops its server.
func makeWhole(t *testing.T) (dir string) {
	t.Helper()
	s := natstest.Run(t)
	b := openBarrier(t, barrier.Config{
		StoreDir: s.StoreDir(), Partitions: 1, Mode: barrier.SyncGroup, MarkFile: filepath.Join(s.StoreDir(), "marks"),
	})
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1, Barrier: b})
	for first := 1; first <= damageRecords; first += 500 {
		var group []eventlog.Entry
		for i := first; i < first+500; i++ {
			group = append(group, eventlog.Entry{Account: damageAccount(uint64(i)), Data: damageData(uint64(i))})
		}
		for i, r := range log.Append(t.Context(), 0, group) {
			if r.Err != nil || r.Seq != uint64(first+i) {
				t.Fatalf("record %d: %+v", first+i, r)
			}
		}
	}
	s.Stop()
	return s.StoreDir()
}

func damageAccount(seq uint64) string { return fmt.Sprintf("a-%d", seq) }
func damageData(seq uint64) []byte    { return fmt.Appendf(nil, "%04000d", seq) }

// edit changes one block file; at is where the record of the sequence begins.
func (d damagedStore) edit(t *testing.T, block int, seq uint64, change func(b []byte, at int) []byte) {
	t.Helper()
	path := filepath.Join(d.msgs, fmt.Sprintf("%d.blk", block))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(eventlog.Subject(0, damageAccount(seq)))) - 22
	if at < 0 {
		t.Fatalf("sequence %d is not in block %d", seq, block)
	}
	if err := os.WriteFile(path, change(b, at), 0o644); err != nil {
		t.Fatal(err)
	}
}

func flipAt(offset int) func([]byte, int) []byte {
	return func(b []byte, at int) []byte { b[at+offset] ^= 0x10; return b }
}

func TestDamageIsNamed(t *testing.T) {
	whole := makeWhole(t)
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, d damagedStore)
		first  string // the first damage: sequences, account, reason
		tail   bool   // the loss shows by the mark
	}{
		{"one bit in a body", func(t *testing.T, d damagedStore) { d.edit(t, 2, 3000, flipAt(500)) },
			"3000-3000 a-3000 one bit is flipped", false},
		{"one bit in an account", func(t *testing.T, d damagedStore) { d.edit(t, 2, 3000, flipAt(22+13)) },
			"3000-3000 a-3000 one bit is flipped", false},
		{"one bit in a length", func(t *testing.T, d damagedStore) { d.edit(t, 2, 3000, flipAt(1)) },
			"3000-3000 a-3000 one bit is flipped", false},
		{"one bit in the first block", func(t *testing.T, d damagedStore) { d.edit(t, 1, 1, flipAt(300)) },
			"1-1 a-1 one bit is flipped", false},
		{"a sector of zeros in a body", func(t *testing.T, d damagedStore) {
			d.edit(t, 2, 3000, func(b []byte, at int) []byte { clear(b[at+1000 : at+1512]); return b })
		}, "3000-3000 a-3000 the record does not match its checksum", false},
		{"a sector of zeros over two records", func(t *testing.T, d damagedStore) {
			d.edit(t, 2, 3001, func(b []byte, at int) []byte { clear(b[at-256 : at+256]); return b })
		}, "3000-3001  the records cannot be found", false},
		{"a block is cut within a record", func(t *testing.T, d damagedStore) {
			d.edit(t, 2, 3000, func(b []byte, at int) []byte { return b[:at+1000] })
		}, "3000-3000 a-3000 the records cannot be found", false},
		{"a block is cut between records", func(t *testing.T, d damagedStore) {
			d.edit(t, 2, 3000, func(b []byte, at int) []byte { return b[:at] })
		}, "", false},
		{"a block is deleted", func(t *testing.T, d damagedStore) { d.remove(t, 2) }, "", false},
		{"the first block is deleted", func(t *testing.T, d damagedStore) { d.remove(t, 1) }, "", false},
		{"the last record is torn", func(t *testing.T, d damagedStore) {
			d.edit(t, 3, 4500, func(b []byte, at int) []byte { return b[:at+700] })
		}, "4500-4500 a-4500 the block ends within a record", true},
		{"the last block is cut between records", func(t *testing.T, d damagedStore) {
			d.edit(t, 3, 4400, func(b []byte, at int) []byte { return b[:at] })
		}, "4400-4500  acknowledged records are missing at the end", true},
		{"the last block is deleted", func(t *testing.T, d damagedStore) { d.remove(t, 3) }, "", true},
	} {
		for _, stop := range []string{"clean stop", "kill"} {
			t.Run(c.name+", "+stop, func(t *testing.T) {
				d := makeStore(t, whole)
				if stop == "kill" { // then the server's own index is missing or old, and it reads the blocks
					if err := os.Remove(filepath.Join(d.msgs, "index.db")); err != nil {
						t.Fatal(err)
					}
				}
				c.damage(t, d)
				checkDamage(t, d, c.first, c.tail)
			})
		}
	}
}

func (d damagedStore) remove(t *testing.T, block int) {
	t.Helper()
	if err := os.Remove(filepath.Join(d.msgs, fmt.Sprintf("%d.blk", block))); err != nil {
		t.Fatal(err)
	}
}

// checkDamage scans a store and starts a server on it: every record that is
// gone must have been named, by the scan or by the mark, and all others must read.
func checkDamage(t *testing.T, d damagedStore, first string, tail bool) {
	t.Helper()
	report, err := blockscan.Scan(blockscan.Config{StoreDir: d.dir, Partitions: 1, MarkFile: d.marks, Quarantine: filepath.Join(t.TempDir(), "q")})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Damage) == 0 {
		t.Fatal("the scan finds no damage")
	}
	x := report.Damage[0]
	if got := fmt.Sprintf("%d-%d %s %s", x.Seq, x.To, x.Account, x.Reason); first != "" && got != first {
		t.Errorf("first damage %q, want %q", got, first)
	}
	named := map[uint64]bool{}
	tailShown := false
	for _, x := range report.Damage {
		for seq := x.Seq; seq <= x.To; seq++ {
			named[seq] = true
		}
		if x.Account != "" && x.Account != damageAccount(x.Seq) {
			t.Errorf("%v names the wrong account", x)
		}
		tailShown = tailShown || x.Reason == blockscan.Tail
	}
	if tailShown != tail {
		t.Errorf("a lost tail shows: %v, want %v", tailShown, tail)
	}
	if len(report.Copies) == 0 && x.Offset >= 0 {
		t.Error("no damaged block was copied aside")
	}
	missing := readAround(t, d)
	for _, seq := range missing {
		if !named[seq] {
			t.Errorf("sequence %d is gone and was not named", seq)
		}
	}
	if len(missing) == 0 {
		t.Error("nothing is gone: the test damages nothing")
	}
}

// readAround starts the server, reads what is there and returns what is not.
func readAround(t *testing.T, d damagedStore) (missing []uint64) {
	t.Helper()
	s, err := natstest.Start(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1})
	next := uint64(1)
	for _, r := range eventlogtest.MustCollect(t, log.Read(t.Context(), 0, 0)) {
		for ; next < r.Seq; next++ {
			missing = append(missing, next)
		}
		if next++; r.Account != damageAccount(r.Seq) || !bytes.Equal(r.Data, damageData(r.Seq)) {
			t.Errorf("sequence %d reads as another record", r.Seq)
		}
	}
	for ; next <= damageRecords; next++ {
		missing = append(missing, next)
	}
	return missing
}

func TestScanOfAWholeStoreFindsNothing(t *testing.T) {
	report, err := blockscan.Scan(blockscan.Config{StoreDir: makeWhole(t), Quarantine: filepath.Join(t.TempDir(), "q")})
	if err != nil || len(report.Damage)+len(report.Unchecked)+len(report.Copies) != 0 || report.Records != damageRecords || report.Last[0] != damageRecords {
		t.Errorf("%+v, %v", report, err)
	}
	empty, err := blockscan.Scan(blockscan.Config{StoreDir: t.TempDir()})
	if err != nil || len(empty.Damage) != 0 || len(empty.Last) != 0 {
		t.Errorf("no store: %+v, %v", empty, err)
	}
}

func BenchmarkBlockScan(b *testing.B) {
	s := natstest.Run(b)
	log := open(b, s.Conn(b), natslog.Config{Partitions: 1})
	fillLog(b, log, 300, 1000, 200)
	s.Stop()
	var report blockscan.Report
	for b.Loop() {
		var err error
		if report, err = blockscan.Scan(blockscan.Config{StoreDir: s.StoreDir()}); err != nil || len(report.Damage) > 0 {
			b.Fatal(report.Damage, err)
		}
	}
	b.SetBytes(report.Bytes)
}

// fillLog appends groups of records to partition 0 of 1, spread over as many accounts as a group has.
func fillLog(b *testing.B, log eventlog.Log, groups, size, bytesEach int) {
	b.Helper()
	group := make([]eventlog.Entry, size)
	for i := range group {
		group[i] = eventlog.Entry{Account: fmt.Sprintf("acct-%06d", i), Data: bytes.Repeat([]byte("x"), bytesEach)}
	}
	for range groups {
		for i, r := range log.Append(b.Context(), 0, group) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
			group[i].Expect = r.Seq
		}
	}
}
