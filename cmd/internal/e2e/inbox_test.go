package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/eventlog/natstest"
)

// usualInbox is how many messages wait in the inbox of TestInboxKill9;
// MUSTER_INBOX_MESSAGES changes it.
const usualInbox = 20_000

func inboxMessages(t *testing.T) int {
	t.Helper()
	v := os.Getenv("MUSTER_INBOX_MESSAGES")
	if v == "" {
		return usualInbox
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1000 {
		t.Fatalf("MUSTER_INBOX_MESSAGES=%q: a number of messages is wanted, 1000 or more", v)
	}
	return n
}

// letters are what a publisher puts into the inbox: facts of accounts, numbered
// for each account, with poison in between.
type letters struct {
	accounts int
	ids      bool        // each has an id of its publisher
	told     map[int]int // account → facts so far
	poison   int
	window   []jetstream.PubAckFuture
}

// post publishes n facts, and waits until the server has all of them.
func (l *letters) post(t *testing.T, js jetstream.JetStream, n int) {
	t.Helper()
	if l.told == nil {
		l.told = map[int]int{}
	}
	for i := range n {
		a := (i*7 + i/l.accounts) % l.accounts
		l.told[a]++
		k := l.told[a]
		fact := map[string]any{"trigger": storyline[k%len(storyline)], "source": "s", "epoch": 1, "seq": k}
		if l.ids {
			fact["id"] = fmt.Sprintf("fact-%d", k)
		}
		body, err := json.Marshal(fact)
		if err != nil {
			t.Fatal(err)
		}
		l.publish(t, js, a, body)
		if i%97 == 0 {
			l.poison++
			l.publish(t, js, a, []byte(`{"trigger":"start","colour":"red"}`))
		}
	}
	for _, f := range l.window {
		l.acked(t, f)
	}
	l.window = nil
}

// publish is one message; a thousand are under way.
func (l *letters) publish(t *testing.T, js jetstream.JetStream, account int, body []byte) {
	t.Helper()
	if len(l.window) == 1000 {
		l.acked(t, l.window[0])
		l.window = l.window[1:]
	}
	f, err := js.PublishAsync(fmt.Sprintf("muster.in.acct-%d", account), body)
	if err != nil {
		t.Fatal(err)
	}
	l.window = append(l.window, f)
}

func (l *letters) acked(t *testing.T, f jetstream.PubAckFuture) {
	t.Helper()
	select {
	case <-f.Ok():
	case err := <-f.Err():
		t.Fatalf("publish: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("publish: no acknowledgement")
	}
}

// check compares the history with what was published: each fact of each account
// once, in order, and nothing else.
func (l *letters) check(t *testing.T, p *proc) {
	t.Helper()
	all := stored(t, p)
	(&ledger{}).check(t, all)
	if len(all) != l.accounts {
		t.Fatalf("%d accounts have a history, want %d", len(all), l.accounts)
	}
	for a := range l.accounts {
		next := 1
		for _, e := range all[fmt.Sprintf("acct-%d", a)] {
			if e.Source != "s" {
				continue // a deadline of ours
			}
			if int(e.Seq) != next {
				t.Fatalf("account %d: fact %d stands where %d is due", a, e.Seq, next)
			}
			next++
		}
		if next-1 != l.told[a] {
			t.Fatalf("account %d: %d facts of %d are in the history", a, next-1, l.told[a])
		}
	}
	var list struct{ Waiting, Total int }
	out, stderr, code := muster(t, "", "inbox", "list", "-n", "1", "-o", "json", "--server", "nats://"+p.nats)
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil {
		t.Fatalf("inbox list: %d %s %v", code, stderr, err)
	}
	if list.Waiting != 0 || list.Total != l.poison {
		t.Fatalf("%d messages are left, %d are parked; want none, and %d", list.Waiting, list.Total, l.poison)
	}
	sameDigest(t, p, partitions)
}

// waiting is how many messages are in the inbox.
func (p *proc) waiting(nc *nats.Conn) (int, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	s, err := js.Stream(p.t.Context(), "MUSTER_IN")
	if err != nil {
		return 0, err
	}
	return int(s.CachedInfo().State.Msgs), nil
}

// drainedTo waits until at most n messages are in the inbox.
func (p *proc) drainedTo(n int) {
	p.t.Helper()
	nc := p.connect()
	defer nc.Close()
	left := 0
	poll(p.t, 4*time.Minute, func() (ok bool) {
		var err error
		left, err = p.waiting(nc)
		return err == nil && left <= n
	}, func() string { return fmt.Sprintf("%d messages are left, waiting for %d:\n%s", left, n, p.out) })
}

// TestInboxKill9 lets an inbox fill up while Muster is down, and kills Muster
// three times while it catches up. Every message is judged once, in the order of
// its account, and nothing is left.
func TestInboxKill9(t *testing.T) {
	t.Parallel()
	n := inboxMessages(t)
	for _, c := range []struct {
		name     string
		external bool // the server is another process and stays up
		letters  letters
	}{
		{"many accounts, embedded server", false, letters{accounts: n / 20}},
		{"few accounts, own ids, embedded server", false, letters{accounts: 50, ids: true}},
		{"many accounts, own ids, external server", true, letters{accounts: n / 20, ids: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := []string{"--log-transitions=false", "--snapshot-every", "5000", "--recover-after", "24h"}
			begin := func() *proc { return start(t, append(args, "--data", dir)...) }
			store := filepath.Join(dir, "nats")
			if c.external {
				store = t.TempDir()
			}
			if !c.external {
				p := begin()
				p.waitReady()
				p.stop()
			}
			srv, err := natstest.Start(store, natstest.Listen)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(srv.Stop)
			if c.external {
				addr := strings.TrimPrefix(srv.URL(), "nats://")
				begin = func() *proc { return startOn(t, addr, args...) }
				p := begin()
				p.waitReady()
				p.stop()
			}
			js, err := jetstream.New(srv.Conn(t))
			if err != nil {
				t.Fatal(err)
			}
			c.letters.post(t, js, n)
			if !c.external {
				srv.Stop()
			}
			for kill := 1; kill <= 3; kill++ {
				p := begin()
				p.waitReady()
				p.drainedTo(n * (4 - kill) / 4)
				p.kill()
			}
			p := begin()
			p.waitReady()
			at := time.Now()
			p.drainedTo(0)
			t.Logf("%d messages in all; the rest took %v", n+c.letters.poison, time.Since(at).Round(time.Millisecond))
			c.letters.check(t, p)
			p.stop()
		})
	}
}

// TestInboxHandOver runs two servers on one NATS server, started at once, so that
// each owns some partitions. One reads the inbox for both. It is killed while
// messages come in, and the other goes on where it was.
func TestInboxHandOver(t *testing.T) {
	t.Parallel()
	srv := natstest.Run(t, natstest.Listen)
	addr := strings.TrimPrefix(srv.URL(), "nats://")
	args := []string{"--log-transitions=false", "--recover-after", "24h"}
	one, two := startOn(t, addr, args...), startOn(t, addr, args...)
	one.waitReady()
	two.waitReady()
	js, err := jetstream.New(srv.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	l := letters{accounts: 100, ids: true}
	l.post(t, js, 2000)
	one.drainedTo(500)
	reader, other := one, two
	if !strings.Contains(one.out.String(), "partition=0 events=") {
		reader, other = two, one
	}
	reader.kill()
	l.post(t, js, 2000)
	other.drainedTo(0)
	l.check(t, other)
	other.stop()
}

// TestInboxBeforeDeadlines: a reply that came in time, while Muster was down, is
// judged before the time-out that is overdue, however much waits before it.
func TestInboxBeforeDeadlines(t *testing.T) {
	t.Parallel()
	srv := natstest.Run(t, natstest.Listen)
	addr := strings.TrimPrefix(srv.URL(), "nats://")
	args := []string{"--log-transitions=false", "--recover-after", "24h"}
	p := startOn(t, addr, args...)
	p.waitReady()
	for _, id := range []string{"answered", "silent"} {
		_, stderr, code := muster(t, "", "send", "--server", "nats://"+addr, "--account", id, "--key", "m-1", "--data", `{"reply_within":2}`, "message_sent")
		if code != 0 {
			t.Fatalf("send: %s", stderr)
		}
	}
	sent := time.Now()
	p.kill()
	js, err := jetstream.New(srv.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	l := letters{accounts: 500}
	l.post(t, js, 5000)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	at := sent.Add(time.Second).UTC().Format(time.RFC3339Nano)
	if _, err := js.Publish(ctx, "muster.in.answered", fmt.Appendf(nil, `{"trigger":"message_replied","key":"m-1","at":%q}`, at)); err != nil {
		t.Fatal(err)
	}
	overdue := time.NewTimer(time.Until(sent.Add(2100 * time.Millisecond)))
	<-overdue.C
	p = startOn(t, addr, args...)
	p.waitReady()
	last := func(id string) string {
		events := stored(t, p)[id]
		return events[len(events)-1].Trigger
	}
	poll(t, time.Minute, func() bool { return last("silent") == "message_timed_out" }, p.out.String)
	if got := last("answered"); got != "message_replied" {
		t.Errorf("the last word on the answered message is %s", got)
	}
	p.stop()
}
