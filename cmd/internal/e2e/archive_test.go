package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/cmd/internal/offline"
)

// archiveState is what /readyz says of the archive.
func (p *proc) archiveState() (s offline.ArchiverStats) {
	p.t.Helper()
	r, err := http.Get("http://" + p.http + "/readyz")
	if err != nil {
		p.t.Fatalf("readyz: %v\n%s", err, p.out)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	var body struct{ Archive *offline.ArchiverStats }
	if err != nil || json.Unmarshal(b, &body) != nil || body.Archive == nil {
		p.t.Fatalf("readyz says nothing of an archive: %v %s", err, b)
	}
	return *body.Archive
}

// archived waits until the archive holds a sequence of each partition.
func (p *proc) archived(want map[int]uint64) {
	p.t.Helper()
	poll(p.t, 30*time.Second, func() bool {
		s := p.archiveState()
		for partition, seq := range want {
			if s.Archived[partition] < seq {
				return false
			}
		}
		return true
	}, func() string { return fmt.Sprintf("%v is not archived: %+v\n%s", want, p.archiveState(), p.out) })
}

// caughtUp waits until the archive holds all that is stored.
func (p *proc) caughtUp() {
	p.t.Helper()
	poll(p.t, 30*time.Second, func() bool { return p.archiveState().Behind == 0 },
		func() string { return fmt.Sprintf("the archive stays behind: %+v\n%s", p.archiveState(), p.out) })
}

// askJSON runs a command with -o json and reads what it prints.
func askJSON(t testing.TB, code int, into any, args ...string) (stderr string) {
	t.Helper()
	out, stderr, got := muster(t, "", append(args, "-o", "json")...)
	if got != code {
		t.Fatalf("%v: exit %d, want %d: %s%s", args, got, code, out, stderr)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return stderr
}

// TestServeArchives: what is served is archived a moment later, also across
// kill -9, and the archive is whole at any time.
func TestServeArchives(t *testing.T) {
	t.Parallel()
	dir, arch := t.TempDir(), filepath.Join(t.TempDir(), "archive")
	args := []string{"--data", dir, "--archive", arch, "--log-transitions=false", "--recover-after", "24h"}
	l := &ledger{}
	for round := range 3 {
		p := serve(t, args...)
		stop := make(chan struct{})
		go func() { <-time.After(time.Second); close(stop) }()
		load(t, "nats://"+p.nats, l, 8, 100, uint64(round), stop)
		if round == 1 {
			refuses(t, 1, "another process writes this archive; one process at a time may write it (--archive)", "--data", t.TempDir(), "--archive", arch)
			p.caughtUp()
			if s := p.archiveState(); s.Dir != arch || s.Error != "" || s.Lag != 0 {
				t.Errorf("%+v", s)
			}
		}
		p.kill()
		var v offline.Verified
		askJSON(t, 0, &v, "verify", arch)
	}
	p := serve(t, args...)
	before, _ := p.digest()
	p.stop() // archives what came last
	var r struct {
		Digest string
		Events int64
	}
	askJSON(t, 0, &r, "replay", arch)
	if r.Digest != before || r.Events == 0 {
		t.Errorf("the replay gives %+v, the server %s", r, before)
	}
	var v offline.Verified
	askJSON(t, 0, &v, "verify", arch, "--data", dir)
	if v.Stream == nil || v.Stream.Behind != 0 || v.Stream.Compared != v.Records {
		t.Errorf("after an orderly end the archive does not hold all: %+v", v.Stream)
	}
	refuses(t, 1, "the archive is of another log: partition 0 is of a stream that was created at another time", "--data", t.TempDir(), "--archive", arch)
}

// damagedFleet is the data and the archive of a killed server, and its digest.
func damagedFleet(t *testing.T, settings ...string) (dir, arch, digest string, args []string) {
	t.Helper()
	dir, arch = t.TempDir(), filepath.Join(t.TempDir(), "archive")
	args = []string{"--data", dir, "--archive", arch, "--partitions", "1", "--log-transitions=false", "--recover-after", "24h"}
	args = append(args, settings...)
	p := serve(t, args...)
	heavy(t, p, 24, 12)
	digest, _ = p.digest()
	p.caughtUp()
	p.kill()
	return dir, arch, digest, args
}

// repaired repairs, and expects the history to be what it was.
func repaired(t *testing.T, dir, arch, digest string, args []string) {
	t.Helper()
	var plan, done offline.Repaired
	askJSON(t, 0, &plan, "repair", "--archive", arch, "--data", dir)
	if !plan.Needed || plan.Applied || plan.Restored == 0 || len(plan.Partitions[0].FromArchive)+len(plan.Partitions[0].FromCopies) == 0 {
		t.Fatalf("the plan is %+v", plan)
	}
	askJSON(t, 0, &done, "repair", "--archive", arch, "--data", dir, "--apply")
	if !done.Applied || done.Restored != plan.Restored || done.Missing != 0 || len(done.Damaged) != 0 || done.Partitions[0].Records != 24*12 {
		t.Fatalf("done: %+v", done)
	}
	if _, err := os.Stat(filepath.Join(done.Kept, "MUSTER_EV_00")); err != nil {
		t.Fatalf("the damaged stream was not kept: %v", err)
	}
	wholeAgain(t, dir, arch, digest, args)
}

// wholeAgain starts the server on what was repaired.
func wholeAgain(t *testing.T, dir, arch, digest string, args []string) {
	t.Helper()
	p := serve(t, args...)
	if got, _ := p.digest(); got != digest || strings.Contains(p.out.String(), "level=ERROR") {
		t.Fatalf("digest %s, before the damage %s\n%s", got, digest, p.out)
	}
	nc := p.connect()
	for a := range 24 {
		if m := send(t, nc, fmt.Sprintf("acct-%02d", a), "user_action_needed"); m.Header.Get("Nats-Service-Error-Code") != "" {
			t.Fatalf("acct-%02d takes nothing: %s %v", a, m.Data, m.Header)
		}
	}
	p.stop()
	var again offline.Repaired
	askJSON(t, 0, &again, "repair", "--archive", arch, "--data", dir)
	if again.Needed {
		t.Errorf("a second repair finds something: %+v", again)
	}
	var v offline.Verified
	askJSON(t, 0, &v, "verify", arch, "--data", dir)
	if v.Stream == nil || v.Stream.Compared != 24*13 || v.Stream.Behind != 0 {
		t.Errorf("the archive did not go on: %+v", v.Stream)
	}
}

// TestRepairBlockDamage damages a block in the middle of the store. The start
// names the accounts, verify the sequences, and repair puts them back.
func TestRepairBlockDamage(t *testing.T) {
	for name, hurt := range map[string]func(t *testing.T, dir string){
		"a flipped bit":   func(t *testing.T, dir string) { flip(t, blocks(t, dir)[0]) },
		"a deleted block": func(t *testing.T, dir string) { remove(t, blocks(t, dir)[1]) },
		"the first block": func(t *testing.T, dir string) { remove(t, blocks(t, dir)[0]) },
		"a cut block": func(t *testing.T, dir string) {
			if err := os.Truncate(blocks(t, dir)[0], 3_000_000); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, arch, digest, args := damagedFleet(t)
			hurt(t, dir)
			p := serve(t, args...)
			if !strings.Contains(p.out.String(), "account is damaged") {
				t.Fatalf("the damage was not noticed:\n%s", p.out)
			}
			p.stop()
			var v offline.Verified
			askJSON(t, 1, &v, "verify", arch, "--data", dir)
			if v.Whole || v.Stream == nil || len(v.Stream.Mismatches) == 0 || v.Stream.Mismatches[0].First == 0 {
				t.Fatalf("verify: %+v %+v", v, v.Stream)
			}
			repaired(t, dir, arch, digest, args)
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// TestArchiveIsAhead: a stream whose end is gone is not served beside an archive
// that has it, since its sequences would be given to other events.
func TestArchiveIsAhead(t *testing.T) {
	t.Parallel()
	dir, arch, digest, args := damagedFleet(t)
	b := blocks(t, dir)
	remove(t, b[len(b)-1])
	remove(t, filepath.Join(filepath.Dir(b[0]), "index.db"))
	refuses(t, 1, "to 288 of partition 0, of accounts ", args...)
	refuses(t, 1, "put them back with `muster repair --archive "+arch, args...)
	repaired(t, dir, arch, digest, args)
}

// TestRepairFromNothing: the folder is gone, and the archive gives it back.
func TestRepairFromNothing(t *testing.T) {
	t.Parallel()
	dir, arch, digest, args := damagedFleet(t)
	remove(t, filepath.Join(dir, "nats"))
	var done offline.Repaired
	askJSON(t, 0, &done, "repair", "--archive", arch, "--data", dir, "--apply")
	wholeAgain(t, dir, arch, digest, args)
}

// TestRepairIsKilled kills a repair at many points. What is left can be repaired
// or served, and nothing is lost.
func TestRepairIsKilled(t *testing.T) {
	t.Parallel()
	dir, arch, digest, args := damagedFleet(t)
	flip(t, blocks(t, dir)[0])
	begin := time.Now()
	_, stderr, code := muster(t, "", "repair", "--archive", arch, "--data", dir) // how long reading takes
	if code != 0 {
		t.Fatal(stderr)
	}
	reading := time.Since(begin)
	rnd := rand.New(rand.NewPCG(uint64(begin.UnixNano()), 0))
	killed := 0
	for range 12 {
		cmd := exec.Command(binary, "repair", "--archive", arch, "--data", dir, "--apply")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait := time.NewTimer(time.Duration(rnd.Int64N(int64(4*reading + 500*time.Millisecond))))
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("after %d kills the repair fails: %v", killed, err)
			}
			flip(t, blocks(t, dir)[0]) // for the next one
		case <-wait.C:
			killed++
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	t.Logf("%d of 12 were killed", killed)
	if _, stderr, code := muster(t, "", "repair", "--archive", arch, "--data", dir, "--apply"); code != 0 {
		t.Fatalf("the last one: %s", stderr)
	}
	wholeAgain(t, dir, arch, digest, args)
}

// TestRepairStopsAtAConflict: a stream that went on without its archive holds
// other events where the archive has some. Neither is touched.
func TestRepairStopsAtAConflict(t *testing.T) {
	t.Parallel()
	dir, arch, _, args := damagedFleet(t)
	b := blocks(t, dir)
	remove(t, b[len(b)-1])
	remove(t, filepath.Join(filepath.Dir(b[0]), "index.db"))
	p := serve(t, slices.DeleteFunc(slices.Clone(args), func(s string) bool { return s == "--archive" || s == arch })...)
	nc := p.connect()
	for i := range 200 {
		send(t, nc, fmt.Sprintf("new-%d", i), "start")
	}
	p.stop()
	before := tree(t, dir)
	out, stderr, code := muster(t, "", "repair", "--archive", arch, "--data", dir, "--apply")
	if code != 4 || !strings.Contains(stderr, "the stream and the archive hold different events") {
		t.Errorf("exit %d, %s%s", code, out, stderr)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("the data was changed:\n%s\n%s", before, after)
	}
}

// tree lists the files below the store with their sizes.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(filepath.Join(dir, "nats"), func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			fmt.Fprintf(&b, "%s %d\n", path, info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestArchiveCorruption: the exit codes of verify and replay, and what they say.
func TestArchiveCorruption(t *testing.T) {
	t.Parallel()
	dir, arch := t.TempDir(), filepath.Join(t.TempDir(), "archive")
	digest := populated(t, dir)
	var made struct{ Added, Segments int }
	askJSON(t, 0, &made, "archive", "--data", dir, "--out", arch)
	if made.Added < 60 || made.Segments != 4 {
		t.Fatalf("archived: %+v", made)
	}
	var v map[string]any
	askJSON(t, 0, &v, "verify", arch)
	if v["whole"] != true || v["records"] != float64(made.Added) || v["segments"] != 4.0 || v["stream"] != nil {
		t.Errorf("verify: %v", v)
	}
	for _, key := range []string{"partitions", "bytes", "gaps", "faults"} {
		if _, ok := v[key]; !ok {
			t.Errorf("verify does not say %q: %v", key, v)
		}
	}
	for _, nowhere := range []string{filepath.Join(arch, "nothing"), dir} {
		for _, cmd := range [][]string{{"verify", nowhere}, {"replay", nowhere}, {"repair", "--archive", nowhere, "--data", dir}} {
			if _, stderr, code := muster(t, "", cmd...); code != 3 {
				t.Errorf("%v: exit %d, %s", cmd, code, stderr)
			}
		}
	}
	if _, stderr, code := muster(t, "", "verify", arch, "--data", filepath.Join(dir, "nothing")); code != 3 {
		t.Errorf("verify against nothing: exit %d, %s", code, stderr)
	}
	var r struct {
		Digest   string
		Accounts int
		Damaged  []string
	}
	askJSON(t, 0, &r, "replay", arch)
	if r.Digest != digest || r.Accounts != 20 {
		t.Errorf("replay: %+v, want %s", r, digest)
	}
	flip(t, filepath.Join(arch, "02", "00000000000000000001.seg"))
	var bad offline.Verified
	askJSON(t, 1, &bad, "verify", arch)
	if bad.Whole || len(bad.Faults) == 0 || !strings.Contains(bad.Faults[0].File, "02/00000000000000000001.seg") {
		t.Errorf("verify: %+v", bad.Report)
	}
	if out, stderr, code := muster(t, "", "replay", arch, "-o", "json"); code != 1 || out != "" || !strings.Contains(stderr, "02/00000000000000000001.seg") {
		t.Errorf("replay of a damaged archive: exit %d, %s%s", code, out, stderr)
	}
	askJSON(t, 0, &r, "replay", arch, "--skip-damaged")
	if len(r.Damaged) == 0 || !strings.Contains(r.Damaged[0], "02/00000000000000000001.seg") || r.Accounts >= 20 || r.Accounts == 0 {
		t.Errorf("replay --skip-damaged: %+v", r)
	}
	if _, stderr, code := muster(t, "", "repair", "--archive", arch, "--data", dir); code != 1 || !strings.Contains(stderr, "the archive itself is damaged") {
		t.Errorf("repair from a damaged archive: exit %d, %s", code, stderr)
	}
	manifest := filepath.Join(arch, "manifest.json")
	b, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest, bytes.Replace(b, []byte(`"records":`), []byte(`"recorbs":`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := muster(t, "", "verify", arch); code != 1 {
		t.Errorf("verify of a changed manifest: exit %d, %s", code, stderr)
	}
}
