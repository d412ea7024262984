package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lookAround returns the lines that the README says to try on the demo.
func lookAround(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(project, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Look around\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := shBlock.FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 {
		t.Fatalf("the README's section \"Look around\" has %d blocks of commands, not 2", len(blocks))
	}
	return blocks[1][1]
}

// TestDemoAndTheReadmesLines runs the demo, and then in another shell exactly
// the lines that the README and the demo itself print.
func TestDemoAndTheReadmesLines(t *testing.T) {
	work, temp := t.TempDir(), t.TempDir()
	if err := os.Symlink(binary, filepath.Join(work, "muster")); err != nil {
		t.Fatal(err)
	}
	out := &lines{}
	demo := exec.Command("./muster", "demo", "--accounts", "150", "--nats-listen", freeAddr(t), "--http", freeAddr(t))
	demo.Dir, demo.Env = work, append(os.Environ(), "TMPDIR="+temp)
	demo.Stdout, demo.Stderr = out, out
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- demo.Wait() }()
	t.Cleanup(func() { _ = demo.Process.Kill() })
	poll(t, 2*time.Minute, func() bool {
		select {
		case err := <-ended:
			t.Fatalf("the demo ended: %v\n%s", err, out)
		default:
		}
		return strings.Contains(out.String(), "Interrupt (ctrl-C) to end.")
	}, func() string { return "the demo did not get ready:\n" + out.String() })

	readme := strings.TrimSpace(lookAround(t))
	var printed []string
	server := ""
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "export MUSTER_SERVER="); ok {
			server = rest
		}
		if strings.HasPrefix(line, "./muster ") {
			printed = append(printed, line)
		}
	}
	if got := strings.Join(printed, "\n"); got != readme {
		t.Errorf("the demo prints\n%s\nand the README says\n%s", got, readme)
	}
	if server == "" {
		t.Fatalf("the demo does not say where its server is:\n%s", out)
	}
	for line := range strings.Lines(readme) {
		line = strings.TrimSpace(line)
		cmd := exec.Command("timeout", "60", "bash", "-c", line)
		cmd.Dir, cmd.Env = work, append(os.Environ(), "MUSTER_SERVER="+server)
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, said)
		}
		for _, want := range demoWords[line] {
			if !strings.Contains(string(said), want) {
				t.Errorf("%s does not say %q:\n%s", line, want, said)
			}
		}
	}
	if err := demo.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the demo ended with %v\n%s", err, out)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the demo does not end:\n%s", out)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v behind (%v)", left, err)
	}
}

// demoWords are what must stand in the answer to a line.
var demoWords = map[string][]string{
	"./muster stats":                                              {"154 accounts", "whatsapp@2  RUNNING", "wecom@1", "instance@1", "TIME TO RUNNING"},
	"./muster attention list":                                     {"banned", "replaced", "flapping", "scan_qr"},
	"./muster why demo-replaced":                                  {"demo-replaced has been DISCONNECTED for ", "another client took it over", "flapping"},
	"./muster timeline demo-replaced":                             {"connection_replaced", "RUNNING", "440"},
	`./muster can demo-banned || echo "exit code $?: it may not"`: {"banned", "exit code 5: it may not"},
	"./muster route --label pool=eu -n 3":                         {"sim-0"},
	"./muster workers":                                            {"sim-worker-1", "sim-worker-2", "live"},
	"./muster tail -n 20":                                         {" via ", "] sim-"},
	"./muster send --account demo-1 --by user stop":               {`"outcome":"applied","from":"RUNNING","to":"STOPPED"`},
	"./muster why demo-1":                                         {"demo-1", "STOPPED"},
}
