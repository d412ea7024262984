package eventlogtest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/musterhq/muster/eventlog"
)

// RunBlobs holds a blob store to the contract of eventlog.Blobs. open returns
// an empty one.
func RunBlobs(t *testing.T, open func(*testing.T) eventlog.Blobs) {
	t.Run("PutGetDelete", func(t *testing.T) { testPutGetDelete(t, open(t)) })
	t.Run("FailedPutKeepsTheOld", func(t *testing.T) { testFailedPut(t, open(t)) })
}

func get(t *testing.T, blobs eventlog.Blobs, name string) (string, error) {
	t.Helper()
	r, err := blobs.Get(t.Context(), name)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("read blob %q: %v", name, err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("close blob %q: %v", name, err)
	}
	return string(data), nil
}

func testPutGetDelete(t *testing.T, blobs eventlog.Blobs) {
	big := strings.Repeat("0123456789abcdef", 40<<10)
	if _, err := get(t, blobs, "snapshot/01"); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("a blob that is not there: %v, want ErrNotFound", err)
	}
	for _, content := range []string{"one", big, "", "four"} {
		if err := blobs.Put(t.Context(), "snapshot/01", strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := get(t, blobs, "snapshot/01"); err != nil || got != content {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, len(content))
		}
	}
	if err := blobs.Put(t.Context(), "other", bytes.NewReader([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is none
		if err := blobs.Delete(t.Context(), "snapshot/01"); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if _, err := get(t, blobs, "snapshot/01"); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("a deleted blob: %v, want ErrNotFound", err)
	}
	if got, err := get(t, blobs, "other"); err != nil || got != "x" {
		t.Errorf("the other blob: %q, %v", got, err)
	}
}

func testFailedPut(t *testing.T, blobs eventlog.Blobs) {
	if err := blobs.Put(t.Context(), "b", strings.NewReader("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the reader broke")
	half := io.MultiReader(strings.NewReader(strings.Repeat("x", 300<<10)), iotest.ErrReader(broken))
	if err := blobs.Put(t.Context(), "b", half); !errors.Is(err, broken) {
		t.Errorf("put of a broken reader: %v", err)
	}
	if got, err := get(t, blobs, "b"); err != nil || got != "old" {
		t.Errorf("after a failed put: %d bytes, %v, want the old content", len(got), err)
	}
}
