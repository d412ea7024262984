package e2e

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// tmpfs is a small file system of its own for a test.
type tmpfs struct {
	t   *testing.T
	dir string
}

// mountTmpfs mounts a file system of so many MiB. Where that is not possible
// the test says loudly that it does not run.
func mountTmpfs(t *testing.T, mib int) *tmpfs {
	t.Helper()
	fs := &tmpfs{t, t.TempDir()}
	if err := unix.Mount("tmpfs", fs.dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		text := fmt.Sprintf("%s DID NOT RUN: it needs a file system of its own, and mounting one failed (%v); run it as root", t.Name(), err)
		_, _ = fmt.Fprintln(os.Stderr, text)
		t.Skip(text)
	}
	t.Cleanup(func() { _ = unix.Unmount(fs.dir, unix.MNT_DETACH) }) // the folder could not be removed else
	return fs
}

// remount changes the size and whether it can be written.
func (fs *tmpfs) remount(mib int, readOnly bool) {
	fs.t.Helper()
	flags := uintptr(unix.MS_REMOUNT)
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount("tmpfs", fs.dir, "tmpfs", flags, fmt.Sprintf("size=%dm", mib)); err != nil {
		fs.t.Fatalf("remount %s: %v", fs.dir, err)
	}
}

// fill takes all space at once with a file.
func (fs *tmpfs) fill(path string) {
	fs.t.Helper()
	f, err := os.Create(path)
	if err != nil {
		fs.t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for step := int64(64 << 20); step >= 4096; { // others write meanwhile
		if err := unix.Fallocate(int(f.Fd()), 0, size, step); err != nil {
			step /= 2
			continue
		}
		size += step
	}
}
