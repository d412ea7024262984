package e2e

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/codec"
	"github.com/musterhq/muster/eventlog/natstest"
)

// refuses starts a server that cannot start and compares its exit code and its
// last line, which is all that it has to say.
func refuses(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	base := []string{"serve"}
	for _, flag := range []string{"--http", "--nats-listen"} {
		if !slices.Contains(args, flag) {
			base = append(base, flag, freeAddr(t))
		}
	}
	_, stderr, got := muster(t, "", append(base, args...)...)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := lines[len(lines)-1]
	if got != code || !strings.HasPrefix(last, "muster: ") || !strings.Contains(last, want) {
		t.Errorf("serve %v: exit %d, want %d; %q wants %q in it", args, got, code, last, want)
	}
	for _, line := range lines[:len(lines)-1] {
		if !strings.Contains(line, "level=") || strings.Contains(line, "msg=ended") {
			t.Errorf("serve %v says more than a sentence: %s", args, line)
		}
	}
}

// populated is a data directory with some accounts, and the digest of their state.
func populated(t *testing.T, dir string, args ...string) (digest string) {
	t.Helper()
	p := serve(t, append([]string{"--data", dir}, args...)...)
	nc := p.connect()
	for i := range 20 {
		for _, trigger := range []string{"start", "qr_received", "connection_ready"} {
			send(t, nc, fmt.Sprintf("acct-%02d", i), trigger)
		}
	}
	digest, n := p.digest()
	if n != 20 {
		t.Fatalf("there are %d accounts, want 20", n)
	}
	p.stop()
	return digest
}

// whole starts a server on the data and expects what was there.
func whole(t *testing.T, dir, digest string, args ...string) {
	t.Helper()
	p := serve(t, append([]string{"--data", dir}, args...)...)
	if got, n := p.digest(); got != digest || n != 20 {
		t.Errorf("the data is not what it was: %d accounts, digest %s, want 20 and %s\n%s", n, got, digest, p.out)
	}
	if r, stderr, code := sendOne(t, p, "--account", "acct-00", "user_action_needed"); code != 0 || r.Version < 4 {
		t.Errorf("it takes nothing more: exit %d, %+v, %s", code, r, stderr)
	}
	p.stop()
}

// TestStartThatIsRefused: each says in one sentence what is wrong and what to
// do, and leaves the data alone.
func TestStartThatIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	digest := populated(t, dir)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().String()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	refuses(t, 1, "another process listens on "+port+"; stop it, or choose another address (--http; port 0 takes a free one)", "--data", dir, "--http", port)
	refuses(t, 1, "another process listens on "+port+"; stop it, or choose another address for NATS (port 0 takes a free one)", "--data", dir, "--nats-listen", port)
	refuses(t, 1, "it has 4 partitions and was opened with 2; the number is fixed when a log is created: open it with 4, or export", "--data", dir, "--partitions", "2")
	refuses(t, 1, file+", or a part of its path, is not a directory; give another one (--data)", "--data", file)
	refuses(t, 1, filepath.Join(file, "below")+", or a part of its path, is not a directory; give another one (--data)", "--data", filepath.Join(file, "below"))
	refuses(t, 2, "/nosuch is no folder that can be read; name one that holds *.yaml files (--machines)", "--data", dir, "--machines", "/nosuch")
	refuses(t, 2, "partitions is 101; from 1 to 100 are possible", "--data", dir, "--partitions", "101")
	refuses(t, 2, `sync mode "often": it is group, always or interval`, "--data", dir, "--sync", "often")
	if text, err := os.ReadFile(file); string(text) != "content" || err != nil {
		t.Errorf("the file holds %q now (%v)", text, err)
	}
	p := serve(t, "--data", dir)
	refuses(t, 1, fmt.Sprintf("%s is held by process %d; stop it, or give this one its own directory (--data)", dir, p.cmd.Process.Pid), "--data", dir)
	if got, _ := p.digest(); got != digest {
		t.Errorf("the running server was disturbed: its digest is %s, want %s", got, digest)
	}
	p.kill()
	whole(t, dir, digest) // the lock of a killed process holds nobody up
}

// TestPartitionCountIsThatOfTheData: data of eight partitions needs no flag, and
// takes no other number.
func TestPartitionCountIsThatOfTheData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	digest := populated(t, dir, "--partitions", "8")
	refuses(t, 1, "it has 8 partitions and was opened with 4", "--data", dir, "--partitions", "4")
	whole(t, dir, digest)
}

