package powercuttest_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/musterhq/muster/eventlog/powercuttest"
)

// step does one thing below a folder.
type step func(t *testing.T, dir string)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write appends to a file; sync, dsync, none.
func write(name, content string, flags int, sync bool) step {
	return func(t *testing.T, dir string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY|flags, 0o644)
		must(t, err)
		_, err = f.WriteString(content)
		must(t, err)
		if sync {
			must(t, f.Sync())
		}
		must(t, f.Close())
	}
}

func syncDir(name string) step {
	return func(t *testing.T, dir string) {
		f, err := os.Open(filepath.Join(dir, name))
		must(t, err)
		must(t, f.Sync())
		must(t, f.Close())
	}
}

func rename(from, to string) step {
	return func(t *testing.T, dir string) { must(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to))) }
}

func remove(name string) step {
	return func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, name))) }
}

func mkdir(name string) step {
	return func(t *testing.T, dir string) { must(t, os.Mkdir(filepath.Join(dir, name), 0o755)) }
}

func truncate(name string, size int64) step {
	return func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, name), size)) }
}

// What is left after a cut, by the rules of the package comment.
func TestCutLeavesWhatWasSynced(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []step
		left  map[string]string
	}{
		{"nothing was synced", []step{write("a", "x", 0, false)}, map[string]string{}},
		{"only the name was synced", []step{write("a", "x", 0, false), syncDir(".")}, map[string]string{"a": ""}},
		{"only the content was synced", []step{write("a", "x", 0, true)}, map[string]string{}},
		{"content and name", []step{write("a", "x", 0, true), syncDir(".")}, map[string]string{"a": "x"}},
		{"a later write is lost", []step{write("a", "x", 0, true), syncDir("."), write("a", "y", 0, false)}, map[string]string{"a": "x"}},
		{"a later write is synced", []step{write("a", "x", 0, true), syncDir("."), write("a", "y", 0, true)}, map[string]string{"a": "xy"}},
		{"a synchronous write", []step{write("a", "x", os.O_SYNC, false), syncDir(".")}, map[string]string{"a": "x"}},
		{"a data-synchronous write", []step{write("a", "x", syscall.O_DSYNC, false), syncDir(".")}, map[string]string{"a": "x"}},
		{"a truncation is lost", []step{write("a", "xyz", 0, true), syncDir("."), truncate("a", 1)}, map[string]string{"a": "xyz"}},
		{"a truncation is synced", []step{write("a", "xyz", 0, true), syncDir("."), truncate("a", 1), write("a", "", 0, true)}, map[string]string{"a": "x"}},
		{"cut and written again", []step{write("a", "xyz", 0, true), syncDir("."), truncate("a", 1), write("a", "Q", 0, true)}, map[string]string{"a": "xQ"}},
		{"a rename is lost", []step{write("a", "x", 0, true), syncDir("."), rename("a", "b")}, map[string]string{"a": "x"}},
		{"a rename is synced", []step{write("a", "x", 0, true), rename("a", "b"), syncDir(".")}, map[string]string{"b": "x"}},
		{"a replacement is lost", []step{write("a", "old", 0, true), syncDir("."), write("t", "new", 0, true), rename("t", "a")}, map[string]string{"a": "old"}},
		{"a replacement is synced", []step{write("a", "old", 0, true), syncDir("."), write("t", "new", 0, true), rename("t", "a"), syncDir(".")}, map[string]string{"a": "new"}},
		{"a removal is lost", []step{write("a", "x", 0, true), syncDir("."), remove("a")}, map[string]string{"a": "x"}},
		{"a removal is synced", []step{write("a", "x", 0, true), syncDir("."), remove("a"), syncDir(".")}, map[string]string{}},
		{"a folder that was not synced takes all with it", []step{mkdir("d"), write("d/a", "x", 0, true), syncDir("d")}, map[string]string{}},
		{"a folder in a folder", []step{mkdir("d"), write("d/a", "x", 0, true), syncDir("d"), syncDir(".")}, map[string]string{"d/a": "x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := powercuttest.Mount(t)
			for _, s := range c.steps {
				s(t, disk.Dir())
			}
			must(t, disk.Cut())
			left := map[string]string{}
			must(t, filepath.WalkDir(disk.Dir(), func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				b, err := os.ReadFile(path)
				name, _ := filepath.Rel(disk.Dir(), path)
				left[name] = string(b)
				return err
			}))
			if len(left) != len(c.left) {
				t.Errorf("left %q, want %q", left, c.left)
			}
			for name, content := range c.left {
				if got, ok := left[name]; !ok || got != content {
					t.Errorf("%s: %q (there: %v), want %q", name, got, ok, content)
				}
			}
		})
	}
}

// Tearing never loses what was synced, and with some seed keeps a part only.
func TestTearingKeepsWhatWasSynced(t *testing.T) {
	torn := false
	for seed := range uint64(20) {
		disk := powercuttest.Mount(t)
		write("a", "synced", 0, true)(t, disk.Dir())
		syncDir(".")(t, disk.Dir())
		big := make([]byte, 10*4096)
		for i := range big {
			big[i] = 'x'
		}
		write("a", string(big), 0, false)(t, disk.Dir())
		must(t, disk.CutTearing(seed))
		b, err := os.ReadFile(filepath.Join(disk.Dir(), "a"))
		must(t, err)
		if len(b) < 6 || string(b[:6]) != "synced" {
			t.Fatalf("seed %d: the synced part is %q", seed, b[:min(len(b), 6)])
		}
		torn = torn || len(b) > 6 && len(b) < 6+len(big)
	}
	if !torn {
		t.Error("no seed keeps a part")
	}
}

func free(t *testing.T, dir string) uint64 {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Bavail
}

func TestFullDisk(t *testing.T) {
	disk := powercuttest.Mount(t)
	write("a", "x", 0, true)(t, disk.Dir())
	disk.Fill(true)
	if err := os.WriteFile(filepath.Join(disk.Dir(), "b"), []byte("x"), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a new file on a full disk: %v", err)
	}
	if n := free(t, disk.Dir()); n != 0 {
		t.Errorf("%d bytes are free on a full disk", n)
	}
	disk.FillUnseen()
	if err := os.WriteFile(filepath.Join(disk.Dir(), "b"), []byte("x"), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a new file on a full disk that says it is not: %v", err)
	}
	if free(t, disk.Dir()) == 0 {
		t.Error("it says that it is full")
	}
	disk.Fill(false)
	write("b", "x", 0, true)(t, disk.Dir())
	if disk.Syncs() != 2 {
		t.Errorf("%d syncs, want 2", disk.Syncs())
	}
}

func TestLocksWork(t *testing.T) {
	disk := powercuttest.Mount(t)
	open := func() *os.File {
		f, err := os.OpenFile(filepath.Join(disk.Dir(), "lock"), os.O_CREATE|os.O_RDWR, 0o644)
		must(t, err)
		return f
	}
	a, b := open(), open()
	must(t, syscall.Flock(int(a.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	if err := syscall.Flock(int(b.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("a second lock: %v", err)
	}
	must(t, a.Close())
	must(t, syscall.Flock(int(b.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	must(t, b.Close())
}
