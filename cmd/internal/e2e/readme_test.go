package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// project is the project's root, seen from this package.
const project = "../../.."

// shBlock is a block of commands in a document.
var shBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// firstFiveMinutes returns the commands of that section of the README.
func firstFiveMinutes(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(project, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## The first five minutes\n")
	if !ok {
		t.Fatal("the README has no section \"The first five minutes\"")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var commands []string
	for _, block := range shBlock.FindAllStringSubmatch(section, -1) {
		commands = append(commands, block[1])
	}
	return commands
}

// TestReadmeFirstFiveMinutes copies the commands of the README's first five
// minutes into a shell, against a server, and looks at what they print.
func TestReadmeFirstFiveMinutes(t *testing.T) {
	data, work := t.TempDir(), t.TempDir()
	for link, target := range map[string]string{"muster": binary, "cmd": filepath.Join(project, "cmd")} {
		target, err := filepath.Abs(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(work, link)); err != nil {
			t.Fatal(err)
		}
	}
	p := serve(t, "--data", data)
	shell := func(commands string) string {
		t.Helper()
		cmd := exec.Command("bash", "-uc", commands) // as a person would: a line that exits with 8 does not end it
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "MUSTER_SERVER=nats://"+p.nats)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v in\n%s\n%s", err, commands, out)
		}
		return string(out)
	}
	var all strings.Builder
	for _, commands := range firstFiveMinutes(t) {
		all.WriteString(shell(commands))
	}
	for line := range strings.Lines(all.String()) {
		if strings.HasPrefix(line, "bash: ") || strings.HasPrefix(line, "muster: ") && !strings.HasPrefix(line, "muster: stale: ") {
			t.Errorf("a line went wrong: %s", line)
		}
	}
	for _, want := range []string{
		`"trigger":"sync_completed","outcome":"applied","from":"SYNCING","to":"RUNNING","version":4`,
		"acct-1 is RUNNING since",
		"acct-1 is DEGRADED since",
		"exit code 8",
		"91 verdicts: ",
		"21 accounts",
		"TIME TO RUNNING",
		"no: acct-1 may not send: it is DEGRADED; rate_limited",
		"shop-06 has been DISCONNECTED for ",
		"login_needed",
		"sha256:",
	} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("%q is missing in\n%s", want, all.String())
		}
	}
	before := shell("./muster digest")
	p.kill()
	p = serve(t, "--data", data)
	if after := shell("./muster digest"); after != before || !strings.Contains(after, "over 21 accounts") {
		t.Errorf("the digest is %q after kill -9, and was %q", after, before)
	}
}
