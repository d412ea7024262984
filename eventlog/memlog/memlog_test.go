package memlog_test

import (
	"testing"
	"time"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/eventlogtest"
	"github.com/musterhq/muster/eventlog/memlog"
)

func TestMemoryLog(t *testing.T) {
	eventlogtest.Run(t, func(_ *testing.T, partitions int) eventlog.Log { return memlog.New(partitions) })
}

func TestMemoryBlobs(t *testing.T) {
	eventlogtest.RunBlobs(t, func(*testing.T) eventlog.Blobs { return new(memlog.Blobs) })
}

func TestDropLeavesAGap(t *testing.T) {
	log := memlog.NewAt(1, func() time.Time { return time.Unix(5, 0) })
	for i := range 4 {
		eventlogtest.Store(t, log, string(rune('a'+i)), 0, "x")
	}
	if !log.Drop(0, 2) || log.Drop(0, 2) || log.Drop(0, 9) {
		t.Error("Drop must report whether the record was there")
	}
	var seqs []uint64
	for _, r := range eventlogtest.MustCollect(t, log.Read(t.Context(), 0, 0)) {
		seqs = append(seqs, r.Seq)
	}
	info, err := log.Info(t.Context(), 0)
	if len(seqs) != 3 || seqs[0] != 1 || seqs[1] != 3 || err != nil || info.Last != 4 || info.Messages != 3 || info.First != 1 {
		t.Errorf("after the drop: %v, %+v, %v", seqs, info, err)
	}
	if next := eventlogtest.Store(t, log, "e", 0, "x"); next != 5 {
		t.Errorf("next sequence %d, want 5", next)
	}
}

func TestOverwriteChangesOneRecord(t *testing.T) {
	log := memlog.New(1)
	eventlogtest.Store(t, log, "a", 0, "good")
	before := eventlogtest.MustCollect(t, log.Read(t.Context(), 0, 0))
	if !log.Overwrite(0, 1, []byte("bad")) {
		t.Fatal("there is a record 1")
	}
	after := eventlogtest.MustCollect(t, log.Read(t.Context(), 0, 0))
	if string(before[0].Data) != "good" || string(after[0].Data) != "bad" {
		t.Errorf("before %q, after %q", before[0].Data, after[0].Data)
	}
}
