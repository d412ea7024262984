package explain_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/explain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
)

var update = flag.Bool("update", false, "write the golden files anew")

var begin = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

// life is an account under a real judge, with a clock.
type life struct {
	t     *testing.T
	judge *domain.Judge
	acct  *domain.Account
	now   time.Time
	last  string // reason code or trigger of the event that led to the state
}

func newLife(t *testing.T) *life {
	return &life{t: t, judge: domain.NewJudge(lifecycle.Registry()), now: begin}
}

// judge1 judges one trigger and folds its event.
func (l *life) judge1(t domain.Trigger) domain.Verdict {
	d := l.judge.Decide(l.acct, &t, l.now.UnixNano())
	if d.Event != nil {
		before := ""
		if l.acct != nil {
			before = l.acct.State
		}
		l.acct = domain.Evolve(l.acct, d.Event)
		if l.acct.State != before {
			l.last = t.Name
			if t.Reason.Code != "" {
				l.last = t.Reason.Code
			}
		}
	}
	return d.Verdict
}

// pass lets time go by; what is due on the way is judged.
func (l *life) pass(d time.Duration) {
	end := l.now.Add(d)
	for l.acct != nil {
		next, ok := l.judge.Due(l.acct)
		if !ok || next.At > end.UnixNano() {
			break
		}
		l.now = time.Unix(0, max(next.At, l.now.UnixNano()))
		t := next.Trigger
		t.At = l.now.UnixNano()
		if v := l.judge1(t); !v.Outcome.Appended() {
			l.t.Fatalf("a deadline was not taken: %+v", v)
		}
	}
	l.now = end
}

// tell judges a story: steps with semicolons between them, each "+10m", or a
// trigger with fields.
func (l *life) tell(machineName, mode, story string) {
	l.t.Helper()
	for step := range strings.SplitSeq(story, ";") {
		words := strings.Fields(step)
		if len(words) == 0 {
			continue
		}
		if span, ok := strings.CutPrefix(words[0], "+"); ok {
			d, err := time.ParseDuration(span)
			if err != nil {
				l.t.Fatal(err)
			}
			l.pass(d)
			continue
		}
		t := domain.Trigger{Account: "acct-1", Name: words[0], Source: "waha-1", Expect: domain.NoExpect, Machine: machineName, Mode: mode, Data: domain.Data{}}
		for _, w := range words[1:] {
			name, value, _ := strings.Cut(w, "=")
			switch name {
			case "by":
				t.By = domain.Initiator(value)
			case "code":
				t.Reason.Code = value
			case "source":
				t.Source = value
			case "until", "tgt_until", "sid_until":
				d, err := time.ParseDuration(value)
				if err != nil {
					l.t.Fatal(err)
				}
				t.Data[name] = l.now.Add(d).Format(time.RFC3339)
			case "worker":
				t.NotWorker = true
			case "epoch":
				t.Epoch = 1
			default:
				t.Data[name] = value
			}
		}
		// Muster's own marks are judged like any other trigger here.
		if v := l.judge1(t); !v.Outcome.Appended() {
			l.t.Fatalf("%s: %v: %s", step, v.Outcome, v.Reason)
		}
	}
}

func (l *life) sentence() string {
	e := explain.Account(explain.Facts{Judge: l.judge, Account: l.acct, Reason: l.last, Now: l.now.UnixNano()})
	return fmt.Sprintf("%s\n    [%s] %s", e.Sentence, e.Who, e.WaitsFor)
}

