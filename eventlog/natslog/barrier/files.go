package barrier

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotSeen is wrapped when acked records are in no file: the server does not
// write as this package believes.
var ErrNotSeen = errors.New("records were acked but no block file has grown")

// Files are the block files of one stream. It keeps the one that grows open,
// so that a write error which the kernel has met meanwhile is reported to it.
// Methods must not run side by side.
type Files struct {
	dir    string // of the stream
	msgs   *os.File
	last   *os.File // the block with the highest number, nil while there is none
	number int
	size   int64 // of last when it was synced
	total  int64 // of all blocks below last
}

// OpenFiles opens a stream's folder and syncs all of it: blocks, the stream's
// own meta files, and the names up to the folder top.
func OpenFiles(dir, top string) (*Files, error) {
	msgs, err := os.Open(filepath.Join(dir, "msgs"))
	if err != nil {
		return nil, err
	}
	f := &Files{dir: dir, msgs: msgs}
	if err := f.syncAll(top); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncAll syncs what OpenFiles promises and finds the last block.
func (f *Files) syncAll(top string) error {
	for _, meta := range []string{"meta.inf", "meta.sum"} {
		if err := syncPath(filepath.Join(f.dir, meta)); err != nil {
			return err
		}
	}
	if err := f.rescan(); err != nil {
		return err
	}
	for dir := f.dir; ; dir = filepath.Dir(dir) {
		if err := syncPath(dir); err != nil {
			return err
		}
		if dir == filepath.Clean(top) || dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// rescan syncs every block file and the folder, and takes the highest as the last.
func (f *Files) rescan() error {
	entries, err := os.ReadDir(f.msgs.Name())
	if err != nil {
		return err
	}
	last, total := 0, int64(0)
	for _, e := range entries {
		n, ok := blockNumber(e.Name())
		if !ok {
			continue
		}
		path := filepath.Join(f.msgs.Name(), e.Name())
		if err := syncPath(path); err != nil {
			return err
		}
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		total += st.Size()
		last = max(last, n)
	}
	if err := f.msgs.Sync(); err != nil {
		return err
	}
	f.closeLast()
	if last == 0 {
		f.total = total
		return nil
	}
	if f.last, err = os.Open(f.block(last)); err != nil {
		return err
	}
	st, err := f.last.Stat()
	if err != nil {
		return err
	}
	// It may have grown since it was synced above; with size 0 the next Sync syncs it again.
	f.number, f.size, f.total = last, 0, total-st.Size()
	return nil
}

// Sync makes durable what has been written so far. grown says that records
// were acked since the last Sync, so that some file must have grown.
func (f *Files) Sync(grown bool) error {
	seen := false
	for {
		if f.last != nil {
			grew, err := f.syncLast()
			if err != nil {
				return err
			}
			seen = seen || grew
		}
		next, err := os.Open(f.block(f.number + 1))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		if err := f.msgs.Sync(); err != nil { // its name
			return errors.Join(err, next.Close())
		}
		number := f.number + 1
		f.total += f.size
		f.closeLast()
		f.last, f.number = next, number
	}
	if grown && !seen {
		return f.look()
	}
	return nil
}

// syncLast syncs the last block if it has another size than when it was synced.
func (f *Files) syncLast() (grew bool, err error) {
	st, err := f.last.Stat()
	if err != nil {
		return false, err
	}
	if st.Size() == f.size {
		return false, nil
	}
	if err := unix.Fdatasync(int(f.last.Fd())); err != nil {
		return false, &os.PathError{Op: "fdatasync", Path: f.last.Name(), Err: err}
	}
	f.size = st.Size()
	return true, nil
}

// look is for records that should have come but did not show: the server may
// have replaced files or skipped a number. Only if all blocks together have
// not grown is the layout another one.
func (f *Files) look() error {
	before := f.total + f.size
	if err := f.rescan(); err != nil {
		return err
	}
	if f.last != nil {
		if _, err := f.syncLast(); err != nil {
			return err
		}
	}
	if f.total+f.size <= before {
		return fmt.Errorf("%s: %w", f.msgs.Name(), ErrNotSeen)
	}
	return nil
}

// EndsWith reports whether data stands within the last bytes of what was synced.
func (f *Files) EndsWith(data []byte) (bool, error) {
	if f.last == nil {
		return false, nil
	}
	window := min(f.size, int64(len(data))+1024)
	buf := make([]byte, window)
	if _, err := f.last.ReadAt(buf, f.size-window); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return bytes.Contains(buf, data), nil
}

func (f *Files) block(n int) string {
	return filepath.Join(f.msgs.Name(), strconv.Itoa(n)+".blk")
}

// blockNumber reads the number off a block file's name.
func blockNumber(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name, ".blk")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0
}

func (f *Files) closeLast() {
	if f.last != nil {
		_ = f.last.Close() // opened for reading, and synced
		f.last, f.number, f.size = nil, 0, 0
	}
}

// Close closes the files.
func (f *Files) Close() error {
	f.closeLast()
	return f.msgs.Close()
}

// syncPath syncs one file or folder. One that is not there is no error: a
// stream's checksum file may come later.
func syncPath(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
