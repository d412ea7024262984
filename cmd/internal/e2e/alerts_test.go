package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/domain"
)

const alertSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// alertReceiver is a receiver of alerts, on real HTTP.
type alertReceiver struct {
	t      *testing.T
	hook   *webhooks.Webhook
	server *httptest.Server

	mu     sync.Mutex
	refuse bool
	tries  []receivedAlert
}

// receivedAlert is one try that a receiver saw.
type receivedAlert struct {
	id    string
	taken bool
	body  string
	Type  string `json:"type"`
	Data  struct {
		Account string
		Kind    string
		Counts  struct{ Accounts int }
	} `json:"data"`
}

func newAlertReceiver(t *testing.T) *alertReceiver {
	t.Helper()
	hook, err := webhooks.NewWebhook(alertSecret)
	if err != nil {
		t.Fatal(err)
	}
	r := &alertReceiver{t: t, hook: hook}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

// ServeHTTP verifies an alert as the specification's own library does.
func (r *alertReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = r.hook.Verify(body, req.Header)
	}
	got := receivedAlert{id: req.Header.Get(webhooks.HeaderWebhookID), body: string(body)}
	if err == nil {
		err = json.Unmarshal(body, &got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.t.Errorf("an alert is not what it should be: %v", err)
	}
	got.taken = !r.refuse
	r.tries = append(r.tries, got)
	if r.refuse {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *alertReceiver) refuses(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = on
}

// seen lists the tries; taken only those that were taken.
func (r *alertReceiver) seen(taken bool) (list []receivedAlert) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.tries {
		if one.taken || !taken {
			list = append(list, one)
		}
	}
	return list
}

// config writes a file that names the receiver.
func (r *alertReceiver) config() string {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "muster.yaml")
	text := fmt.Sprintf("alerts:\n  gather: 500ms\n  endpoints:\n    - {name: ops, url: %q, secret: %s}\n", r.server.URL+"/hook", alertSecret)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// sendAll has triggers judged, which must all be applied.
func sendAll(t *testing.T, p *proc, accounts []string, change func(*domain.Trigger)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	triggers := func(yield func(domain.Trigger) bool) {
		for _, id := range accounts {
			trig := domain.Trigger{Account: domain.AccountID(id), Source: "waha-1", Expect: domain.NoExpect}
			change(&trig)
			if !yield(trig) {
				return
			}
		}
	}
	nc := p.connect()
	defer nc.Close()
	err := bus.NewClient(nc, bus.ClientConfig{}).SendMany(ctx, triggers, 0, func(s bus.Sent) bool {
		if s.Err != nil || s.Reply.Outcome != domain.Applied {
			t.Errorf("%s of %s: %v %v %s", s.Trigger.Name, s.Trigger.Account, s.Err, s.Reply.Outcome, s.Reply.Reason)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

func adoptRunning(t *domain.Trigger) { t.Name, t.Data = "adopt", domain.Data{"state": "RUNNING"} }

func logOut(t *domain.Trigger) { t.Name, t.Reason.Code = "logout", "401" }

// An alert that was made and not delivered when the process was killed comes after
// the next start under the same id, with the same body, and once.
func TestAnAlertSurvivesAKillUnderItsID(t *testing.T) {
	r := newAlertReceiver(t)
	r.refuses(true)
	dir := t.TempDir()
	args := []string{"--data", dir, "--config", r.config()}
	p := serve(t, args...)
	sendAll(t, p, []string{"acct-1", "acct-2"}, adoptRunning)
	sendAll(t, p, []string{"acct-1"}, logOut)
	poll(t, 30*time.Second, func() bool { return len(r.seen(false)) > 0 }, func() string { return "no alert came:\n" + p.out.String() })
	p.kill()
	first := r.seen(false)[0]
	if first.Type != "attention.opened" || first.Data.Account != "acct-1" || first.Data.Kind != "login_needed" {
		t.Fatalf("the alert says %+v", first)
	}

	r.refuses(false)
	p = serve(t, args...)
	sendAll(t, p, []string{"acct-2"}, logOut)
	poll(t, time.Minute, func() bool { return len(r.seen(true)) >= 2 }, func() string {
		return fmt.Sprintf("%d alerts were taken after the start:\n%s", len(r.seen(true)), p.out)
	})
	p.stop()
	ids := map[string]string{}
	for _, got := range r.seen(true) {
		ids[got.Data.Account] = got.id
		if got.Data.Account == "acct-1" && (got.id != first.id || got.body != first.body) {
			t.Errorf("it came as %s\n%s\nbefore the kill it was %s\n%s", got.id, got.body, first.id, first.body)
		}
	}
	if len(ids) != 2 || len(r.seen(true)) != 2 {
		t.Errorf("taken were %+v, want one alert of each account", r.seen(true))
	}
}

func TestAMassLogoutIsOneIncident(t *testing.T) {
	const n = 5000
	r := newAlertReceiver(t)
	p := serve(t, "--data", t.TempDir(), "--config", r.config(), "--log-transitions=false")
	accounts := make([]string, n)
	for i := range accounts {
		accounts[i] = fmt.Sprintf("acct-%04d", i)
	}
	sendAll(t, p, accounts, adoptRunning)
	sendAll(t, p, accounts, logOut)
	poll(t, 30*time.Second, func() bool { return len(r.seen(true)) > 0 }, func() string { return "no alert came:\n" + p.out.String() })
	p.stop() // nothing more is under way then
	got := r.seen(true)
	if len(got) != 1 || got[0].Type != "incident.opened" || got[0].Data.Counts.Accounts != n {
		t.Errorf("taken were %d alerts, the first is %s of %d accounts; want one incident of %d", len(got), got[0].Type, got[0].Data.Counts.Accounts, n)
	}
}

// The commands work as their help says, against the running program.
func TestAlertsFromTheCommandLine(t *testing.T) {
	r := newAlertReceiver(t)
	p := serve(t, "--data", t.TempDir(), "--config", r.config())
	sendAll(t, p, []string{"acct-1", "acct-2"}, adoptRunning)
	if out := p.muster(0, "alerts", "test", "ops"); out != "ops has taken the test alert (204)\n" {
		t.Errorf("alerts test says %q", out)
	}
	p.muster(3, "alerts", "test", "nobody")
	p.muster(0, "attention", "mute", "--account", "acct-1", "--for", "1h", "--who", "kim", "--reason", "known")
	sendAll(t, p, []string{"acct-1", "acct-2"}, logOut)
	poll(t, 30*time.Second, func() bool { return len(r.seen(true)) == 2 }, func() string { return "no alert came:\n" + p.out.String() })

	var list struct {
		Open []struct {
			Status string
			Sample []string
		}
		Mutes  []struct{ By, Reason string }
		Counts struct{ Muted int }
	}
	p.musterJSON(&list, "alerts", "list")
	if len(list.Open) != 1 || !slices.Equal(list.Open[0].Sample, []string{"acct-1", "acct-2"}) || list.Open[0].Status != "told" ||
		len(list.Mutes) != 1 || list.Mutes[0].By != "kim" || list.Mutes[0].Reason != "known" || list.Counts.Muted != 1 {
		t.Errorf("alerts list says %+v", list)
	}
	p.muster(0, "attention", "unmute", "--account", "acct-1", "--who", "kim")
	poll(t, 30*time.Second, func() bool { return len(r.seen(true)) == 3 }, func() string { return "what was muted was not told:\n" + p.out.String() })
	var deliveries struct {
		Deliveries []struct {
			ID, Status, Account string
			Attempts            int
		}
	}
	poll(t, 30*time.Second, func() bool {
		p.musterJSON(&deliveries, "alerts", "deliveries", "--account", "acct-1")
		return len(deliveries.Deliveries) == 1 && deliveries.Deliveries[0].Status == "delivered"
	}, func() string { return fmt.Sprintf("alerts deliveries says %+v", deliveries) })
	id := deliveries.Deliveries[0].ID
	p.muster(0, "alerts", "resend", id)
	poll(t, 30*time.Second, func() bool {
		got := r.seen(true)
		return len(got) == 4 && got[3].id == id
	}, func() string { return "the alert was not sent again" })
	p.stop()
}

// muster runs a client command against the process, expects an exit code, and
// returns what it printed.
func (p *proc) muster(code int, args ...string) string {
	p.t.Helper()
	cmd := exec.Command(binary, append(args, "--server", "nats://"+p.nats)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("muster %v ended with %d (%v), want %d:\n%s\n%s", args, got, err, code, errs.String(), p.out)
	}
	return out.String()
}

// musterJSON is muster with its JSON decoded.
func (p *proc) musterJSON(into any, args ...string) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.muster(0, append(args, "-o", "json")...)), into); err != nil {
		p.t.Fatal(err)
	}
}