// roads lead into every state of every built-in machine.
func roads(t *testing.T, name string) map[string]*life {
	t.Helper()
	m, _ := lifecycle.Registry().Get(name)
	fresh := newLife(t)
	fresh.judge1(domain.Trigger{Account: "acct-1", Name: "message_pending", Key: "m-1", Source: "waha-1", Expect: domain.NoExpect, Machine: name})
	fresh.last = ""
	found := map[string]*life{m.Initial(): fresh}
	queue := []*life{newLife(t)}
	for len(queue) > 0 {
		from := queue[0]
		queue = queue[1:]
		for _, trigger := range m.Definition().Triggers {
			to := *from
			if to.acct != nil {
				to.acct = to.acct.Clone()
			}
			tr := domain.Trigger{Account: "acct-1", Name: trigger, Source: "waha-1", Expect: domain.NoExpect, Machine: name, Data: domain.Data{}}
			switch trigger {
			case "login_succeeded":
				tr.Data["tgt_until"] = to.now.Add(time.Hour * 24 * 30).Format(time.RFC3339)
			case "adopt":
				tr.Data["state"] = "RUNNING"
			case "start", "stop", "login_started":
				tr.By = domain.ByUser
			}
			to.now = to.now.Add(time.Minute)
			to.judge1(tr)
			if _, known := found[to.acct.State]; !known {
				found[to.acct.State] = &to
				queue = append(queue, &to)
			}
		}
	}
	for _, s := range m.Definition().States {
		if found[s.Name] == nil {
			t.Errorf("%s: no way into %s", name, s.Name)
		}
	}
	return found
}

// TestEveryStateHasASentence walks into every state of every built-in machine.
func TestEveryStateHasASentence(t *testing.T) {
	var b strings.Builder
	for _, m := range lifecycle.Registry().List() {
		if m.Family() != machine.FamilySession {
			continue
		}
		fmt.Fprintf(&b, "%s\n\n", m.Name())
		found := roads(t, m.Name())
		for _, s := range m.Definition().States {
			l := found[s.Name]
			l.now = l.now.Add(90 * time.Second)
			fmt.Fprintf(&b, "  %s\n", l.sentence())
		}
		b.WriteString("\n")
	}
	golden(t, "states.txt", b.String())
}

