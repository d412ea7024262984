package app

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/musterhq/muster/eventlog/memlog"
)

func TestBlobsLeaveRoomToTheHistory(t *testing.T) {
	broken := false
	b := &roomyBlobs{Blobs: new(memlog.Blobs), broken: func() bool { return broken }}
	put := func() error { return b.Put(context.Background(), "a", strings.NewReader("content")) }
	if err := put(); err != nil {
		t.Fatal(err)
	}
	r, err := b.Get(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); string(text) != "content" || err != nil {
		t.Fatalf("%q, %v", text, err)
	}
	b.free = func() (uint64, error) { return 63 << 20, nil }
	if err := put(); err == nil || !strings.Contains(err.Error(), "only 63 MiB are free on the disk, and the last 64 MiB are left to the history") {
		t.Errorf("on a full disk: %v", err)
	}
	b.free = func() (uint64, error) { return 0, errors.ErrUnsupported }
	if err := put(); err != nil {
		t.Errorf("on a disk that cannot be measured: %v", err)
	}
	broken = true
	if err := put(); err == nil || !strings.Contains(err.Error(), "not while the process ends because of a failure") {
		t.Errorf("after a failure: %v", err)
	}
}
