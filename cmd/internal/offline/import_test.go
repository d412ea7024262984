package offline

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/trace"
	"github.com/musterhq/muster/eventlog/codec"
)

// folded folds what a data folder holds.
func folded(t *testing.T, dir string) string {
	t.Helper()
	log, done, err := OpenData(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	accounts := map[domain.AccountID]*domain.Account{}
	links := chains{}
	for p := range log.Partitions() {
		for r, err := range log.Read(t.Context(), p, 0) {
			if err == nil {
				err = links.check(r)
			}
			if err != nil {
				t.Fatal(err)
			}
			e, err := codec.Decode(r.Data)
			if err != nil {
				t.Fatal(err)
			}
			accounts[e.Account] = domain.Evolve(accounts[e.Account], &e)
		}
	}
	return digest(accounts)
}

// TestImportIsTry imports recorded sequences, each into a folder of its own. All
// of them are tried with -every 1.
func TestImportIsTry(t *testing.T) {
	for i, path := range cases(t) {
		if i%*every != 0 {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		res, err := trace.Run(bytes.NewReader(text), trace.Options{Machines: machines(t)})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		done, err := Import(t.Context(), dir, 2, res)
		if err != nil || done.Appended != len(res.Events) || done.Present != 0 {
			t.Fatalf("%s: %+v, %v; want %d events appended", filepath.Base(path), done, err, len(res.Events))
		}
		if got := folded(t, dir); got != res.Digest {
			t.Errorf("%s: the digest is %s, that of try %s", filepath.Base(path), got, res.Digest)
		}
	}
}

// TestImportGoesOn imports the first half of a trace, as if the process had died
// there, then all of it, then all of it again.
func TestImportGoesOn(t *testing.T) {
	text := randomTrace(5, "", whatsappTriggers)
	whole := judged(t, text)
	half := *whole
	half.Events = half.Events[:len(half.Events)/2]
	dir := t.TempDir()
	if _, err := Import(t.Context(), dir, 2, &half); err != nil {
		t.Fatal(err)
	}
	for _, present := range []int{len(half.Events), len(whole.Events)} {
		done, err := Import(t.Context(), dir, 0, whole)
		if err != nil || done.Present != present || done.Present+done.Appended != len(whole.Events) {
			t.Fatalf("%+v, %v; want %d of %d present", done, err, present, len(whole.Events))
		}
		if got := folded(t, dir); got != whole.Digest {
			t.Errorf("the digest is %s, want %s", got, whole.Digest)
		}
	}
	other := judged(t, strings.ReplaceAll(text, "connection_lost", "connection_ready")+`{"account":"newcomer","trigger":"start","at":"2026-03-01T10:00:00Z"}`)
	_, err := Import(t.Context(), dir, 0, other)
	var history *HistoryError
	if !errors.As(err, &history) || len(history.Accounts) == 0 || history.Accounts[0] == "newcomer" || !strings.Contains(err.Error(), string(history.Accounts[0])) {
		t.Fatalf("%v, want the accounts named that have a history", err)
	}
	if got := folded(t, dir); got != whole.Digest {
		t.Error("something was written although an account was refused")
	}
}
