package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/musterhq/muster/cmd/internal/offline"
)

// TestRepairSealed: a history whose accounts can be erased is repaired as it is stored,
// without its keys, and is made anew of the archive alone.
func TestRepairSealed(t *testing.T) {
	t.Parallel()
	dir, arch, digest, args := damagedFleet(t, "--erasable")
	flip(t, blocks(t, dir)[0])
	remove(t, blocks(t, dir)[1])
	keys := filepath.Join(dir, "keys")
	if err := os.Rename(keys, keys+".aside"); err != nil {
		t.Fatal(err)
	}
	var done offline.Repaired
	askJSON(t, 0, &done, "repair", "--archive", arch, "--data", dir, "--apply")
	if !done.Applied || done.Missing != 0 || len(done.Damaged) != 0 || done.Partitions[0].Records != 24*12 {
		t.Fatalf("done: %+v", done)
	}
	remove(t, filepath.Join(dir, "nats"))
	askJSON(t, 0, &done, "repair", "--archive", arch, "--data", dir, "--apply")
	if err := os.Rename(keys+".aside", keys); err != nil {
		t.Fatal(err)
	}
	wholeAgain(t, dir, arch, digest, args)
	var v offline.Verified
	askJSON(t, 0, &v, "verify", arch, "--keys", keys)
	if v.Sealed == nil || v.Sealed.Opened != 24*13 || v.Sealed.Closed != 0 {
		t.Errorf("with the keys: %+v", v.Sealed)
	}
	if got := ok(t, "", "export", arch, "--keys", keys); !strings.Contains(got, `"account":"acct-07"`) || strings.Contains(got, `"account":"~`) {
		t.Errorf("exported with the keys: %.300s", got)
	}
	if got := ok(t, "", "export", arch); strings.Contains(got, "acct-07") {
		t.Errorf("exported without the keys: %.300s", got)
	}
}
