package blockscan

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/musterhq/muster/eventlog"
)

// newStore makes the folder of an empty stream of partition 0.
func newStore(t *testing.T) (dir, msgs string) {
	t.Helper()
	dir = t.TempDir()
	msgs = filepath.Join(streamDir(Config{StoreDir: dir}, 0), "msgs")
	if err := os.MkdirAll(msgs, 0o750); err != nil {
		t.Fatal(err)
	}
	return dir, msgs
}

// expectAll reads records in random order, and the sequences around them that
// are not there.
func expectAll(t *testing.T, r *Reader, records []Stored, rnd *rand.Rand) {
	t.Helper()
	there := map[uint64]bool{}
	for _, s := range records {
		there[s.Seq] = true
	}
	for _, i := range rnd.Perm(len(records)) {
		s := records[i]
		if got, err := r.Record(0, s.Seq); err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("record %d: account %q, %d bytes, %v; want %q, %d bytes", s.Seq, got.Account, len(got.Data), err, s.Account, len(s.Data))
		}
		for _, seq := range []uint64{s.Seq - 1, s.Seq + 1} {
			if _, err := r.Record(0, seq); !there[seq] && !errors.Is(err, ErrNotRead) {
				t.Fatalf("sequence %d, which is not there: %v", seq, err)
			}
		}
	}
}

// TestReaderOfAStoreThatGrows: every record is read, whatever its size, also
// those that were written after others had been read, to the last block and to
// new ones; one whose end is not written yet is read when it is.
func TestReaderOfAStoreThatGrows(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 5))
	dir, msgs := newStore(t)
	r := NewReader(dir)
	if _, err := r.Record(0, 1); !errors.Is(err, ErrNotRead) {
		t.Fatalf("an empty stream: %v", err)
	}
	var records []Stored
	seq := uint64(0)
	for block := 1; block <= 3; block++ {
		c, err := newChecker(eventlog.StreamName(0), block)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(msgs, fmt.Sprintf("%d.blk", block)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for part := range 4 {
			var b []byte
			for range 50 {
				seq += 1 + uint64(rnd.IntN(3)/2)
				s := Stored{Seq: seq, Time: int64(seq) * 7, Account: fmt.Sprintf("acct %d", seq%9), Data: bytes.Repeat([]byte{byte(seq)}, 1+rnd.IntN(9000))}
				if seq%2 == 0 {
					s.Header = []byte("NATS/1.0\r\nA: b\r\n\r\n")
				}
				if rnd.IntN(20) == 0 {
					s.Data = bytes.Repeat(s.Data, 40)
				}
				records = append(records, s)
				b = c.appendRecord(b, eventlog.Subject(0, s.Account), s)
				if rnd.IntN(10) == 0 { // a place without a record
					b = c.appendRecord(b, "", Stored{Seq: seq | tombstone})
				}
			}
			torn := len(b) - 1 - rnd.IntN(100)
			if part == 3 {
				torn = len(b)
			}
			write(t, f, b[:torn])
			last := records[len(records)-1]
			if _, err := r.Record(0, last.Seq); part < 3 && last.Seq != 0 && torn < len(b)-40 && !errors.Is(err, ErrNotRead) {
				t.Fatalf("a record that is not written to its end: %v", err)
			}
			write(t, f, b[torn:])
			expectAll(t, r, records, rnd)
		}
	}
	expectAll(t, NewReader(dir), records, rnd)
}

func write(t *testing.T, f *os.File, b []byte) {
	t.Helper()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
}

// TestReaderGivesNothingWrong: a record that does not match its checksum is not
// given, nor is one of a block that cannot be read; the others are.
func TestReaderGivesNothingWrong(t *testing.T) {
	dir, msgs := newStore(t)
	records := stream(t, msgs, 10)
	path := filepath.Join(msgs, "1.blk")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, append([]byte("4"), make([]byte, 100)...)) // within the body of the fifth
	b[at+50] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r := NewReader(dir)
	for i, s := range records {
		got, err := r.Record(0, s.Seq)
		if bad := i == 4; bad != errors.Is(err, ErrNotRead) || !bad && !reflect.DeepEqual(got, s) {
			t.Errorf("record %d: %v", s.Seq, err)
		}
	}
	if err := os.WriteFile(path, append([]byte(packed), b...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewReader(dir).Record(0, 1); !errors.Is(err, ErrNotRead) || !errors.Is(err, ErrUnreadable) {
		t.Errorf("of a compressed block: %v", err)
	}
}
