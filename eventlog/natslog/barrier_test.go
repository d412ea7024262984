package natslog_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/natslog"
	"github.com/musterhq/muster/eventlog/natslog/barrier"
	"github.com/musterhq/muster/eventlog/natslog/blockscan"
	"github.com/musterhq/muster/eventlog/natstest"
)

// openBarrier opens a barrier for the length of a test.
func openBarrier(t testing.TB, cfg barrier.Config) *barrier.Barrier {
	t.Helper()
	b, err := barrier.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestOneServerWithBarrier(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	eventlogtest.Run(t, func(t *testing.T, partitions int) eventlog.Log {
		s.Wipe(t, nc)
		b := openBarrier(t, barrier.Config{
			StoreDir: s.StoreDir(), Partitions: partitions, Mode: barrier.SyncGroup, MarkFile: filepath.Join(t.TempDir(), "marks"),
		})
		return open(t, nc, natslog.Config{Partitions: partitions, Barrier: b, Blocks: blockscan.NewReader(s.StoreDir())})
	})
}

func TestProbeSeesWhatTheServerAcks(t *testing.T) {
	s := natstest.Run(t)
	nc := s.Conn(t)
	for range 2 {
		if err := natslog.Probe(t.Context(), nc, s.StoreDir(), ""); err != nil {
			t.Errorf("probe: %v", err)
		}
	}
	if err := natslog.Probe(t.Context(), nc, t.TempDir(), ""); !errors.Is(err, natslog.ErrProbe) {
		t.Errorf("probe of another folder: %v, want ErrProbe", err)
	}
}

// An encrypted store writes as the barrier needs it, but the probe cannot see
// its record; it must then say no.
func TestProbeRefusesWhatItCannotSee(t *testing.T) {
	s := natstest.Run(t, func(o *server.Options) { o.JetStreamKey = "secret" })
	if err := natslog.Probe(t.Context(), s.Conn(t), s.StoreDir(), ""); !errors.Is(err, natslog.ErrProbe) {
		t.Errorf("probe of an encrypted store: %v, want ErrProbe", err)
	}
}

func TestBarrierFollowsNewBlocks(t *testing.T) {
	s := natstest.Run(t)
	marks := filepath.Join(t.TempDir(), "marks")
	b := openBarrier(t, barrier.Config{StoreDir: s.StoreDir(), Partitions: 1, Mode: barrier.SyncGroup, MarkFile: marks})
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1, Barrier: b})
	big := bytes.Repeat([]byte("x"), 900<<10)
	for i := range 6 { // blocks hold 8 MiB: two new ones per group or so
		var group []eventlog.Entry
		for j := range 15 {
			group = append(group, eventlog.Entry{Account: fmt.Sprintf("a-%d-%d", i, j), Data: big})
		}
		for j, r := range log.Append(t.Context(), 0, group) {
			if r.Err != nil {
				t.Fatalf("group %d, entry %d: %v", i, j, r.Err)
			}
		}
	}
	if blocks, err := filepath.Glob(filepath.Join(barrier.StreamDir(s.StoreDir(), "", "MUSTER_EV_00"), "msgs", "*.blk")); err != nil || len(blocks) < 10 {
		t.Errorf("%d blocks, %v: the test needs many", len(blocks), err)
	}
	if high, err := barrier.ReadMarks(marks); err != nil || high[0] != 90 {
		t.Errorf("mark %d, %v, want 90", high[0], err)
	}
}

// brokenBarrier fails when it is told to.
type brokenBarrier struct{ err error }

func (b *brokenBarrier) Pass(int, int, uint64) error { return b.err }

func TestFailedBarrierAcknowledgesNothing(t *testing.T) {
	s := natstest.Run(t)
	b := &brokenBarrier{}
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1, Barrier: b})
	seq := eventlogtest.Store(t, log, "a", 0, "good")
	disk := errors.New("input/output error")
	b.err = disk
	group := []eventlog.Entry{{Account: "a", Expect: seq, Data: []byte("x")}, {Account: "a", Expect: 99}, {Account: "b", Expect: 7}}
	results := log.Append(t.Context(), 0, group)
	for i, want := range []string{"failed", "conflict", "conflict"} {
		if got := eventlogtest.Class(results[i]); got != want {
			t.Errorf("entry %d: %s (%v), want %s", i, got, results[i].Err, want)
		}
	}
	if results[0].Seq != 0 || !errors.Is(results[0].Err, disk) {
		t.Errorf("entry 0: %+v: it must say why", results[0])
	}
	b.err = nil // a disk that works again does not bring back what the kernel dropped
	if got := eventlogtest.Classes(log.Append(t.Context(), 0, group[:1])); got[0] != "failed" {
		t.Errorf("a later append: %q", got)
	}
	if err := log.Sync(t.Context(), 0); !errors.Is(err, eventlog.ErrFailed) {
		t.Errorf("sync of a failed log: %v", err)
	}
	if err := log.Failed(); !errors.Is(err, eventlog.ErrFailed) || !errors.Is(err, disk) {
		t.Errorf("Failed() = %v", err)
	}
	if got := eventlogtest.MustCollect(t, log.Read(t.Context(), 0, 0)); len(got) != 2 {
		t.Errorf("a failed log reads %d records, want 2", len(got))
	}
}

func TestStoreThatDoesNotGrowFailsTheLog(t *testing.T) {
	s, other := natstest.Run(t), natstest.Run(t)
	open(t, other.Conn(t), natslog.Config{Partitions: 1})
	b := openBarrier(t, barrier.Config{StoreDir: other.StoreDir(), Partitions: 1, Mode: barrier.SyncGroup})
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1, Barrier: b}) // acks here, files there
	r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: "a"}})[0]
	if eventlogtest.Class(r) != "failed" || !errors.Is(r.Err, barrier.ErrNotSeen) {
		t.Errorf("append: %v", r.Err)
	}
}

func TestFullDiskIsRefusedWithASentence(t *testing.T) {
	s := natstest.Run(t)
	b := openBarrier(t, barrier.Config{StoreDir: s.StoreDir(), Partitions: 1, Mode: barrier.SyncGroup, Reserve: 1 << 60})
	log := open(t, s.Conn(t), natslog.Config{Partitions: 1, Barrier: b})
	r := log.Append(t.Context(), 0, []eventlog.Entry{{Account: "a"}})[0]
	if eventlogtest.Class(r) != "refused" || !errors.Is(r.Err, eventlog.ErrNoRoom) {
		t.Errorf("append: %v", r.Err)
	}
	if _, err := log.Last(t.Context(), "a"); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("last: %v", err)
	}
	if _, err := os.Stat(s.StoreDir()); err != nil {
		t.Error(err)
	}
}
