//go:build unix

package bus

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// DiskFree returns the bytes that this process may still write on the file
// system of dir, and the file system's size.
func DiskFree(dir string) (free, total uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("read free space of %s: %w", dir, err)
	}
	size := uint64(st.Bsize)
	return uint64(st.Bavail) * size, uint64(st.Blocks) * size, nil
}
