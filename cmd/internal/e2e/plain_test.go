package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"
)

// plainJSON is a message that must be a JSON object.
func plainJSON(t *testing.T, m *nats.Msg) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(m.Data, &v); err != nil {
		t.Fatalf("%s: %v: %q (%v)", m.Subject, err, m.Data, m.Header)
	}
	return v
}

// TestPlainNATSClient does with nats.go, and nothing of Muster's, what the nats
// command line does: it has a trigger judged, leaves one in the inbox, hears the
// feed, and reads the event stream with a durable consumer.
func TestPlainNATSClient(t *testing.T) {
	p := serve(t, "--data", t.TempDir(), "--partitions", "1")
	nc := p.connect()
	feed, err := nc.SubscribeSync("muster.feed.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}

	answer, err := nc.Request("muster.cmd.acct-1", []byte(`{"account":"acct-1","trigger":"start","by":"user"}`), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if v := plainJSON(t, answer); v["outcome"] != "applied" || v["from"] != "IDLE" || v["to"] != "CONNECTING" || v["version"] != 1.0 {
		t.Errorf("the verdict is %v", v)
	}

	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	// The inbox keeps it; the server's acknowledgement says so.
	if _, err := js.Publish(t.Context(), "muster.in.=2B1555", []byte(`{"account":"+1555","trigger":"adopt","source":"waha-1","data":{"state":"RUNNING"}}`)); err != nil {
		t.Fatal(err)
	}

	for i, want := range []struct{ subject, account, trigger, to string }{
		{"muster.feed.acct-1", "acct-1", "start", "CONNECTING"},
		{"muster.feed.=2B1555", "+1555", "adopt", "RUNNING"},
	} {
		m, err := feed.NextMsg(30 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		v := plainJSON(t, m)
		if m.Subject != want.subject || v["account"] != want.account || v["trigger"] != want.trigger || v["to"] != want.to ||
			v["outcome"] != "applied" || v["version"] != 1.0 || v["partition"] != 0.0 || v["seq"] != float64(i+1) {
			t.Errorf("on %s came %v", m.Subject, v)
		}
	}

	consumer, err := js.CreateConsumer(t.Context(), "MUSTER_EV_00", jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	got, err := consumer.Fetch(2, jetstream.FetchMaxWait(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for m := range got.Messages() {
		// A record is one msgpack map; its keys are listed in the record format.
		var record map[string]any
		if err := msgpack.Unmarshal(m.Data(), &record); err != nil {
			t.Fatal(err)
		}
		if want := []string{"start", "adopt"}[n]; record["t"] != want {
			t.Errorf("record %d is %v", n, record)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 || got.Error() != nil {
		t.Errorf("%d records came: %v", n, got.Error())
	}
}

// TestTailSurvivesARestart: over a server that is killed and started again, tail
// prints every line once, and an interrupt ends it well.
func TestTailSurvivesARestart(t *testing.T) {
	dir, addr := t.TempDir(), freeAddr(t)
	begin := func() *proc {
		p := run(t, addr, "--nats-listen", addr, "--data", dir)
		p.waitReady()
		return p
	}
	p := begin()
	stderr := &lines{}
	tail := exec.Command(binary, "tail", "--server", "nats://"+addr, "--since", "1", "--trigger", "start,stop")
	tail.Stderr = stderr
	out, err := tail.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	send := func(trigger string) {
		t.Helper()
		if _, e, code := muster(t, "", "send", "--server", "nats://"+addr, "--account", "acct-1", "--by", "user", trigger); code != 0 {
			t.Fatalf("send %s: exit code %d\n%s", trigger, code, e)
		}
	}
	send("start")
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tail.Process.Kill() })
	printed := make(chan string, 100)
	go func() {
		defer close(printed)
		for s := bufio.NewScanner(out); s.Scan(); {
			printed <- s.Text()
		}
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case line := <-printed:
			if !strings.HasSuffix(line, want) {
				t.Fatalf("tail prints %q, want … %q", line, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("tail does not print %q\n%s", want, stderr)
		}
	}
	expect("acct-1: IDLE -> CONNECTING via start")
	p.kill()
	p = begin()
	send("stop")
	expect("acct-1: CONNECTING -> STOPPED via stop")
	send("start")
	p.kill()
	p = begin()
	send("stop")
	expect("acct-1: STOPPED -> CONNECTING via start")
	expect("acct-1: CONNECTING -> STOPPED via stop")
	if err := tail.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for line := range printed {
		t.Errorf("more is printed: %q", line)
	}
	var exit *exec.ExitError
	if err := tail.Wait(); errors.As(err, &exit) || err != nil {
		t.Errorf("tail ended with %v\n%s", err, stderr)
	}
}
