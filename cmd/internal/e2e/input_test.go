package e2e

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"
)

// reply is a verdict as `muster send` prints it.
type reply struct {
	Account, Outcome, From, To, Reason string
	Version                            uint64
}

// sendOne sends one trigger with the program and returns its verdict.
func sendOne(t *testing.T, p *proc, args ...string) (r reply, stderr string, code int) {
	t.Helper()
	out, stderr, code := muster(t, "", append([]string{"send", "--server", "nats://" + p.nats}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("send %q printed %q (%v) and %s", args, out, err, stderr)
	}
	return r, stderr, code
}

// TestInput sends odd and bad input to a real server: what is odd is taken as
// it is, what is bad is refused with a sentence and leaves nothing behind.
func TestInput(t *testing.T) {
	t.Parallel()
	p := serve(t, "--data", t.TempDir())
	for _, id := range []string{"a.b.c", "with space", "*", ">", "a>b*c", "😀", "+15550100001", "15550100001@s.whatsapp.net", "=41", strings.Repeat("ü", 64)} {
		if r, stderr, code := sendOne(t, p, "--account", id, "start"); code != 0 || r.Account != id || r.Version != 1 {
			t.Errorf("account %q: exit %d, %+v, %s", id, code, r, stderr)
		}
		out, stderr, code := muster(t, "", "accounts", "get", id, "-o", "json", "--server", "nats://"+p.nats)
		var a struct{ ID, State string }
		if err := json.Unmarshal([]byte(out), &a); code != 0 || err != nil || a.ID != id || a.State != "CONNECTING" {
			t.Errorf("account %q reads back as %+v (exit %d, %v) %s", id, a, code, err, stderr)
		}
	}
	nc := p.connect()
	before, accounts := p.digest()
	stored := sequences(t, nc)
	for _, bad := range []struct {
		args []string
		code int
		want string // in the message
	}{
		{[]string{"--account", "", "start"}, 2, "account: is missing; every trigger is about an account"},
		{[]string{"--account", strings.Repeat("x", 129), "start"}, 2, "account: has 129 bytes; at most 128 are accepted"},
		{[]string{"--account", strings.Repeat("ü", 65), "start"}, 2, "account: has 130 bytes; at most 128 are accepted"},
		{[]string{"--account", "a\nb", "start"}, 2, "account: contains the control character U+000A"},
		{[]string{"--account", "a\u0085b", "start"}, 2, "account: contains the control character U+0085"},
		{[]string{"--account", "a\xffb", "start"}, 2, "account: is not valid UTF-8"},
		{[]string{"--account", "new", "qr_recieved"}, 2, `trigger: "qr_recieved" is not known; did you mean qr_received?`},
		{[]string{"--account", "new", ""}, 2, "trigger: is missing; say what happened"},
		{[]string{"--account", "new", "--machine", "whatsap@2", "start"}, 2, `machine: "whatsap@2" is not known; did you mean whatsapp@2?`},
		{[]string{"--account", "new", "--mode", "watch", "start"}, 2, `mode: want observe or supervise, got "watch"`},
		{[]string{"--account", "new", "--by", "me", "start"}, 2, `by: want user, us, remote or unknown, got "me"`},
		{[]string{"--account", "new", "--at", "noon", "start"}, 2, "at: want a time as RFC 3339 text"},
		{[]string{"--account", "new", "--epoch", "-1", "start"}, 2, "epoch: want an integer from 0 to 9223372036854775807"},
		{[]string{"--account", "new", "--data", `{"API_Key":"x"}`, "start"}, 2, "data.API_Key: is a secret by its name; strip it"},
		{[]string{"--account", "new", "--data", `{"a":`, "start"}, 2, `--data is not JSON: {"a":`},
		{[]string{"--account", "new", "--data", `[1]`, "start"}, 2, "data: want an object, got a list"},
		{[]string{"--account", "new", "message_sent"}, 2, "key: is missing; message_sent needs the id of the message"},
		{[]string{"--account", "new", "mark_stuck"}, 2, "trigger: mark_stuck is given by Muster itself"},
		{[]string{"--account", "new", "--source", "muster", "start"}, 2, "source: the name muster is Muster's own"},
		{[]string{"--account", "a.b.c", "--expect", "7", "stop"}, 4, "version 7 was expected, the account is at 1"},
	} {
		r, stderr, code := sendOne(t, p, bad.args...)
		if code != bad.code || !strings.Contains(stderr, bad.want) {
			t.Errorf("%q: exit %d, want %d; %q wants %q in it; %+v", bad.args, code, bad.code, stderr, bad.want, r)
		}
	}
	if after := sequences(t, nc); !maps.Equal(after, stored) {
		t.Errorf("bad input was appended: the streams end at %v, and ended at %v", after, stored)
	}
	if after, n := p.digest(); after != before || n != accounts {
		t.Errorf("bad input has changed the state: %d accounts, then %d", accounts, n)
	}
	if _, stderr, code := muster(t, "", "accounts", "get", "new", "--server", "nats://"+p.nats); code != 3 || !strings.Contains(stderr, `there is no account "new"`) {
		t.Errorf("the account of bad triggers: exit %d, %s", code, stderr)
	}
}

// TestRefusedInputIsStored sends what is well-formed and not legal: it is judged,
// kept, and told by the exit code.
func TestRefusedInputIsStored(t *testing.T) {
	t.Parallel()
	p := serve(t, "--data", t.TempDir())
	if r, _, code := sendOne(t, p, "--account", "a", "--machine", "whatsapp@1", "qr_scanned"); code != 8 || r.Outcome != "rejected" || r.Version != 1 {
		t.Errorf("rejected: exit %d, %+v", code, r)
	}
	sendOne(t, p, "--account", "a", "--source", "s", "--epoch", "2", "--seq", "5", "--id", "one", "start")
	if r, _, code := sendOne(t, p, "--account", "a", "--source", "s", "--epoch", "1", "qr_received"); code != 8 || r.Outcome != "stale" {
		t.Errorf("stale: exit %d, %+v", code, r)
	}
	if r, _, code := sendOne(t, p, "--account", "a", "--id", "one", "start"); code != 0 || r.Outcome != "duplicate" || r.Version != 2 {
		t.Errorf("duplicate: exit %d, %+v", code, r)
	}
	begin := time.Now()
	far, _, code := sendOne(t, p, "--account", "f", "--at", "2099-01-01T00:00:00Z", "start")
	if code != 0 || far.Outcome != "applied" {
		t.Errorf("a time in the far future: exit %d, %+v", code, far)
	}
	near := time.Now().Add(4 * time.Minute).UTC()
	sendOne(t, p, "--account", "n", "--at", near.Format(time.RFC3339Nano), "start")
	all := stored(t, p)
	if at := time.Unix(0, all["f"][0].At); at.Before(begin) || at.After(time.Now()) {
		t.Errorf("a time in the far future became %v, want now", at)
	}
	if at := time.Unix(0, all["n"][0].At); !at.Equal(near) {
		t.Errorf("a time four minutes ahead became %v, want %v", at, near)
	}
}

// TestBadLineOfAFile sends a file whose third line is bad: what stands before
// is in, the line is named, and the rest is sent only when it is asked for.
func TestBadLineOfAFile(t *testing.T) {
	t.Parallel()
	p := serve(t, "--data", t.TempDir())
	trace := `{"account":"one","trigger":"start"}
{"account":"two","trigger":"start"}
{"account":"two","trigger":"qr_recieved"}
{"account":"four","trigger":"start"}
`
	out, stderr, code := muster(t, trace, "send", "--file", "-", "--server", "nats://"+p.nats)
	if code != 2 || strings.Count(out, `"outcome":"applied"`) != 2 || !strings.Contains(stderr, "muster: -:3: trigger: \"qr_recieved\" is not known; did you mean qr_received?") {
		t.Errorf("exit %d\n%s%s", code, out, stderr)
	}
	if all := stored(t, p); len(all) != 2 || len(all["one"]) != 1 || len(all["two"]) != 1 {
		t.Errorf("%d accounts have events, want those of the lines 1 and 2: %v", len(all), all)
	}
	out, stderr, code = muster(t, trace, "send", "--keep-going", "--file", "-", "--server", "nats://"+p.nats)
	if code != 2 || strings.Count(out, "\n") != 4 || !strings.Contains(stderr, ":3: ") {
		t.Errorf("with --keep-going: exit %d\n%s%s", code, out, stderr)
	}
	if _, n := p.digest(); n != 3 {
		t.Errorf("there are %d accounts after --keep-going, want 3", n)
	}
}
