package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeOffline runs the commands of the README's section on archives, the first
// ones beside a server and those of a repair when it is stopped.
func TestReadmeOffline(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(project, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## The history, offline\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := shBlock.FindAllStringSubmatch(section, -1)
	if !found || len(blocks) != 2 {
		t.Fatalf("the README has no section with two blocks of commands: %d", len(blocks))
	}
	work := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(work, "muster")); err != nil {
		t.Fatal(err)
	}
	p := serve(t, "--data", filepath.Join(work, "muster-data"), "--archive", filepath.Join(work, "fleet-archive"))
	ok(t, erasableTrace, "send", "--server", "nats://"+p.nats, "--file", "-")
	digest, _ := p.digest()
	p.caughtUp()
	out := inShell(t, work, blocks[0][1])
	if n := strings.Count(out, digest); n < 3 { // of replay, try and import
		t.Errorf("the digest %s is there %d times in\n%s", digest, n, out)
	}
	for _, want := range []string{"whole", "judged otherwise under whatsapp@1", "events in fleet.parquet", "account,version,at,recorded"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	p.stop()
	if out := inShell(t, work, blocks[1][1]); strings.Count(out, "there is nothing to repair") != 2 {
		t.Errorf("a whole stream:\n%s", out)
	}
}

// inShell runs commands as a person would, each of which must succeed.
func inShell(t *testing.T, dir, commands string) string {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v in\n%s\n%s", err, commands, out)
	}
	return string(out)
}
