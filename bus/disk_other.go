//go:build !unix

package bus

import (
	"errors"
	"fmt"
)

// DiskFree returns the bytes that this process may still write on the file
// system of dir, and the file system's size. Here it is not known.
func DiskFree(dir string) (free, total uint64, err error) {
	return 0, 0, fmt.Errorf("read free space of %s: %w", dir, errors.ErrUnsupported)
}
