package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/eventlog/powercuttest"
)

// TestDiskFull fills the disk under load: first with events, then with a file
// of somebody else's, to the last byte. What is refused is told why; questions
// are still answered; what was acknowledged is there when there is room again,
// and sending works at once.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	fs := mountTmpfs(t, 80)
	args := []string{"--data", filepath.Join(fs.dir, "data"), "--partitions", "2", "--log-transitions=false", "--snapshot-every", "500"}
	p := serve(t, args...)
	c := &crowd{
		ledger: &ledger{}, callers: 16, accounts: 16, pad: 50_000,
		refused: func(e *bus.Error) error {
			if e.Code != http.StatusInsufficientStorage || !strings.Contains(e.Detail, "the disk is full") || !strings.Contains(e.Detail, "free some space and send again") {
				return fmt.Errorf("refused with %w", e)
			}
			return nil
		},
	}
	c.begin(t, p.nats)
	more(t, "refusals", &c.refusals, 50, p)
	if c.acks.Load() < 100 {
		t.Errorf("only %d triggers fitted on the disk", c.acks.Load())
	}
	fs.fill(filepath.Join(fs.dir, "filler"))
	begin := time.Now()
	for time.Since(begin) < 6*time.Second { // leases are renewed meanwhile, or are not
		more(t, "refusals", &c.refusals, 50, p)
		questions(t, p)
	}
	_, stderr, code := muster(t, "", "serve", "--data", filepath.Join(fs.dir, "other"), "--http", freeAddr(t), "--nats-listen", freeAddr(t))
	if code != 1 || !strings.Contains(stderr, "the disk is full: ") || !strings.Contains(stderr, "or give another directory (--data)") {
		t.Errorf("a start on a full disk: exit %d, %s", code, stderr)
	}
	fs.remount(250, false)
	more(t, "acknowledgements", &c.acks, 100, p)
	c.end(t)
	p.kill()
	t.Logf("%d acknowledged, %d refused", c.acks.Load(), c.refusals.Load())
	afterwards(t, c.ledger, args...)
}

// questions asks what can be asked while nothing can be written.
func questions(t *testing.T, p *proc) {
	t.Helper()
	nc := p.connect()
	defer nc.Close()
	for subject, body := range map[string]string{
		"muster.q.accounts.get": `{"account":"acct-0001"}`, "muster.q.accounts.list": `{}`, "muster.q.stats": `{}`, "muster.q.digest": `{}`,
	} {
		m, err := nc.Request(subject, []byte(body), 10*time.Second)
		if err != nil || bus.ErrorOf(m) != nil {
			t.Fatalf("%s: %v, %v\n%s", subject, err, bus.ErrorOf(m), p.out)
		}
	}
}

// afterwards starts the server again and compares its history with the ledger
// and with itself.
func afterwards(t *testing.T, l *ledger, args ...string) {
	t.Helper()
	p := serve(t, args...)
	all := storedOf(t, p, 2)
	l.check(t, all)
	if got, accounts := p.digest(); got != fold(all) || accounts != len(all) {
		t.Fatalf("the digest is %s over %d accounts, the log's fold %s over %d", got, accounts, fold(all), len(all))
	}
	if r, stderr, code := sendOne(t, p, "--account", "one-more", "start"); code != 0 || r.Outcome != "applied" {
		t.Fatalf("one more: exit %d, %+v, %s", code, r, stderr)
	}
	p.stop()
}

// TestDiskFullWithoutNotice is a disk that fails to write although it says that
// there is room. The process acknowledges nothing that it could not write, says
// what is wrong and ends.
func TestDiskFullWithoutNotice(t *testing.T) {
	t.Parallel()
	fs := powercuttest.Mount(t)
	args := []string{"--data", filepath.Join(fs.Dir(), "data"), "--partitions", "2", "--log-transitions=false", "--snapshot-every", "500"}
	p := serve(t, args...)
	c := &crowd{
		ledger: &ledger{}, callers: 16, accounts: 16, pad: 100,
		refused: func(e *bus.Error) error {
			if !e.Retryable {
				return fmt.Errorf("refused with %w", e)
			}
			return nil
		},
		failed: func(error) error { return errLeave }, slow: true, // the server below says nothing of what it cannot store
	}
	c.begin(t, p.nats)
	more(t, "acknowledgements", &c.acks, 200, p)
	fs.FillUnseen()
	select {
	case <-p.done:
	case <-time.After(90 * time.Second):
		t.Fatalf("nothing can be written, and the process goes on:\n%s", p.out)
	}
	c.end(t)
	if said := p.out.String(); p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said, "muster: the log can promise nothing any more; start again: ") ||
		!strings.Contains(said, "no space left on device") || strings.Contains(said, "goroutine ") {
		t.Fatalf("the process ended with %v:\n%s", p.err, said)
	}
	t.Logf("%d acknowledged, %d refused", c.acks.Load(), c.refusals.Load())
	fs.Fill(false)
	afterwards(t, c.ledger, args...)
}
