package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

// TestPolls runs serve over a server that lists two sessions: they are taken over
// though nobody has sent a webhook, one that goes down is noticed, one that
// vanishes is stopped at the second list, and after a restart the other is
// confirmed. The key of the poll is in no file and nowhere printed.
func TestPolls(t *testing.T) {
	t.Parallel()
	const key = "poll-k3y-of-the-server"
	var list atomic.Value
	tell := func(sessions ...string) { list.Store("[" + strings.Join(sessions, ",") + "]") }
	session := func(name, status string) string {
		return fmt.Sprintf(`{"name":%q,"status":%q,"me":{"id":"155@c.us"}}`, name, status)
	}
	tell(session("a", "WORKING"), session("b", "WORKING"))
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != key || r.URL.RequestURI() != "/api/sessions?all=true" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(list.Load().(string)))
	}))
	t.Cleanup(peer.Close)

	dir := t.TempDir()
	config := filepath.Join(t.TempDir(), "muster.yaml")
	text := "connectors:\n  - kind: waha\n    secret: hook-secret-1\n    poll: {url: " + peer.URL + ", key: " + key + ", every: 1s}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, "--data", dir, "--config", config)
	q := bus.NewClient(p.connect(), bus.ClientConfig{Timeout: 30 * time.Second})
	account := func(id string) (v domain.AccountView) {
		_ = q.Query(t.Context(), api.GetQuery, api.GetRequest{Account: id}, &v) // it may not be known yet
		return v
	}
	becomes := func(id, state string) {
		t.Helper()
		poll(t, 60*time.Second, func() bool { return account(id).State == state }, func() string { return fmt.Sprintf("%s is %+v, want %s", id, account(id), state) })
	}
	becomes("waha:a", "RUNNING")
	becomes("waha:b", "RUNNING")
	if got := account("waha:a").Source; got != "waha/poll" {
		t.Errorf("the source is %q", got)
	}
	tell(session("a", "WORKING"), session("b", "FAILED"))
	becomes("waha:b", "DISCONNECTED")
	tell(session("a", "WORKING"))
	becomes("waha:b", "STOPPED")

	var listed api.Connectors
	stdout, stderr, code := muster(t, "", "connectors", "list", "-o", "json", "--server", "nats://"+p.nats)
	if err := json.Unmarshal([]byte(stdout), &listed); code != 0 || err != nil || len(listed.Connectors) != 1 {
		t.Fatalf("connectors list: exit %d, %s, %v\n%s", code, stderr, err, stdout)
	}
	if got := listed.Connectors[0].Poll; got == nil || got.Vanished != 1 || got.Published < 4 || got.Last == "" || got.LastError != "" {
		t.Errorf("polls: %+v", got)
	}

	before := account("waha:a")
	p.stop()
	absent(t, dir, "poll", key)
	if strings.Contains(p.out.String(), key) {
		t.Error("the key was printed")
	}
	p = serve(t, "--data", dir, "--config", config)
	q = bus.NewClient(p.connect(), bus.ClientConfig{Timeout: 30 * time.Second})
	poll(t, 60*time.Second, func() bool { return account("waha:a").Version > before.Version }, func() string { return "nobody confirms the account after a restart" })
	if after := account("waha:a"); after.State != "RUNNING" || after.Version != before.Version+1 || len(after.Conditions) != 0 {
		t.Errorf("after a restart: %+v, before: %+v", after, before)
	}
}
