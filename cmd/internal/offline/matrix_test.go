package offline

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/eventlog/archive"
)

// TestReplayRefusesEveryFlip changes each byte of a small sealed archive, and cuts each
// of its files at each byte: a replay refuses it, and one that is to go on behind damage
// says that there is some. Verify names the file.
func TestReplayRefusesEveryFlip(t *testing.T) {
	dir := written(t, 1, judged(t, `{"account":"a","trigger":"start","by":"user","at":"2026-01-05T10:00:00Z"}
{"account":"c","trigger":"message_sent","key":"m-1","at":"2026-01-05T10:00:03Z"}
`).Events).Dir
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	reg := machines(t)
	for _, path := range append(files, filepath.Join(dir, "manifest.json")) {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := range whole {
			flipped := slices.Clone(whole)
			flipped[at] ^= 1 << (at % 8)
			refusesDamaged(t, reg, dir, path, at, flipped)
			refusesDamaged(t, reg, dir, path, at, whole[:at])
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := Verify(t.Context(), dir, nil); err != nil || !v.Whole {
		t.Errorf("the archive is not what it was: %+v, %v", v, err)
	}
}

// refusesDamaged replays and verifies with other bytes in a file.
func refusesDamaged(t *testing.T, reg *machine.Registry, dir, path string, at int, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := Verify(t.Context(), dir, nil); err != nil || v.Whole || len(v.Faults) == 0 || v.Faults[0].File == "" {
		t.Errorf("%s, byte %d of %d: verify says %+v, %v", filepath.Base(path), at, len(content), v, err)
	}
	a, err := archive.OpenArchive(dir)
	if err != nil {
		return // refused
	}
	defer a.Close()
	if _, err := Replay(t.Context(), a, Options{Machines: reg, Workers: 1}); err == nil {
		t.Errorf("%s, byte %d of %d: replayed as if nothing were wrong", filepath.Base(path), at, len(content))
	}
	if at%8 != 0 { // each one takes its time
		return
	}
	told := 0
	if _, err := Replay(t.Context(), a, Options{Machines: reg, Workers: 1, Damaged: func(error) { told++ }}); err == nil && told == 0 {
		t.Errorf("%s, byte %d of %d: passed over without a word", filepath.Base(path), at, len(content))
	}
}
