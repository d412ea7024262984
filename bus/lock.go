package bus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// ErrDirLocked is wrapped by LockDir's error when another process holds the directory.
var ErrDirLocked = errors.New("the data directory is in use")

// lockName is the file in a data directory that is locked, and that names its holder.
const lockName = "muster.lock"

// DirLock is the right of one process to a data directory. The operating
// system gives it up when the process ends, however it ends.
type DirLock struct {
	dir  string
	lock *flock.Flock
}

// LockDir takes the data directory for this process, making it when it is not
// there. The error wraps ErrDirLocked, and names the holder when it is known,
// if another process has it.
func LockDir(dir string) (*DirLock, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, dirError(dir, err)
	}
	path := filepath.Join(dir, lockName)
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o640))
	got, err := l.TryLock()
	if err != nil {
		return nil, dirError(dir, err)
	}
	if !got {
		return nil, fmt.Errorf("%w: %s is held by %s; stop it, or give this one its own directory (--data)",
			ErrDirLocked, dir, holder(path))
	}
	// The pid is for people only; the lock holds without it, also on a full disk.
	_ = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o640)
	return &DirLock{dir: dir, lock: l}, nil
}

// Dir is the locked directory.
func (l *DirLock) Dir() string { return l.dir }

// Unlock gives the directory back. The lock file stays: removing it would let
// two processes lock two files of the same name.
func (l *DirLock) Unlock() error {
	if err := l.lock.Unlock(); err != nil {
		return fmt.Errorf("unlock data directory %s: %w", l.dir, err)
	}
	return nil
}

// holder says who holds a lock file, as far as its content tells.
func holder(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "another process"
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}
