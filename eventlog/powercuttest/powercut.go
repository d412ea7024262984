// Package powercuttest is a disk whose power can be cut: a small file system in
// memory, mounted with FUSE, that keeps what processes see and what was synced
// apart. Cut throws away what was not synced; the next process finds the rest.
//
// The model, which is harsher than most real file systems:
//
//   - a write, a truncation or an allocation is lost unless the file was synced
//     after it (fsync, fdatasync, or a handle opened with O_SYNC or O_DSYNC);
//   - a new, renamed or removed name is lost unless its folder was synced after
//     it: a synced file whose name was not synced is gone, a replaced file is
//     back with its old content, a removed one is there again;
//   - permissions and times are not subject to loss.
//
// CutTearing keeps some of what was not synced, at random: of each file
// nothing, all or single pages of 4 KiB, and each new name or not; a disk may
// have written any of it. What the model does not do: lose or alter what was
// synced, reorder synced writes, or return errors, except ENOSPC after Fill.
//
// It needs Linux, root and /dev/fuse. Without them Mount skips the test and
// says so in capitals, since a power cut that nobody tried proves nothing.
package powercuttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// FS is a mounted disk.
type FS struct {
	dir    string
	disk   *disk
	server *fuse.Server
}

// Mount mounts an empty disk for the length of a test. All processes that use
// it must have ended before Cut and before the test ends. The test's own
// process may use it, too.
func Mount(t testing.TB) *FS {
	t.Helper()
	f := &FS{dir: t.TempDir(), disk: newDisk()}
	if err := available(); err != nil {
		refuse(t, err)
	}
	if err := f.mount(); err != nil {
		refuse(t, err)
	}
	t.Cleanup(func() {
		if err := f.unmount(); err != nil {
			t.Errorf("power cut disk: %v", err)
		}
	})
	return f
}

// refuse skips the test, and is heard even when skips are not shown.
func refuse(t testing.TB, err error) {
	t.Helper()
	text := fmt.Sprintf("THE POWER CUT TEST %s DID NOT RUN: %v. It needs Linux, root and /dev/fuse.", t.Name(), err)
	_, _ = fmt.Fprintln(os.Stderr, text)
	t.Skip(text)
}

func available() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.Join(errors.New("not root"), f.Close())
	}
	return f.Close()
}

func (f *FS) mount() error {
	server, err := fs.Mount(f.dir, &node{disk: f.disk, o: f.disk.root}, &fs.Options{
		MountOptions: fuse.MountOptions{
			DirectMountStrict: true, FsName: "powercut", Name: "powercut", MaxWrite: 1 << 20,
		},
		EntryTimeout: &cacheFor, AttrTimeout: &cacheFor,
		RootStableAttr: &fs.StableAttr{Ino: f.disk.root.inode},
	})
	if err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	f.server = server
	return nil
}

func (f *FS) unmount() error {
	if f.server == nil {
		return nil
	}
	if err := f.server.Unmount(); err != nil {
		_ = syscall.Unmount(f.dir, syscall.MNT_DETACH) // so that the test's folder can be removed
		return fmt.Errorf("unmount, is a process still using it? %w", err)
	}
	f.server.Wait()
	f.server = nil
	return nil
}

// Dir is where the disk is mounted.
func (f *FS) Dir() string { return f.dir }

// Cut throws away all that was not synced.
func (f *FS) Cut() error { return f.cutWith(nil) }

// CutTearing throws away some of what was not synced; seed decides what.
func (f *FS) CutTearing(seed uint64) error {
	return f.cutWith(rand.New(rand.NewPCG(seed, seed)))
}

func (f *FS) cutWith(chance *rand.Rand) error {
	if err := f.unmount(); err != nil {
		return err
	}
	f.disk.cut(chance)
	return f.mount()
}

// Fill makes the disk full, or not: every write and every new name then fails
// with ENOSPC. A Cut ends it.
func (f *FS) Fill(full bool) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.full, f.disk.unseen = full, false
}

// FillUnseen is Fill(true) on a disk that goes on saying that it has room.
func (f *FS) FillUnseen() {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.full, f.disk.unseen = true, true
}

// Syncs is how often something was synced so far.
func (f *FS) Syncs() int {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.disk.syncs
}
