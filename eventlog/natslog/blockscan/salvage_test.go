package blockscan

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/musterhq/muster/eventlog"
)

// stream writes n records of one partition and returns them.
func stream(t *testing.T, msgs string, n int) (out []Stored) {
	t.Helper()
	w := NewWriter(msgs, 0)
	pad := make([]byte, 40_000)
	for i := range n {
		s := Stored{Seq: uint64(2*i + 1), Time: int64(1000 + i), Account: fmt.Sprintf("acct %d", i%7), Data: append([]byte(fmt.Sprint(i)), pad...)}
		if i%2 == 0 {
			s.Header = []byte("NATS/1.0\r\nA: b\r\n\r\n")
		}
		if err := w.Add(s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

func salvaged(t *testing.T, msgs string) (out []Stored, allWhole bool) {
	t.Helper()
	blocks, err := Blocks(msgs)
	if err != nil {
		t.Fatal(err)
	}
	allWhole = true
	for _, b := range blocks {
		whole, err := Salvage(b, 0, 1, func(s Stored) error { out = append(out, s); return nil })
		if err != nil {
			t.Fatal(err)
		}
		allWhole = allWhole && whole
	}
	return out, allWhole
}

// TestWhatIsWrittenIsSalvaged: over several blocks, with and without a header;
// and when a bit is flipped, all but that record.
func TestWhatIsWrittenIsSalvaged(t *testing.T) {
	msgs := t.TempDir()
	want := stream(t, msgs, 500)
	got, whole := salvaged(t, msgs)
	if !whole || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d records come back of %d, whole: %v", len(got), len(want), whole)
	}
	path := filepath.Join(msgs, "1.blk")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	got, whole = salvaged(t, msgs)
	if whole || len(got) != len(want)-1 {
		t.Fatalf("%d records come back of %d with one damaged, whole: %v", len(got), len(want), whole)
	}
	if blocks, err := Blocks(filepath.Join(msgs, "nothing")); err != nil || len(blocks) != 0 {
		t.Errorf("%v, %v", blocks, err)
	}
}

// TestWriterRefusesAnOrder that no stream has.
func TestWriterRefusesAnOrder(t *testing.T) {
	w := NewWriter(t.TempDir(), 0)
	if err := w.Add(Stored{Seq: 2, Account: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(Stored{Seq: 2, Account: "a"}); err == nil {
		t.Error("a sequence was taken twice")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if eventlog.StreamName(0) != "MUSTER_EV_00" {
		t.Error("the checksums of old blocks lean on the stream's name")
	}
}
