//go:build !linux

package e2e

import (
	"fmt"
	"os"
	"testing"
)

// tmpfs is a small file system of its own for a test; only Linux has one.
type tmpfs struct{ dir string }

func mountTmpfs(t *testing.T, _ int) *tmpfs {
	t.Helper()
	text := t.Name() + " DID NOT RUN: it needs a file system of its own, which it can make on Linux only"
	_, _ = fmt.Fprintln(os.Stderr, text)
	t.Skip(text)
	return nil
}

func (*tmpfs) remount(int, bool) {}
func (*tmpfs) fill(string)       {}
