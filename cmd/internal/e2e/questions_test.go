package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// asker asks one server with the built command line.
type asker struct {
	t *testing.T
	p *proc
}

// run runs a command and expects an exit code; it returns stdout.
func (a *asker) run(code int, args ...string) string {
	a.t.Helper()
	out, errOut, got := muster(a.t, "", append(args, "--server", "nats://"+a.p.nats)...)
	if got != code {
		a.t.Errorf("muster %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, out, errOut)
	}
	return out
}

// get runs a command with -o json and decodes what it prints.
func (a *asker) get(code int, into any, args ...string) {
	a.t.Helper()
	out := a.run(code, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		a.t.Fatalf("muster %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// send sends a trace, of which nothing may be invalid.
func (a *asker) send(lines ...string) {
	a.t.Helper()
	out, errOut, code := muster(a.t, strings.Join(lines, "\n"), "send", "--file", "-", "--server", "nats://"+a.p.nats)
	if code != 0 && code != 8 {
		a.t.Fatalf("send: exit %d\n%s%s", code, out, errOut)
	}
}

// TestEverydayQuestions asks a real server, after a restart from its saved views
// and snapshots, too.
func TestEverydayQuestions(t *testing.T) {
	dir := t.TempDir()
	a := &asker{t, serve(t, "--data", dir, "--recover-after", "1h")}
	now := time.Now().UTC().Truncate(time.Second)
	ago := func(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }
	a.send(
		`{"account":"up","trigger":"adopt","data":{"state":"RUNNING"},"source":"waha-1","labels":{"pool":"eu"},"at":"`+ago(time.Hour)+`"}`,
		`{"account":"new","trigger":"adopt","data":{"state":"RUNNING"},"source":"waha-1","labels":{"pool":"eu"},"at":"`+ago(time.Minute)+`"}`,
		`{"account":"slow","trigger":"adopt","data":{"state":"RUNNING"},"source":"waha-1","labels":{"pool":"eu"},"at":"`+ago(time.Hour)+`"}`,
		`{"account":"slow","trigger":"rate_limited","source":"waha-1","data":{"until":"2099-01-01T00:00:00Z"},"reason":{"code":"429"},"at":"`+ago(2*time.Minute)+`"}`,
		`{"account":"chats","trigger":"adopt","data":{"state":"RUNNING"},"source":"waha-1","at":"`+ago(2*time.Hour)+`"}`,
		`{"account":"chats","trigger":"restricted","source":"waha-1","data":{"scope":"new_chats"},"at":"`+ago(time.Minute)+`"}`,
		`{"account":"out-1","trigger":"adopt","data":{"state":"RUNNING"},"source":"waha-2"}`,
		`{"account":"out-2","trigger":"adopt","data":{"state":"RUNNING"},"source":"waha-2"}`,
		`{"account":"out-1","trigger":"logout","source":"waha-2","reason":{"code":"401"}}`,
		`{"account":"out-2","trigger":"logout","source":"waha-2","reason":{"code":"401"}}`,
		`{"account":"out-1","trigger":"qr_scanned","source":"waha-2"}`,
		`{"account":"out-1","trigger":"sync_completed","source":"waha-2"}`,
		`{"account":"gone","trigger":"adopt","data":{"state":"RUNNING"},"source":"waha-1"}`,
		`{"account":"gone","trigger":"forget","by":"user"}`,
		`{"account":"up","trigger":"message_pending","key":"m-1"}`,
		`{"account":"up","trigger":"message_sent","key":"m-0","at":"`+ago(45*time.Minute)+`"}`,
		`{"account":"up","trigger":"customer_message","key":"c-1","data":{"message":"q-1"}}`,
		`{"account":"new","trigger":"take_over","key":"c-2","data":{"agent":"anna"}}`,
	)
	a.run(0, "claim", "up", "c-1", "q-1", "--side", "bot", "--handler", "b-1")
	a.run(8, "claim", "up", "c-1", "q-1", "--side", "bot", "--handler", "b-2")
	a.run(8, "claim", "new", "c-2", "q-1", "--side", "bot", "--handler", "b-2")
	ask := func() {
		t.Helper()
		a.askCan()
		a.askRoute()
		a.askTalk()
		a.askAttention()
		a.askHistory()
	}
	ask()
	digest, _ := a.p.digest()
	a.p.stop()
	a.p = serve(t, "--data", dir, "--recover-after", "1h")
	if again, _ := a.p.digest(); again != digest {
		t.Errorf("after a restart the digest is %s, it was %s", again, digest)
	}
	ask()
}

func (a *asker) askCan() {
	a.t.Helper()
	a.run(0, "can", "up")
	a.run(0, "can", "slow", "--do", "read")
	a.run(0, "can", "chats", "--do", "send")
	a.run(5, "can", "chats", "--do", "bulk")
	a.run(3, "can", "nobody")
	for _, tt := range []struct{ args, reason, until string }{
		{"slow", "it is DEGRADED; rate_limited until 2099-01-01 00:00:00Z (429)", "2099-01-01T00:00:00Z"},
		{"chats --scope new_chats", "restricted in new_chats", ""},
		{"out-1", "it is LOGGED_OUT", ""},
	} {
		var can struct {
			Can           bool
			Reason, Until string
		}
		a.get(5, &can, append([]string{"can"}, strings.Fields(tt.args)...)...)
		if can.Can || can.Reason != tt.reason || can.Until != tt.until {
			a.t.Errorf("can %s: %+v, want %q until %q", tt.args, can, tt.reason, tt.until)
		}
	}
}

func (a *asker) askRoute() {
	a.t.Helper()
	route := func(code int, args ...string) string {
		var r struct{ Accounts []struct{ Account string } }
		a.get(code, &r, append([]string{"route"}, args...)...)
		var ids []string
		for _, c := range r.Accounts {
			ids = append(ids, c.Account)
		}
		return strings.Join(ids, " ")
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--do send", 0, "chats new up"}, // chats has been up for two hours, new for a minute, up has just sent
		{"--do send -n 1", 0, "chats"},
		{"--do send --scope new_chats", 0, "new up"},
		{"--do send --label pool=eu", 0, "new up"},
		{"--do read --label pool=eu", 0, "slow new up"},
		{"--do send --label pool=mars", 5, ""},
	} {
		if got := route(tt.code, strings.Fields(tt.args)...); got != tt.want {
			a.t.Errorf("route %s: %s, want %s", tt.args, got, tt.want)
		}
	}
}

func (a *asker) askTalk() {
	a.t.Helper()
	var m struct {
		State, Due string
		Times      map[string]string
	}
	a.get(0, &m, "messages", "get", "up", "m-1")
	if m.State != "PENDING" || m.Times["pending"] == "" || m.Due == "" {
		a.t.Errorf("message m-1: %+v", m)
	}
	a.run(3, "messages", "get", "up", "m-9")
	var ms struct {
		Messages []struct{ Account, ID, State string }
	}
	overdue := func() bool {
		ms.Messages = nil
		a.get(0, &ms, "messages", "list", "--overdue")
		return len(ms.Messages) == 1
	}
	poll(a.t, 10*time.Second, overdue, func() string { return fmt.Sprintf("overdue messages: %+v, want one", ms) })
	if m := ms.Messages[0]; m.Account != "up" || m.ID != "m-0" || m.State != "TIMED_OUT" {
		a.t.Errorf("overdue: %+v", m)
	}
	a.get(0, &ms, "messages", "list", "--account", "up")
	if len(ms.Messages) != 2 {
		a.t.Errorf("messages of up: %+v, want two", ms)
	}
	var c struct {
		State  string
		Claims []struct{ Message, Handler string }
	}
	a.get(0, &c, "conversations", "get", "up", "c-1")
	if c.State != "BOT" || len(c.Claims) != 1 || c.Claims[0].Handler != "b-1" {
		a.t.Errorf("conversation c-1: %+v", c)
	}
	var cs struct {
		Conversations []struct{ Account, Contact string }
	}
	a.get(0, &cs, "conversations", "list", "--mode", "human")
	if len(cs.Conversations) != 1 || cs.Conversations[0].Contact != "c-2" {
		a.t.Errorf("conversations in human hands: %+v", cs)
	}
}

func (a *asker) askAttention() {
	a.t.Helper()
	var at struct {
		Incidents []struct {
			Kind, Source, Reason, Do string
			Accounts                 int
			Sample                   []string
		}
		Accounts []struct{ Account, Kind string }
	}
	a.get(0, &at, "attention", "list")
	if len(at.Incidents) != 1 {
		a.t.Fatalf("incidents: %+v, want one", at.Incidents)
	}
	if i := at.Incidents[0]; i.Kind != "login_needed" || i.Source != "waha-2" || i.Reason != "401" || i.Accounts != 2 || strings.Join(i.Sample, " ") != "out-1 out-2" || i.Do == "" {
		a.t.Errorf("the incident is %+v", i)
	}
	a.get(0, &at, "attention", "list", "--accounts", "--kind", "login_needed")
	if len(at.Accounts) != 2 || at.Accounts[0].Account != "out-1" || at.Accounts[1].Account != "out-2" {
		a.t.Errorf("one by one: %+v", at.Accounts)
	}
}

func (a *asker) askHistory() {
	a.t.Helper()
	var why struct {
		Sentence string
		Who      string `json:"who_acts"`
		Reason   string
		Since    struct{ Rejected, Stale int } `json:"since_progress"`
		Last     struct{ Trigger, To string }  `json:"last_progress"`
		Source   struct {
			Name   string
			Worker any
		}
		Others struct {
			InState    int `json:"in_state"`
			SameReason int `json:"same_reason"`
		}
	}
	a.get(0, &why, "why", "out-1")
	// qr_scanned is legal in LOGGED_OUT, sync_completed is not.
	if !strings.HasPrefix(why.Sentence, "out-1 has been LOGGED_OUT for ") || why.Who != "person" || why.Reason != "401" || why.Since.Rejected != 1 ||
		why.Last.Trigger != "logout" || why.Last.To != "LOGGED_OUT" || why.Source.Name != "waha-2" || why.Source.Worker != nil ||
		why.Others.InState != 1 || why.Others.SameReason != 1 {
		a.t.Errorf("why out-1: %+v", why)
	}
	a.run(3, "why", "nobody")
	var gone struct{ Sentence string }
	a.get(0, &gone, "why", "gone")
	if !strings.Contains(gone.Sentence, "it was forgotten") {
		a.t.Errorf("why gone: %s", gone.Sentence)
	}
	a.run(3, "can", "gone")
	a.run(0, "timeline", "gone")
	var tl struct {
		Events []struct {
			Version uint64
			Trigger string
		}
		Next string
	}
	var versions []uint64
	for before := ""; ; before = tl.Next {
		tl.Next, tl.Events = "", nil
		args := []string{"timeline", "out-1", "-n", "2"}
		if before != "" {
			args = append(args, "--before", before)
		}
		a.get(0, &tl, args...)
		for _, e := range tl.Events {
			versions = append(versions, e.Version)
		}
		if tl.Next == "" {
			break
		}
	}
	if fmt.Sprint(versions) != "[4 3 2 1]" {
		a.t.Errorf("the timeline of out-1 has versions %v, want 4 to 1", versions)
	}
}

// TestOneHandlerWins: 64 handlers claim each of 1 000 messages at the same time,
// over the bus of a real server. Exactly one is granted each; a look right after
// the verdict knows of it.
func TestOneHandlerWins(t *testing.T) {
	const claimers, messages = 64, 1000
	p := serve(t, "--data", t.TempDir())
	granted := make([]atomic.Int64, messages)
	conns := make([]*nats.Conn, 4)
	for i := range conns {
		conns[i] = p.connect()
	}
	var wg sync.WaitGroup
	for c := range claimers {
		wg.Go(func() {
			for i := range messages {
				m := (i + c*7) % messages
				ok, err := claim(conns[c%len(conns)], m, fmt.Sprintf("bot-%d", c))
				if err != nil {
					t.Errorf("claim %d by bot-%d: %v", m, c, err)
					return
				}
				if ok {
					granted[m].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for m := range granted {
		if n := granted[m].Load(); n != 1 {
			t.Errorf("message %d was granted %d times", m, n)
		}
	}
	a := &asker{t, p}
	var c struct{ Claims []struct{ Message string } }
	a.get(0, &c, "conversations", "get", "acct-3", "c-13")
	if len(c.Claims) != messages/50 {
		t.Errorf("%d claims are known of acct-3 and c-13, want %d", len(c.Claims), messages/50)
	}
}

// claim says whether the handler may answer a message.
func claim(nc *nats.Conn, m int, handler string) (granted bool, err error) {
	account := fmt.Sprintf("acct-%d", m%10)
	body := fmt.Sprintf(`{"account":%q,"trigger":"claim","key":"c-%d","data":{"message":"m-%d","side":"bot","handler":%q}}`, account, m%50, m, handler)
	answer, err := nc.Request("muster.cmd."+account, []byte(body), 30*time.Second)
	if err != nil {
		return false, err
	}
	var v struct{ Outcome, Reason string }
	if err := json.Unmarshal(answer.Data, &v); err != nil {
		return false, err
	}
	switch {
	case v.Outcome == "applied":
		return true, nil
	case v.Outcome == "rejected" && v.Reason == "already_claimed":
		return false, nil
	}
	return false, errors.New(string(answer.Data))
}

// TestCanIsNeverBehind asks right after each verdict: the answer must know it.
func TestCanIsNeverBehind(t *testing.T) {
	p := serve(t, "--data", t.TempDir())
	var wg sync.WaitGroup
	for c := range 8 {
		nc := p.connect()
		wg.Go(func() {
			account := fmt.Sprintf("acct-%d", c)
			for i := range 100 {
				trigger, can := "connection_lost", false
				if i%2 == 0 {
					trigger, can = "connection_ready", true
				}
				if i == 0 {
					trigger = "adopt"
				}
				body := fmt.Sprintf(`{"account":%q,"trigger":%q,"data":{"state":"RUNNING"}}`, account, trigger)
				if i > 0 {
					body = fmt.Sprintf(`{"account":%q,"trigger":%q}`, account, trigger)
				}
				if _, err := nc.Request("muster.cmd."+account, []byte(body), 30*time.Second); err != nil {
					t.Error(err)
					return
				}
				answer, err := nc.Request("muster.q.can", fmt.Appendf(nil, `{"account":%q,"do":"send"}`, account), 30*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				var got struct {
					Can   bool
					State string
				}
				if err := json.Unmarshal(answer.Data, &got); err != nil || got.Can != can {
					t.Errorf("after %s number %d: %s (%v)", trigger, i, answer.Data, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