// TestDirectoryThatCannotBeWritten starts on a file system that is read-only, or,
// for who is not root, in a folder without the permission.
func TestDirectoryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	want := fmt.Sprintf("the data directory is not writable: user %d may not write in ", os.Getuid())
	if os.Getuid() != 0 {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		refuses(t, 1, want, "--data", dir)
		return
	}
	fs := mountTmpfs(t, 200)
	dir := filepath.Join(fs.dir, "data")
	digest := populated(t, dir)
	fs.remount(200, true)
	refuses(t, 1, want, "--data", dir)
	refuses(t, 1, want, "--data", filepath.Join(fs.dir, "new"))
	fs.remount(200, false)
	whole(t, dir, digest)
}

// TestRecordOfANewerVersion: data that a newer Muster has written to is refused
// with what to do, and is left as it was.
func TestRecordOfANewerVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	digest := populated(t, dir)
	later := t.TempDir()
	if out, err := exec.Command("cp", "-a", dir+"/.", later).CombinedOutput(); err != nil {
		t.Fatalf("copy the data: %v: %s", err, out)
	}
	before := appendNewer(t, filepath.Join(later, "nats"))
	for range 2 {
		refuses(t, 1, fmt.Sprintf("record version %d was written by a newer Muster; upgrade", codec.Version+1), "--data", later)
	}
	if after := lastSequences(t, filepath.Join(later, "nats")); !maps.Equal(after, before) {
		t.Errorf("the streams end at %v, and ended at %v", after, before)
	}
	whole(t, dir, digest) // where the newer record is not, nothing is wrong
}

// appendNewer appends, with an ordinary client, a record of the next format
// version to the log in a store, and returns where the streams end then.
func appendNewer(t *testing.T, store string) map[string]uint64 {
	t.Helper()
	record, err := codec.AppendRecord(nil, &domain.Event{
		Version: 1, Account: "acct-new", Kind: domain.KindSession, Machine: "whatsapp@2", Initial: "IDLE",
		Trigger: "start", Outcome: domain.Applied, From: "IDLE", To: "CONNECTING", At: 1, Recorded: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	// A record begins with its version: a map, the name v, a small number.
	if i := strings.Index(string(record), "\xa1v"); i < 0 || record[i+2] != codec.Version {
		t.Fatalf("the record does not begin with its version: %x", record)
	} else {
		record[i+2]++
	}
	s, err := natstest.Start(store)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), eventlog.Subject(eventlog.Partition("acct-new", partitions), "acct-new"), record); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	s.Stop()
	return lastSequences(t, store)
}

// lastSequences are the last sequences of the streams in a store that no server
// is using.
func lastSequences(t *testing.T, store string) map[string]uint64 {
	t.Helper()
	s, err := natstest.Start(store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	return sequences(t, nc)
}

// TestMachineThatIsGone: accounts of a machine whose file is not given any more
// can be read, and say what is missing when something is sent to them.
func TestMachineThatIsGone(t *testing.T) {
	t.Parallel()
	dir, machines := t.TempDir(), t.TempDir()
	text, stderr, code := muster(t, "", "machines", "show", "whatsapp@1", "-o", "yaml")
	if code != 0 {
		t.Fatal(stderr)
	}
	if err := os.WriteFile(filepath.Join(machines, "shop.yaml"), []byte(strings.Replace(text, "whatsapp@1", "shop@1", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	p := serve(t, "--data", dir, "--machines", machines)
	if r, stderr, code := sendOne(t, p, "--account", "a", "--machine", "shop@1", "start"); code != 0 || r.To != "CONNECTING" {
		t.Fatalf("exit %d, %+v, %s", code, r, stderr)
	}
	before, _ := p.digest()
	p.stop()
	p = serve(t, "--data", dir)
	if after, _ := p.digest(); after != before {
		t.Errorf("the digest is %s, and was %s", after, before)
	}
	if _, stderr, code := sendOne(t, p, "--account", "a", "stop"); code != 2 ||
		!strings.Contains(stderr, "machine: the account's machine shop@1 is not known to this process; give it the file that defines it") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	p.stop()
	p = serve(t, "--data", dir, "--machines", machines)
	if r, stderr, code := sendOne(t, p, "--account", "a", "stop"); code != 0 || r.Version != 2 {
		t.Errorf("with the file: exit %d, %+v, %s", code, r, stderr)
	}
}
