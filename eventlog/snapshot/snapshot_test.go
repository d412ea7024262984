package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/musterhq/muster/eventlog/snapshot"
)

func header(count int) snapshot.Header {
	return snapshot.Header{Fold: 3, Partition: 1, Partitions: 4, Last: 1 << 40, Incarnation: "2026-01-01T10:00:00Z", Count: count, Time: 1767261600123456789}
}

func want() snapshot.Want {
	return snapshot.Want{Fold: 3, Partition: 1, Partitions: 4, Incarnation: "2026-01-01T10:00:00Z"}
}

func someEntries() []snapshot.Entry {
	return []snapshot.Entry{
		{Account: "acct-1", Seq: 7, Hash: [16]byte{1, 2, 3}, State: []byte("state of one")},
		{Account: "contact 🙂", Seq: 1 << 50, Hash: [16]byte{15: 9}, Damage: "versions 3 to 4 are missing", State: bytes.Repeat([]byte("xyz"), 50_000)},
		{Account: "acct-3", Seq: 1},
	}
}

func write(t testing.TB, h snapshot.Header, entries []snapshot.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := snapshot.Write(&b, h, slices.Values(entries)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAll returns the entries of a snapshot that is whole, or the error.
func readAll(r io.Reader, want snapshot.Want) (snapshot.Header, []snapshot.Entry, error) {
	h, entries, err := snapshot.Read(r, want)
	if err != nil {
		return h, nil, err
	}
	all, err := collect(entries)
	return h, all, err
}

func collect(entries iter.Seq2[snapshot.Entry, error]) ([]snapshot.Entry, error) {
	var all []snapshot.Entry
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		e.State = bytes.Clone(e.State)
		all = append(all, e)
	}
	return all, nil
}

func reasonOf(t *testing.T, err error) snapshot.Reason {
	t.Helper()
	var e *snapshot.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a *snapshot.Error", err)
	}
	return e.Reason
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, entries := range [][]snapshot.Entry{nil, someEntries()} {
		file := write(t, header(len(entries)), entries)
		for name, r := range map[string]io.Reader{
			"at once": bytes.NewReader(file), "by bytes": iotest.OneByteReader(bytes.NewReader(file)), "EOF with data": iotest.DataErrReader(bytes.NewReader(file)),
		} {
			h, got, err := readAll(r, want())
			if err != nil {
				t.Fatalf("%d entries, %s: %v", len(entries), name, err)
			}
			if h != header(len(entries)) || !reflect.DeepEqual(got, entries) {
				t.Errorf("%d entries, %s: got %+v and %d entries that differ", len(entries), name, h, len(got))
			}
		}
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	entries := someEntries()
	entries[1].State = []byte("a short state")
	file := write(t, header(len(entries)), entries)
	reasons := map[snapshot.Reason]int{}
	for i := range file {
		for bit := range 8 {
			file[i] ^= 1 << bit
			_, _, err := readAll(bytes.NewReader(file), want())
			if err == nil {
				t.Fatalf("bit %d of byte %d of %d was flipped, and nobody noticed", bit, i, len(file))
			}
			reasons[reasonOf(t, err)]++
			file[i] ^= 1 << bit
		}
	}
	if reasons[snapshot.Damaged] < 9*len(file)*8/10 {
		t.Errorf("most flipped bits are damage; got %v", reasons)
	}
}

func TestEveryTruncationIsFound(t *testing.T) {
	entries := someEntries()
	entries[1].State = []byte("a short state")
	file := write(t, header(len(entries)), entries)
	for n := range file {
		_, _, err := readAll(bytes.NewReader(file[:n]), want())
		if err == nil {
			t.Fatalf("%d of %d bytes were taken for a snapshot", n, len(file))
		}
		if r := reasonOf(t, err); r != snapshot.Truncated && r != snapshot.Damaged {
			t.Errorf("%d of %d bytes: %v", n, len(file), err)
		}
	}
}

func TestWhatIsNotWantedIsRefused(t *testing.T) {
	file := write(t, header(3), someEntries())
	tests := []struct {
		name   string
		change func(*snapshot.Want)
		file   func([]byte) []byte
		reason snapshot.Reason
		says   string
	}{
		{name: "other partition", change: func(w *snapshot.Want) { w.Partition = 2 }, reason: snapshot.OtherPartition, says: "partition 1 of 4, not 2 of 4"},
		{name: "other count", change: func(w *snapshot.Want) { w.Partitions = 8 }, reason: snapshot.OtherPartition, says: "partition 1 of 4, not 1 of 8"},
		{name: "other stream", change: func(w *snapshot.Want) { w.Incarnation = "later" }, reason: snapshot.OtherStream, says: `not "later"`},
		{name: "newer fold", change: func(w *snapshot.Want) { w.Fold = 2 }, reason: snapshot.OtherFold, says: "fold version 3, not 2"},
		{name: "older fold", change: func(w *snapshot.Want) { w.Fold = 4 }, reason: snapshot.OtherFold, says: "fold version 3, not 4"},
		{name: "newer format", file: newerFormat, reason: snapshot.NewerFormat, says: "format version 2, and this Muster knows 1"},
		{name: "more bytes", file: func(b []byte) []byte { return append(b, make([]byte, 40)...) }, reason: snapshot.Damaged},
		{name: "another file", file: func([]byte) []byte { return []byte(strings.Repeat("not a snapshot ", 20)) }, reason: snapshot.Damaged, says: "MUSTSNAP"},
		{name: "nothing", file: func([]byte) []byte { return nil }, reason: snapshot.Truncated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, b := want(), bytes.Clone(file)
			if tt.change != nil {
				tt.change(&w)
			}
			if tt.file != nil {
				b = tt.file(b)
			}
			_, _, err := readAll(bytes.NewReader(b), w)
			if got := reasonOf(t, err); got != tt.reason || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %s: %v, want %s with %q", got, err, tt.reason, tt.says)
			}
		})
	}
}

func TestAFailingStoreIsNotDamage(t *testing.T) {
	file := write(t, header(3), someEntries())
	broken := errors.New("connection lost")
	for _, n := range []int{0, 5, 40, len(file) / 2, len(file) - 1} {
		r := io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(broken))
		_, _, err := readAll(r, want())
		if got := reasonOf(t, err); got != snapshot.Unreadable || !errors.Is(err, broken) {
			t.Errorf("after %d bytes: got %s: %v, want unreadable with the cause", n, got, err)
		}
	}
}

func TestWriteCountsItsEntries(t *testing.T) {
	for _, count := range []int{2, 4} {
		err := snapshot.Write(io.Discard, header(count), slices.Values(someEntries()))
		if wanted := fmt.Sprintf("3 entries came, and %d were announced", count); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("got %v, want %q", err, wanted)
		}
	}
}

func TestWriteReportsAFullDisk(t *testing.T) {
	full := errors.New("disk full")
	file := write(t, header(3), someEntries())
	for n := range len(file) {
		w := &limited{left: n, err: full}
		if err := snapshot.Write(w, header(3), slices.Values(someEntries())); !errors.Is(err, full) {
			t.Fatalf("with room for %d of %d bytes: got %v", n, len(file), err)
		}
	}
}

// limited is a writer with room for so many bytes.
type limited struct {
	left int
	err  error
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		n := l.left
		l.left = 0
		return n, l.err
	}
	l.left -= len(p)
	return len(p), nil
}
