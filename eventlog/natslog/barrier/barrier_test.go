package barrier_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/natslog/barrier"
)

// store makes a folder like a server's, with the blocks given by name.
func store(t *testing.T, stream string, blocks map[string]string) (top, msgs string) {
	t.Helper()
	top = t.TempDir()
	msgs = filepath.Join(barrier.StreamDir(top, "", stream), "msgs")
	if err := os.MkdirAll(msgs, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range blocks {
		grow(t, filepath.Join(msgs, name), content)
	}
	return top, msgs
}

// grow appends to a file.
func grow(t *testing.T, path, content string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFilesFollowTheBlocks(t *testing.T) {
	for _, c := range []struct {
		name   string
		before map[string]string
		after  func(t *testing.T, msgs string)
		last   string // what must be at the end of what was synced
		err    error
	}{
		{"the last block grows", map[string]string{"1.blk": "a", "2.blk": "b"},
			func(t *testing.T, m string) { grow(t, m+"/2.blk", "NEW") }, "NEW", nil},
		{"the first block comes", nil,
			func(t *testing.T, m string) { grow(t, m+"/1.blk", "NEW") }, "NEW", nil},
		{"two blocks come at once", map[string]string{"9.blk": "a"},
			func(t *testing.T, m string) {
				grow(t, m+"/9.blk", "x")
				grow(t, m+"/10.blk", "y")
				grow(t, m+"/11.blk", "NEW")
			}, "NEW", nil},
		{"a number is skipped", map[string]string{"1.blk": "a"},
			func(t *testing.T, m string) { grow(t, m+"/5.blk", "NEW") }, "NEW", nil},
		{"the block is replaced by a longer one", map[string]string{"1.blk": "a"},
			func(t *testing.T, m string) {
				grow(t, m+"/tmp", "aNEW")
				if err := os.Rename(m+"/tmp", m+"/1.blk"); err != nil {
					t.Fatal(err)
				}
			}, "NEW", nil},
		{"nothing grows", map[string]string{"1.blk": "a"}, func(*testing.T, string) {}, "", barrier.ErrNotSeen},
		{"something else grows", map[string]string{"1.blk": "a"},
			func(t *testing.T, m string) { grow(t, m+"/index.db", "NEW") }, "", barrier.ErrNotSeen},
	} {
		t.Run(c.name, func(t *testing.T) {
			top, msgs := store(t, "S", c.before)
			f, err := barrier.OpenFiles(barrier.StreamDir(top, "", "S"), top)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Sync(false); err != nil {
				t.Fatalf("sync before: %v", err)
			}
			c.after(t, msgs)
			if err := f.Sync(true); !errors.Is(err, c.err) {
				t.Fatalf("sync after: %v, want %v", err, c.err)
			}
			if c.err != nil {
				return
			}
			if seen, err := f.EndsWith([]byte(c.last)); err != nil || !seen {
				t.Errorf("%q is not at the end: %v", c.last, err)
			}
			if err := f.Sync(true); !errors.Is(err, barrier.ErrNotSeen) {
				t.Errorf("a second sync that should see growth: %v", err)
			}
		})
	}
}

func TestNoStreamFolder(t *testing.T) {
	b, err := barrier.Open(barrier.Config{StoreDir: t.TempDir(), Partitions: 1, Mode: barrier.SyncGroup})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Pass(0, 1, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pass without a stream: %v", err)
	}
	if err := b.Pass(1, 1, 1); err == nil {
		t.Error("pass of partition 1 of 1 is no error")
	}
}

func TestMarksOnlyRise(t *testing.T) {
	path := filepath.Join(t.TempDir(), "marks")
	if high, err := barrier.ReadMarks(path); err != nil || high[0] != 0 {
		t.Errorf("no file: %v, %v", high[0], err)
	}
	for _, pass := range []struct {
		last, want uint64
	}{{5, 5}, {3, 5}, {0, 5}, {9, 9}} {
		b, err := barrier.Open(barrier.Config{StoreDir: t.TempDir(), Partitions: 3, Mode: barrier.SyncInterval, MarkFile: path})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Pass(2, 1, pass.last); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if high, err := barrier.ReadMarks(path); err != nil || high[2] != pass.want || high[0] != 0 || high[1] != 0 {
			t.Errorf("after %d: %v, %v, want %d", pass.last, high[:3], err, pass.want)
		}
	}
}

func TestTornMarkIsNoMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "marks")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, 40), 0o644); err != nil {
		t.Fatal(err)
	}
	if high, err := barrier.ReadMarks(path); err != nil || high[0] != 0 || high[1] != 0 || high[2] != 0 {
		t.Errorf("marks %v, %v", high[:3], err)
	}
}

func TestRoom(t *testing.T) {
	for _, c := range []struct {
		reserve int64
		bytes   int
		err     error
	}{{0, 1000, nil}, {1, 1 << 20, nil}, {1 << 60, 1, eventlog.ErrNoRoom}, {1, 1 << 60, eventlog.ErrNoRoom}, {-1, 1 << 60, nil}} {
		b, err := barrier.Open(barrier.Config{StoreDir: t.TempDir(), Partitions: 1, Mode: barrier.SyncGroup, Reserve: c.reserve})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Room(c.bytes); !errors.Is(err, c.err) {
			t.Errorf("reserve %d, %d bytes: %v, want %v", c.reserve, c.bytes, err, c.err)
		}
	}
}

func TestModes(t *testing.T) {
	for _, m := range []string{"group", "always", "interval"} {
		if got, err := barrier.ParseMode(m); err != nil || string(got) != m {
			t.Errorf("ParseMode(%q) = %q, %v", m, got, err)
		}
	}
	for _, m := range []string{"", "Group", "never"} {
		if _, err := barrier.ParseMode(m); err == nil {
			t.Errorf("ParseMode(%q) is no error", m)
		}
	}
}
