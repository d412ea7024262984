package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// agedLines is a fleet of all machines whose triggers were observed some hours ago
// and reach the server now: its deadlines are overdue, those of wecom's heartbeats too.
func agedLines(begin time.Time) string {
	var b strings.Builder
	at := begin
	say := func(account, trigger, more string) {
		at = at.Add(20 * time.Second)
		fmt.Fprintf(&b, `{"account":%q,"trigger":%q,"at":%q%s}`+"\n", account, trigger, at.UTC().Format(time.RFC3339Nano), more)
	}
	for i := range 6 {
		corp, shop, one := fmt.Sprintf("wxid_%d", i), fmt.Sprintf("shop-%d", i), fmt.Sprintf("one-%d", i)
		hours := func(n int) string { return begin.Add(time.Duration(n) * time.Hour).UTC().Format(time.RFC3339) }
		say(corp, "login_started", `,"machine":"wecom@1","source":"gw","by":"user","labels":{"pool":"cn"}`)
		say(corp, "login_succeeded", fmt.Sprintf(`,"source":"gw","epoch":1,"seq":1,"data":{"sid_until":%q,"tgt_until":%q}`, hours(24), hours(720)))
		say(corp, "sync_started", `,"source":"gw","epoch":1,"seq":2`)
		say(corp, "sync_completed", `,"source":"gw","epoch":1,"seq":3,"data":{"next_seq":5}`)
		if i%2 == 0 {
			fmt.Fprintf(&b, `{"account":%q,"trigger":"heartbeat","source":"gw","epoch":1}`+"\n", corp)
		}
		say(shop, "start", `,"mode":"supervise","by":"user"`)
		say(shop, "connection_ready", `,"source":"waha","epoch":1,"seq":1`)
		say(shop, "rate_limited", fmt.Sprintf(`,"source":"waha","epoch":1,"seq":2,"data":{"until":%q}`, hours(1)))
		say(shop, "message_sent", fmt.Sprintf(`,"key":"m-%d"`, i))
		say(shop, "customer_message", fmt.Sprintf(`,"key":"c-%d","data":{"message":"q-%d"}`, i, i))
		say(shop, "take_over", fmt.Sprintf(`,"key":"c-%d","data":{"agent":"eva"}`, i))
		if i%3 == 0 {
			say(shop, "connection_lost", `,"source":"waha","epoch":1,"seq":3`)
		}
		say(one, "online", `,"machine":"instance@1","source":"poll"`)
	}
	return b.String()
}

// TestExportOfALiveHistoryIsImported: what a live server has recorded, late facts,
// overdue deadlines, retries, heartbeats that were missed and those that were not, gives
// the same fleet when its export is imported into an empty folder.
func TestExportOfALiveHistoryIsImported(t *testing.T) {
	t.Parallel()
	data, arch := t.TempDir(), filepath.Join(t.TempDir(), "archive")
	args := []string{"--data", data, "--archive", arch, "--partitions", "2", "--log-transitions=false", "--recover-after", "1s"}
	p := serve(t, args...)
	_, stderr, code := muster(t, agedLines(time.Now().Add(-5*time.Hour)), "send", "--server", "nats://"+p.nats, "--file", "-", "--keep-going")
	if code != 0 {
		t.Fatalf("send: exit %d: %s", code, stderr)
	}
	p.caughtUp()
	p.kill()
	p = serve(t, args...) // a second later, recover comes for those that nobody vouches for
	poll(t, time.Minute, func() bool {
		out := ok(t, "", "accounts", "list", "--condition", "unverified", "--server", "nats://"+p.nats, "-o", "jsonl")
		return strings.Count(out, "\n") >= 6
	}, func() string { return "nobody is unverified:\n" + p.out.String() })
	p.stop()

	live := digestOf(t, ok(t, "", "replay", arch, "-o", "json"))
	lines := ok(t, "", "export", arch)
	for _, want := range []string{`"heartbeats_missed"`, `"message_timed_out"`, `"condition_expired"`, `"recover"`} {
		if !strings.Contains(lines, want) {
			t.Errorf("the history has no %s", want)
		}
	}
	if got := digestOf(t, ok(t, lines, "try", "-", "-o", "json")); got != live {
		t.Errorf("try of what was exported gives %s, the history is %s", got, live)
	}
	fresh := t.TempDir()
	if got := digestOf(t, ok(t, lines, "import", "-", "--data", fresh, "--partitions", "3", "-o", "json")); got != live {
		t.Errorf("import of what was exported gives %s, the history is %s", got, live)
	}
	again := filepath.Join(t.TempDir(), "archive")
	ok(t, "", "archive", "--data", fresh, "--out", again)
	if got := digestOf(t, ok(t, "", "replay", again, "-o", "json")); got != live {
		t.Errorf("what was imported is folded to %s, the history is %s", got, live)
	}
	if got := ok(t, "", "export", "--data", fresh); sorted(got) != sorted(lines) {
		t.Errorf("exported again, there are other lines:\n%s\nwas\n%s", got, lines)
	}
}

// sorted brings lines into one order: that of equal times depends on the partitions.
func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