// TestStories tells what the conditions, the mode and what is desired change.
func TestStories(t *testing.T) {
	stories := []struct{ machine, mode, story string }{
		{"whatsapp@2", "", "start by=user; +6m"},
		{"whatsapp@2", "", "start by=user; qr_received; +12m"},
		{"whatsapp@2", "", "start by=user; qr_received; +1m; qr_expired"},
		{"whatsapp@2", "", "start by=user; qr_received; qr_scanned; +3m"},
		{"whatsapp@2", "", "connection_ready; +1m"},
		{"whatsapp@2", "", "adopt state=RUNNING; rate_limited until=5m; +2m"},
		{"whatsapp@2", "", "adopt state=RUNNING; rate_limited; +2m"},
		{"whatsapp@2", "", "adopt state=RUNNING; probe_failed; +2m"},
		{"whatsapp@2", "", "adopt state=RUNNING; restricted scope=new_chats until=24h; +2m"},
		{"whatsapp@2", "", "adopt state=RUNNING; restricted until=24h code=463; +2m"},
		{"whatsapp@2", "", "adopt state=RUNNING; restricted; +2m"},
		{"whatsapp@2", "", "adopt state=RUNNING; vouch_lost source=muster; +10s"},
		{"whatsapp@2", "", "adopt state=RUNNING; recover source=muster worker=false; +10s"},
		{"whatsapp@2", "", "adopt state=RUNNING; recover source=muster; +10s"},
		{"whatsapp@2", "", "adopt state=RUNNING; +26h; connection_lost code=515; +4m"},
		{"whatsapp@2", "", "adopt state=RUNNING; connection_lost code=515; +14m"},
		{"whatsapp@2", "supervise", "adopt state=RUNNING; connection_lost code=515; +1s"},
		{"whatsapp@2", "supervise", "adopt state=RUNNING; connection_lost; +3s; reconnect_failed; +100ms"},
		{"whatsapp@2", "supervise", "adopt state=RUNNING; connection_lost; +1h"},
		{"whatsapp@2", "supervise", "adopt state=RUNNING; connection_replaced; +1s"},
		{"whatsapp@2", "", "adopt state=RUNNING; connection_replaced; +1s"},
		{"whatsapp@2", "", "adopt state=RUNNING; connect_refused code=405; +1s"},
		{"whatsapp@2", "", "adopt state=RUNNING; banned until=48h code=403; +1h"},
		{"whatsapp@2", "supervise", "adopt state=RUNNING; banned until=48h code=403; +1h"},
		{"whatsapp@2", "", "adopt state=RUNNING; banned code=403; +1h"},
		{"whatsapp@2", "", "adopt state=RUNNING; logout code=401; +72h"},
		{"whatsapp@2", "", "adopt state=RUNNING; stop by=user; logout; +1h"},
		{"whatsapp@2", "", "adopt state=RUNNING; stop by=user; +1h"},
		{"whatsapp@2", "", "adopt state=RUNNING; stop by=remote; +1h"},
		{"whatsapp@2", "", "adopt state=RUNNING; connection_lost; stop by=user; +1h"},
		{"whatsapp@2", "", "adopt state=RUNNING; stop by=user; connection_ready epoch=1; +1h"},
		{"whatsapp@2", "", "adopt state=RUNNING; forget by=user; +1h"},
		{"wecom@1", "", "login_started by=user; login_failed; +1h"},
		{"wecom@1", "", "login_started by=user; login_succeeded; connection_lost; +1h"},
		{"wecom@1", "supervise", "login_started by=user; login_succeeded tgt_until=720h; connection_lost; +1s"},
		{"wecom@1", "", "login_started by=user; login_succeeded tgt_until=720h sid_until=24h; sync_started; sync_completed; +9m"},
		{"wecom@1", "", "login_started by=user; login_succeeded tgt_until=720h sid_until=24h; sync_started; sync_completed; +11m"},
		{"wecom@1", "", "login_started by=user; login_succeeded; stop by=user; +1h"},
		{"instance@1", "", "online; offline; +1h"},
	}
	var b strings.Builder
	for _, s := range stories {
		l := newLife(t)
		l.tell(s.machine, s.mode, s.story)
		fmt.Fprintf(&b, "%s %s: %s\n  %s\n\n", s.machine, l.acct.Mode, s.story, l.sentence())
	}
	l := newLife(t)
	l.tell("whatsapp@2", "", "adopt state=RUNNING")
	l.acct.Machine = "shop@3"
	fmt.Fprintf(&b, "a machine that this process does not know\n  %s\n\n", l.sentence())
	l.acct.Machine, l.acct.State = "whatsapp@2", "WARMING"
	fmt.Fprintf(&b, "a state that the machine does not have\n  %s\n\n", l.sentence())
	e := explain.Account(explain.Facts{Judge: l.judge, Account: l.acct, Damage: "event 7 is missing", Now: l.now.UnixNano()})
	fmt.Fprintf(&b, "a damaged account\n  %s\n", e.Sentence)
	golden(t, "stories.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s, line %d (-update writes it anew): got\n%s\nwant\n%s", path, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", path, len(g), len(w))
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "less than a second", 999 * time.Millisecond: "less than a second", time.Second: "1 s", 59 * time.Second: "59 s",
		time.Minute: "1 min", 90 * time.Second: "1 min 30 s", time.Hour: "1 h", 25*time.Hour + time.Minute: "1 d 1 h", 24 * time.Hour: "1 d",
		3*time.Hour + 59*time.Second: "3 h", 1000 * time.Hour: "41 d 16 h",
	} {
		if got := explain.Span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestBlock(t *testing.T) {
	limited := domain.Condition{Name: "rate_limited", Until: begin.UnixNano(), Reason: "429"}
	chats := domain.Condition{Name: "restricted", Scope: "new_chats"}
	for _, tt := range []struct {
		state, scope string
		conditions   []domain.Condition
		want         string
	}{
		{"STOPPED", "", nil, "it is STOPPED"},
		{"DEGRADED", "groups", []domain.Condition{limited}, "it is DEGRADED; rate_limited until 2026-01-01 10:00:00Z (429)"},
		{"RUNNING", "new_chats", []domain.Condition{chats, limited}, "restricted in new_chats; rate_limited until 2026-01-01 10:00:00Z (429)"},
	} {
		j := domain.NewJudge(lifecycle.Registry())
		a := &domain.Account{ID: "a", Machine: "whatsapp@2", State: tt.state, Conditions: slices.Clone(tt.conditions)}
		b, _ := j.Blocked(a, "send", tt.scope)
		if got := explain.Block(a, &b); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
