package e2e

import (
	"strings"
	"testing"
)

// TestPassword runs a server that wants a password, as one does that other
// machines can reach.
func TestPassword(t *testing.T) {
	t.Setenv("MUSTER_PASSWORD", "s3cret") // of the server, and then of the clients
	p := serve(t, "--data", t.TempDir())
	try := func(password string) (string, int) {
		t.Helper()
		t.Setenv("MUSTER_PASSWORD", password)
		_, stderr, code := muster(t, "", "send", "--account", "a", "start", "--server", "nats://"+p.nats)
		return stderr, code
	}
	if stderr, code := try("s3cret"); code != 0 {
		t.Errorf("with the password: exit %d, %s", code, stderr)
	}
	for _, password := range []string{"", "wrong"} {
		if stderr, code := try(password); code != 7 || !strings.Contains(stderr, "not allowed") {
			t.Errorf("with password %q: exit %d, want 7; %s", password, code, stderr)
		}
	}
	if strings.Contains(p.out.String(), "s3cret") {
		t.Error("the password is in the log")
	}
}

// TestOpenAddressWantsAPassword starts a server that other machines could
// reach, without a password.
func TestOpenAddressWantsAPassword(t *testing.T) {
	for _, flag := range []string{"--http", "--nats-listen"} {
		_, stderr, code := muster(t, "", "serve", "--data", t.TempDir(), flag, "0.0.0.0:0")
		if code != 2 || !strings.Contains(stderr, "set a password (MUSTER_PASSWORD or --password-file), or listen on 127.0.0.1") {
			t.Errorf("%s: exit %d, %s", flag, code, stderr)
		}
	}
}
