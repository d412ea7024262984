package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/musterhq/muster/cmd/internal/offline"
)

// personal is what the account of the test below says of people.
var personal = []string{
	"15550100001", "delivery-4711", "wamid.HBgLMTU1", "geheime Nachricht", "15550177777", "contact-msg-0815", "15550188888", "Magdalena", "corr-000777",
}

// erasableTrace is told of the account, and a little of another one.
const erasableTrace = `{"account":"+15550100001","trigger":"start","id":"delivery-4711","labels":{"name":"Magdalena"}}
{"account":"+15550100001","trigger":"connection_ready","source":"waha-1","epoch":3,"seq":1}
{"account":"+15550100001","trigger":"message_sent","key":"wamid.HBgLMTU1","data":{"text":"geheime Nachricht"}}
{"account":"+15550100001","trigger":"customer_message","key":"+15550177777","data":{"message":"contact-msg-0815"}}
{"account":"+15550100001","trigger":"restricted","data":{"scope":"chat:+15550188888"},"reason":{"code":"131049","text":"+15550188888 has blocked Magdalena"}}
{"account":"+15550100001","trigger":"logout","source":"waha-1","epoch":3,"seq":2,"reason":{"code":"401","text":"device removed"}}
{"account":"+15550100002","trigger":"start"}
`

// numbers are the parts of `muster stats` and `muster replay` that erasing must not change.
func numbers(t *testing.T, out string) string {
	t.Helper()
	var s struct {
		Accounts    int             `json:"accounts"`
		States      json.RawMessage `json:"states"`
		Transitions struct {
			Total int             `json:"total"`
			Edges json.RawMessage `json:"edges"`
		} `json:"transitions"`
		LoggedOut json.RawMessage `json:"logged_out"`
		Outcomes  json.RawMessage `json:"outcomes"`
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func digestOf(t *testing.T, out string) string {
	t.Helper()
	var d struct{ Digest string }
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.Digest == "" {
		t.Fatalf("%v: %s", err, out)
	}
	return d.Digest
}

// ok runs a command that must succeed.
func ok(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, errs, code := muster(t, stdin, args...)
	if code != 0 {
		t.Fatalf("muster %s: exit code %d: %s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// An erased account is in no file any more, while the numbers, the chain and the
// archive hold.
func TestErase(t *testing.T) {
	data, archive := t.TempDir(), filepath.Join(t.TempDir(), "archive")
	args := []string{"--data", data, "--erasable", "--archive", archive, "--partitions", "2"}
	p := serve(t, args...)
	server := "nats://" + p.nats
	ok(t, erasableTrace, "send", "--server", server, "--file", "-")
	ok(t, "", "attention", "mute", "--server", server, "--account", "+15550100001", "--reason", "known")
	before, _ := p.digest()
	p.stop()
	for _, place := range holding(t, personal, data, archive) { // what names the account on purpose
		if !strings.Contains(place, "accounts.keys") && !strings.Contains(place, "MUSTER_OP") && !strings.Contains(place, "MUSTER_ALERTS") {
			t.Errorf("before the erasure there stands open: %s", place)
		}
	}
	if _, errs, code := muster(t, "", "erase", "+15550100001", "--data", data, "--reason", "case 17"); code != 5 || !strings.Contains(errs, "forget it first") {
		t.Errorf("an account that is not forgotten: exit code %d: %s", code, errs)
	}

	p = serve(t, args...)
	if after, _ := p.digest(); after != before {
		t.Errorf("the digest after a start from sealed records is %s, it was %s", after, before)
	}
	server = "nats://" + p.nats
	ok(t, "", "send", "--server", server, "--account", "+15550100001", "forget")
	stats := numbers(t, ok(t, "", "stats", "--server", server, "-o", "json"))
	live, _ := p.digest()
	p.stop()
	if got := digestOf(t, ok(t, "", "replay", archive, "--keys", filepath.Join(data, "keys"), "-o", "json")); got != live {
		t.Errorf("a replay with the keys gives the digest %s, the server %s", got, live)
	}
	replayed := numbers(t, ok(t, "", "replay", archive, "-o", "json"))
	if replayed != stats {
		t.Errorf("a replay without keys gives\n%s\nthe server\n%s", replayed, stats)
	}

	var r struct {
		Alias  string
		Events int
		Found  []string
	}
	out := ok(t, "", "erase", "+15550100001", "--data", data, "--reason", "case 17", "-o", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Events != 7 || len(r.Found) != 0 {
		t.Errorf("erase says %s (%v)", out, err)
	}
	if found := holding(t, personal, data, archive); len(found) != 0 {
		t.Errorf("after the erasure there is left: %q", found)
	}
	ok(t, "", "verify", archive)
	if got := numbers(t, ok(t, "", "replay", archive, "-o", "json")); got != replayed {
		t.Errorf("erasing has changed the numbers of a replay:\n%s\nthey were\n%s", got, replayed)
	}

	p = serve(t, args...)
	server = "nats://" + p.nats
	if got := numbers(t, ok(t, "", "stats", "--server", server, "-o", "json")); got != stats {
		t.Errorf("erasing has changed the numbers:\n%s\nthey were\n%s", got, stats)
	}
	if _, errs, code := muster(t, "", "accounts", "get", r.Alias, "--server", server); code != 3 || !strings.Contains(errs, "was erased on") {
		t.Errorf("the erased account: exit code %d: %s", code, errs)
	}
	if _, errs, code := muster(t, "", "send", "--server", server, "--account", r.Alias, "start"); code == 0 {
		t.Errorf("an erased account took a trigger: %s", errs)
	}
	ok(t, "", "send", "--server", server, "--account", "+15550100001", "start") // a new one, from its first event
	last, _ := p.digest()
	p.stop()
	ok(t, "", "verify", archive, "--data", data)
	if found := holding(t, personal[1:], data, archive); len(found) != 0 { // the first is the account that was made anew
		t.Errorf("after another run of the server there is left: %q", found)
	}
	var v offline.Verified
	askJSON(t, 0, &v, "verify", archive, "--keys", filepath.Join(data, "keys"))
	if v.Sealed == nil || v.Sealed.Closed != 7 || v.Sealed.Opened != 2 {
		t.Errorf("the keys open %+v, want 2 records, and 7 of the erased account closed", v.Sealed)
	}
	var differ offline.Rejudged
	askJSON(t, 0, &differ, "replay", archive, "--machine", "whatsapp@1", "--account", "+15550100002", "--keys", filepath.Join(data, "keys"))
	if differ.Accounts != 1 || differ.Triggers != 1 {
		t.Errorf("a what-if of one account by its id: %+v", differ)
	}
	if got := digestOf(t, ok(t, "", "replay", archive, "--keys", filepath.Join(data, "keys"), "-o", "json")); got != last {
		t.Errorf("after the erasure a replay with the keys gives the digest %s, the server %s", got, last)
	}
	if _, errs, code := muster(t, "", "serve", "--data", data, "--nats-listen", freeAddr(t), "--http", freeAddr(t)); code == 0 || !strings.Contains(errs, "--erasable") {
		t.Errorf("the setting was taken back: exit code %d: %s", code, errs)
	}
}
