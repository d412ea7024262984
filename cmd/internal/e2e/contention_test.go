package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/eventlog/natstest"
)

// TestTwoServersOnOneLog runs two servers on one NATS server, with load through
// both. The one that owns the partitions is frozen until the other has taken
// them over, and thawed: for a moment both believe that they are the writer.
// Then the new owner is killed, and the first one goes on alone. Whatever was
// acknowledged is in the log, once, as it was answered.
func TestTwoServersOnOneLog(t *testing.T) {
	t.Parallel()
	nats := natstest.Run(t, natstest.Listen)
	addr := strings.TrimPrefix(nats.URL(), "nats://")
	args := []string{"--log-transitions=false", "--snapshot-every", "2000", "--recover-after", "24h"}
	first := startOn(t, addr, args...)
	first.waitReady()
	second := startOn(t, addr, args...)
	second.waitReady()
	if !strings.Contains(second.out.String(), "another instance owns the partition; standing by for it") {
		t.Fatalf("the second server does not stand by:\n%s", second.out)
	}
	c := &crowd{
		ledger: &ledger{}, callers: 32, accounts: 300, slow: true,
		refused: func(e *bus.Error) error {
			if !e.Retryable {
				return e
			}
			return nil
		},
		failed: func(error) error { return nil }, // a caller of the frozen or killed one waits in vain
	}
	c.begin(t, addr)
	more(t, "acknowledgements", &c.acks, 1000, first)
	if f := forwarded(t, second); f == 0 {
		t.Error("the second server has sent nothing on to the owner of the partitions")
	}

	signal(t, first, syscall.SIGSTOP)
	poll(t, 2*time.Minute, func() bool { return strings.Count(second.out.String(), "msg=replayed") == partitions }, second.out.String)
	more(t, "acknowledgements", &c.acks, 50, second)
	signal(t, first, syscall.SIGCONT)
	more(t, "acknowledgements", &c.acks, 1000, second)
	poll(t, time.Minute, func() bool { return strings.Count(first.out.String(), "lease is lost") == partitions }, first.out.String)

	second.kill()
	poll(t, 2*time.Minute, func() bool { return strings.Count(first.out.String(), "msg=replayed") == 2*partitions }, first.out.String)
	more(t, "acknowledgements", &c.acks, 1000, first)
	c.end(t)
	t.Logf("%d acknowledged, %d refused", c.acks.Load(), c.refusals.Load())

	all := stored(t, first)
	c.ledger.check(t, all)
	want := fold(all)
	if got, n := first.digest(); got != want || n != len(all) {
		t.Fatalf("the digest is %s over %d accounts, the log's fold %s over %d", got, n, want, len(all))
	}
	first.stop()
	again := startOn(t, addr, args...)
	again.waitReady()
	if got, _ := again.digest(); got != want {
		t.Fatalf("the digest is %s after a restart, the log's fold %s", got, want)
	}
	again.stop()
}

func signal(t *testing.T, p *proc, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%v: %v\n%s", s, err, p.out)
	}
}

// forwarded is how many commands the servers have sent on to each other, as
// `nats micro stats` would show it.
func forwarded(t *testing.T, p *proc) (n uint64) {
	t.Helper()
	nc := p.connect()
	defer nc.Close()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest("$SRV.STATS.muster", sub.Subject, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatalf("statistics: %v", err)
		}
		var s struct {
			Endpoints []struct{ Data struct{ Forwarded uint64 } }
		}
		if err := json.Unmarshal(m.Data, &s); err != nil {
			t.Fatalf("%v: %s", err, m.Data)
		}
		for _, e := range s.Endpoints {
			n += e.Data.Forwarded
		}
	}
	return n
}
