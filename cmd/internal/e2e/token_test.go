package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestTokens makes the first token before the server's start, and others through
// it, and looks that neither a secret nor a telephone number comes into the log.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	create := func(args ...string) (id, token string) {
		t.Helper()
		out, stderr, code := muster(t, "", append([]string{"token", "create", "-o", "json"}, args...)...)
		var made struct{ ID, Token string }
		if code != 0 || json.Unmarshal([]byte(out), &made) != nil || !strings.HasPrefix(made.Token, "mst_"+made.ID+"_") {
			t.Fatalf("token create %v: exit %d, %s%s", args, code, out, stderr)
		}
		return made.ID, made.Token
	}
	if _, stderr, code := muster(t, "", "token", "create", "--role", "reader", "--data", dir); code == 0 || !strings.Contains(stderr, "must be an admin's") {
		t.Errorf("a reader's token as the first: exit %d, %s", code, stderr)
	}
	_, admin := create("--role", "admin", "--data", dir)
	p := serve(t, "--data", dir, "--log-transitions=false")
	server := []string{"--server", "nats://" + p.nats}
	run := func(token string, args ...string) (string, string, int) {
		t.Helper()
		t.Setenv("MUSTER_TOKEN", token)
		return muster(t, "", append(args, server...)...)
	}
	t.Setenv("MUSTER_TOKEN", admin)
	id, reader := create(append(server, "--role", "reader")...)

	const phone = "+15550100001"
	for who, tt := range map[string]struct {
		token string
		args  []string
		code  int
	}{
		"nobody":                     {"", []string{"stats"}, 7},
		"a token that is none":       {admin[:len(admin)-2] + "xx", []string{"stats"}, 7},
		"a reader reads":             {reader, []string{"stats"}, 0},
		"a reader follows the feed":  {reader, []string{"accounts"}, 0},
		"a reader sends":             {reader, []string{"send", "--account", phone, "start"}, 7},
		"a reader makes tokens":      {reader, []string{"token", "create", "--role", "admin"}, 7},
		"an admin sends":             {admin, []string{"send", "--account", phone, "start"}, 0},
		"an admin lists the tokens":  {admin, []string{"token", "list"}, 0},
		"the data of a server is in": {admin, []string{"token", "create", "--role", "admin", "--data", dir}, 1},
	} {
		if _, stderr, code := run(tt.token, tt.args...); code != tt.code {
			t.Errorf("%s: exit %d, want %d; %s", who, code, tt.code, stderr)
		}
	}
	if out, stderr, code := run(admin, "token", "revoke", id); code != 0 {
		t.Errorf("revoke: exit %d, %s%s", code, out, stderr)
	}
	if _, stderr, code := run(reader, "stats"); code != 7 {
		t.Errorf("with the revoked token: exit %d, %s", code, stderr)
	}
	p.kill()
	p = serve(t, "--data", dir, "--log-transitions=false")
	server[1] = "nats://" + p.nats
	if _, stderr, code := run(reader, "stats"); code != 7 {
		t.Errorf("with the revoked token, after a crash: exit %d, %s", code, stderr)
	}
	if _, stderr, code := run(admin, "stats"); code != 0 {
		t.Errorf("with the admin's token, after a crash: exit %d, %s", code, stderr)
	}
	p.stop()
	for _, secret := range []string{strings.SplitN(admin, "_", 3)[2], strings.SplitN(reader, "_", 3)[2], phone[1:]} {
		if strings.Contains(p.out.String(), secret) {
			t.Errorf("%q is in the log:\n%s", secret, p.out)
		}
	}
}
