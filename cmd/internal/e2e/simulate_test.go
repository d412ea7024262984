package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestSimulatePlaysAFleet plays a fleet to a server that is killed in the middle:
// the fleet waits and goes on, every trigger gets its verdict, and next to nothing
// is refused.
func TestSimulatePlaysAFleet(t *testing.T) {
	dir, addr := t.TempDir(), freeAddr(t)
	begin := func() *proc {
		p := run(t, addr, "--nats-listen", addr, "--data", dir, "--log-transitions=false")
		p.waitReady()
		return p
	}
	p := begin()
	cmd := exec.Command(binary, "simulate", "--server", "nats://"+addr, "--accounts", "60", "--rate", "150", "--profile", "storm", "--for", "6s", "-o", "json")
	var out, stderr lines
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	poll(t, time.Minute, func() bool { _, n := p.digest(); return n >= 10 }, func() string { return "no accounts came: " + stderr.String() })
	p.kill()
	p = begin()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("simulate ended with %v\n%s", err, stderr.String())
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("simulate does not end\n%s", stderr.String())
	}
	var report struct {
		Sent, Failed int
		Outcomes     map[string]int
	}
	if err := json.Unmarshal([]byte(out.String()), &report); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	refused := report.Outcomes["rejected"] + report.Outcomes["stale"] + report.Outcomes["invalid"]
	if report.Failed != 0 || report.Outcomes["applied"] < 100 || refused > report.Sent/10 {
		t.Errorf("%+v", report)
	}
	o, _, code := muster(t, "", "workers", "--server", "nats://"+addr, "-o", "json")
	if code != 0 || !strings.Contains(o, "sim-worker-2") {
		t.Errorf("exit code %d: %s", code, o)
	}
}
