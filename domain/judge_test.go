package domain_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
)

const sec = int64(time.Second)

// trigger makes a trigger of account a, observed at t0 plus seconds.
func trigger(name string, seconds int64, change ...func(*domain.Trigger)) *domain.Trigger {
	t := &domain.Trigger{Account: "a", Name: name, At: t0 + seconds*sec, HasAt: true, Source: "wm-1", By: domain.ByUs, Expect: domain.NoExpect}
	for _, c := range change {
		c(t)
	}
	return t
}

func data(d domain.Data) func(*domain.Trigger) { return func(t *domain.Trigger) { t.Data = d } }
func account(id domain.AccountID) func(*domain.Trigger) {
	return func(t *domain.Trigger) { t.Account = id }
}
func registered(machine, mode string) func(*domain.Trigger) {
	return func(t *domain.Trigger) { t.Machine, t.Mode = machine, mode }
}

// apply judges triggers in order at their own times and folds them.
func apply(t *testing.T, j *domain.Judge, a *domain.Account, list ...*domain.Trigger) *domain.Account {
	t.Helper()
	for _, one := range list {
		d := j.Decide(a, one, one.At)
		if d.Event == nil {
			t.Fatalf("%s: %s, %s", one.Name, d.Verdict.Outcome, d.Verdict.Reason)
		}
		a = domain.Evolve(a, d.Event)
	}
	return a
}

// Wherever whatsapp@1 has an edge, whatsapp@2 gives the same target: judged, not
// only looked up, from the state as it is reached and with no condition standing.
func TestWhatsApp2IsASupersetOfWhatsApp1(t *testing.T) {
	j := newJudge()
	m, _ := lifecycle.Registry().Get("whatsapp@1")
	edges := 0
	for _, e := range m.Transitions() {
		edges++
		var targets []string
		for _, name := range []string{"whatsapp@1", "whatsapp@2"} {
			a := &domain.Account{ID: "a", Machine: name, Mode: domain.ModeObserve, Desired: domain.DesiredRun, State: e.From, Since: t0, Version: 1}
			d := j.Decide(a, trigger(e.Trigger, 1), t0+sec)
			if d.Verdict.Outcome != domain.Applied {
				t.Errorf("%s: %s on %s is %s", name, e.From, e.Trigger, d.Verdict.Outcome)
			}
			targets = append(targets, d.Verdict.To)
		}
		if targets[0] != targets[1] || !slices.Equal(e.To, targets[:1]) {
			t.Errorf("%s on %s: the tables say %v and %v", e.From, e.Trigger, e.To, targets)
		}
	}
	if edges != 25 {
		t.Errorf("%d edges were tried, want 25", edges)
	}
}

// Waits of the retry rule in nanoseconds, worked out apart from the program:
// base seconds × 100 000 × (8 000 + 4·(FNV-1a-64("<account>#<n>") mod 1000)).
func TestRetryArithmeticIsExact(t *testing.T) {
	j := newJudge()
	for _, c := range []struct {
		account domain.AccountID
		waits   [5]int64
	}{
		{"acct-1", [5]int64{2377600000, 4168000000, 7660800000, 14969600000, 27238400000}},
		{"+15550100001", [5]int64{2000000000, 3412800000, 9350400000, 18348800000, 33996800000}},
		{"wxid_ab", [5]int64{1672800000, 3683200000, 8041600000, 17433600000, 37568000000}},
	} {
		a := apply(t, j, nil, trigger("adopt", 0, account(c.account), registered("whatsapp@2", "supervise"), data(domain.Data{"state": "RUNNING"})))
		lost := int64(1)
		a = apply(t, j, a, trigger("connection_lost", lost, account(c.account)))
		for n, wait := range c.waits {
			d, ok := j.Due(a)
			if !ok || d.Trigger.Name != "start" || d.At != t0+lost*sec+wait || d.Trigger.Source != domain.SourceMuster {
				t.Fatalf("%s, try %d: due %d ns after the loss with %q, want %d with start", c.account, n+1, d.At-t0-lost*sec, d.Trigger.Name, wait)
			}
			lost += 100
			a = apply(t, j, a, &d.Trigger, trigger("reconnect_failed", lost, account(c.account)))
		}
		if d, ok := j.Due(a); !ok || d.Trigger.Name != "mark_gave_up" || d.At != t0+lost*sec {
			t.Errorf("%s: after five tries %q is due at %d, want mark_gave_up at once", c.account, d.Trigger.Name, d.At)
		}
	}
}

func TestHoldsAreExact(t *testing.T) {
	j := newJudge()
	start := func(name string, d domain.Data) *domain.Account {
		return apply(t, j, nil, trigger("adopt", 0, account("acct-1"), registered("whatsapp@2", "supervise"), data(domain.Data{"state": "RUNNING"})),
			trigger(name, 1, account("acct-1"), data(d)))
	}
	for name, c := range map[string]struct {
		data domain.Data
		due  int64
	}{
		"connection_replaced": {nil, 1*sec + 35664000000},
		"connect_refused":     {nil, 1*sec + 356640000000},
		"banned":              {domain.Data{"until": domain.FormatTime(t0 + 3600*sec)}, 3600*sec + 2377600000},
	} {
		a := start(name, c.data)
		for d, ok := j.Due(a); ; d, ok = j.Due(a) {
			if !ok {
				t.Fatalf("%s: no retry is due", name)
			}
			if d.Trigger.Name == "start" {
				if d.At != t0+c.due {
					t.Errorf("%s: due after %d ns, want %d", name, d.At-t0, c.due)
				}
				break
			}
			a = apply(t, j, a, &d.Trigger) // the end of the ban
		}
	}
	if d, ok := j.Due(start("banned", nil)); ok {
		t.Errorf("banned without an end: %q is due, want nothing", d.Trigger.Name)
	}
}

func TestATimeFarAheadIsCutToNow(t *testing.T) {
	j := newJudge()
	for ahead, want := range map[int64]int64{0: 0, 300 * sec: 300 * sec, 300*sec + 1: 0, 1 << 60: 0} {
		d := j.Decide(nil, &domain.Trigger{Account: "a", Name: "start", At: t0 + ahead, HasAt: true, Expect: domain.NoExpect}, t0)
		if d.Event == nil || d.Event.At != t0+want || d.Event.Recorded != t0 {
			t.Errorf("%d ns ahead: %+v", ahead, d.Event)
		}
	}
	if d := j.Decide(nil, &domain.Trigger{Account: "a", Name: "start", Expect: domain.NoExpect}, t0); d.Event.At != t0 {
		t.Errorf("without a time it is now: %+v", d.Event)
	}
}

func TestThe65thIDIsForgotten(t *testing.T) {
	j := newJudge()
	var a *domain.Account
	id := func(i int) string { return "id-" + string(rune('A'+i%26)) + string(rune('a'+i/26)) }
	for i := range 65 {
		a = apply(t, j, a, trigger("start", int64(2*i), func(t *domain.Trigger) { t.ID = id(i) }), trigger("start", int64(2*i+1))) // one without an id pushes nothing out
	}
	for i, want := range map[int]domain.Outcome{0: domain.Noop, 1: domain.Duplicate, 64: domain.Duplicate} {
		d := j.Decide(a, trigger("start", 500, func(t *domain.Trigger) { t.ID = id(i) }), t0+500*sec)
		if d.Verdict.Outcome != want {
			t.Errorf("id %d: %s, want %s", i, d.Verdict.Outcome, want)
		}
		if want == domain.Duplicate && d.Verdict.Version != uint64(2*i+1) {
			t.Errorf("id %d: version %d, want %d", i, d.Verdict.Version, 2*i+1)
		}
	}
}

func TestSixteenSourcesAreRemembered(t *testing.T) {
	j := newJudge()
	from := func(i int) func(*domain.Trigger) { return func(t *domain.Trigger) { t.Source = string(rune('a' + i)) } }
	var a *domain.Account
	for i := range 17 {
		a = apply(t, j, a, trigger("start", int64(100+i), from(i)))
	}
	for i, want := range map[int]domain.Outcome{0: domain.Noop, 1: domain.Stale, 16: domain.Stale} {
		if d := j.Decide(a, trigger("start", 1, from(i)), t0); d.Verdict.Outcome != want {
			t.Errorf("source %d: %s, want %s", i, d.Verdict.Outcome, want)
		}
	}
}

func TestCanByScope(t *testing.T) {
	j := newJudge()
	a := apply(t, j, nil, trigger("adopt", 0, data(domain.Data{"state": "RUNNING"})), trigger("restricted", 1, data(domain.Data{"scope": "groups"})))
	for _, c := range []struct {
		what, scope string
		want        bool
	}{
		{"read", "", true}, {"read", "groups", true}, {"send", "", true}, {"send", "groups", false}, {"send", "direct", true},
		{"bulk", "", false}, {"bulk", "groups", false}, {"bulk", "direct", true}, {"fly", "", false},
	} {
		if got := j.Can(a, c.what, c.scope); got != c.want {
			t.Errorf("can %s in %q: %v, want %v", c.what, c.scope, got, c.want)
		}
	}
	a = apply(t, j, a, trigger("restricted", 2))
	if j.Can(a, "send", "direct") || j.Can(a, "bulk", "direct") || !j.Can(a, "read", "direct") {
		t.Error("a restriction without a scope blocks send and bulk everywhere, and nothing else")
	}
}

func TestUsersMachine(t *testing.T) {
	reg := lifecycle.Registry()
	shop := machine.MustCompile(machine.Definition{
		Name: "shop@1", Initial: "SHUT",
		States:   []machine.State{{Name: "SHUT", Class: machine.ClassIdle}, {Name: "OPEN_FOR_ALL", Class: machine.ClassReady, Can: []string{"send"}}},
		Triggers: []string{"unlock", "lock"},
		Edges: []machine.Edge{{On: machine.Names{"unlock"}, From: machine.Names{"SHUT"}, To: "OPEN_FOR_ALL"},
			{On: machine.Names{"lock"}, From: machine.Names{"OPEN_FOR_ALL"}, To: "SHUT"}},
	})
	if err := reg.Add(shop); err != nil {
		t.Fatal(err)
	}
	j := domain.NewJudge(reg)
	id := func(t *domain.Trigger) { t.ID = "x" }
	a := apply(t, j, nil, trigger("unlock", 0, registered("shop@1", ""), id), trigger("vouch_lost", 1, func(t *domain.Trigger) { t.Source = domain.SourceMuster }))
	if a.State != "OPEN_FOR_ALL" || j.Class(a) != "ready" || j.Can(a, "send", "") || j.Attention(a)[0] != "unvouched" {
		t.Errorf("got %+v", j.Describe(a))
	}
	if d := j.Decide(a, trigger("lock", 2, id), t0); d.Verdict.Outcome != domain.Duplicate || d.Verdict.To != "OPEN_FOR_ALL" {
		t.Errorf("the earlier result of a state with its own name: %+v", d.Verdict)
	}
	// A trigger of another machine is rejected, one of none is invalid.
	if d := j.Decide(a, trigger("qr_received", 3), t0); d.Verdict.Outcome != domain.Rejected {
		t.Errorf("a trigger of another machine: %s", d.Verdict.Outcome)
	}
	// Without its file the account is described as far as possible, and not judged.
	bare := newJudge()
	if d := bare.Decide(a, trigger("start", 4), t0); d.Verdict.Outcome != domain.Invalid || !strings.Contains(d.Verdict.Reason, "shop@1") {
		t.Errorf("an account whose machine is not known: %+v", d.Verdict)
	}
	if v := bare.Describe(a); v.State != "OPEN_FOR_ALL" || v.Class != "" || v.Can.Send {
		t.Errorf("described without its machine: %+v", v)
	}
	if _, ok := bare.Due(a); ok {
		t.Error("an account whose machine is not known has a deadline")
	}
}

func TestDefaults(t *testing.T) {
	j, err := newJudge().With(domain.Defaults{Session: "whatsapp@1", Message: "message@2", Mode: "supervise"})
	if err != nil {
		t.Fatal(err)
	}
	d := j.Decide(nil, trigger("start", 0), t0)
	if d.Event.Machine != "whatsapp@1" || d.Event.Mode != "supervise" || d.Event.Initial != "IDLE" {
		t.Errorf("got %+v", d.Event)
	}
	a := apply(t, j, domain.Evolve(nil, d.Event), trigger("message_pending", 1, func(t *domain.Trigger) { t.Key = "m" }))
	if m, ok := a.Message("m"); !ok || m.State != "PENDING" {
		t.Errorf("message@2 was asked for: %+v", m)
	}
	for _, bad := range []domain.Defaults{{Session: "message@2"}, {Message: "whatsapp@2"}, {Session: "none@1"}, {Mode: "watch"}} {
		if _, err := newJudge().With(bad); err == nil {
			t.Errorf("%+v: want an error", bad)
		}
	}
}

func TestRecoverWithoutAWorker(t *testing.T) {
	j := newJudge()
	a := apply(t, j, nil, trigger("adopt", 0, data(domain.Data{"state": "RUNNING"})))
	d := j.Decide(a, &domain.Trigger{Account: "a", Name: "recover", At: t0, HasAt: true, Source: domain.SourceMuster, NotWorker: true, Expect: domain.NoExpect}, t0)
	if d.Verdict.Outcome != domain.Noop || len(d.Event.Set) != 1 || d.Event.Set[0].Name != "unverified" {
		t.Errorf("got %+v", d)
	}
}

func TestHeartbeatLeavesNoTrace(t *testing.T) {
	j := newJudge()
	d := j.Decide(nil, trigger("heartbeat", 0), t0)
	if d.Event != nil || d.Verdict.Outcome != domain.Noop || d.Verdict.Version != 0 || d.Verdict.From != "IDLE" || d.Beat != t0 {
		t.Errorf("got %+v", d)
	}
	a := apply(t, j, nil, trigger("start", 0))
	if d := j.Decide(a, trigger("heartbeat", 1), t0); d.Event != nil || d.Verdict.Version != 1 || d.Verdict.To != "CONNECTING" {
		t.Errorf("got %+v", d)
	}
}

func TestBeatsAreNoPartOfTheDigest(t *testing.T) {
	j := newJudge()
	a := apply(t, j, nil, trigger("login_started", 0, registered("wecom@1", "")), trigger("login_succeeded", 1), trigger("sync_started", 2), trigger("sync_completed", 3))
	before, _ := j.Due(a)
	digest := domain.Digest([]*domain.Account{a})
	b := a.Clone()
	b.Beat(trigger("heartbeat", 100), t0+100*sec)
	if d, _ := j.Due(b); d.At != t0+730*sec || before.At != t0+633*sec || d.Trigger.Reason.Code != "heartbeats_missed" {
		t.Errorf("due %d s with the beat and %d s without, want 730 and 633", (d.At-t0)/sec, (before.At-t0)/sec)
	}
	if domain.Digest([]*domain.Account{b}) != digest {
		t.Error("a heartbeat changes the digest")
	}
	if d, _ := j.Due(a); d.At != before.At {
		t.Error("a heartbeat of a clone changes the original")
	}
	b.BeatsFrom(t0 + 500*sec)
	if d, _ := j.Due(b); d.At != t0+1130*sec {
		t.Error("the count does not begin at the restart")
	}
}

func TestLogLine(t *testing.T) {
	at := time.Date(2026, 1, 1, 10, 0, 0, 123456789, time.UTC).UnixNano()
	for want, e := range map[string]domain.Event{
		"[2026-01-01T10:00:00.123Z] acct-1: CONNECTING -> QR_REQUIRED via qr_received": {At: at, Account: "acct-1", Outcome: domain.Applied, From: "CONNECTING", To: "QR_REQUIRED", Trigger: "qr_received"},
		"[2026-01-01T10:00:00.123Z] acct-1: RUNNING -x qr_scanned (rejected: no edge)": {At: at, Account: "acct-1", Outcome: domain.Rejected, From: "RUNNING", To: "RUNNING", Trigger: "qr_scanned", Verdict: "no edge"},
		"[2026-01-01T10:00:00.123Z] acct-1: RUNNING -x start (noop)":                   {At: at, Account: "acct-1", Outcome: domain.Noop, From: "RUNNING", To: "RUNNING", Trigger: "start"},
		"[2026-01-01T10:00:00.123Z] acct-1/m-1: NEW -> SENT via message_sent":          {At: at, Account: "acct-1", Key: "m-1", Outcome: domain.Applied, To: "SENT", Trigger: "message_sent"},
		`[2026-01-01T10:00:00.123Z] acct-1/"m\n": NEW -> SENT via message_sent`:        {At: at, Account: "acct-1", Key: "m\n", Outcome: domain.Applied, To: "SENT", Trigger: "message_sent"},
	} {
		if got := domain.LogLine(&e); got != want {
			t.Errorf("want %s\n got %s", want, got)
		}
	}
}

func TestVerdictJSON(t *testing.T) {
	v := domain.Verdict{Account: "a", Trigger: "start", Outcome: domain.Duplicate, From: "IDLE", To: "CONNECTING", Version: 1, Source: "s", Earlier: domain.Applied}
	b, err := v.MarshalJSON()
	want := `{"account":"a","key":"","trigger":"start","outcome":"duplicate","from":"IDLE","to":"CONNECTING","version":1,"source":"s","reason":"","earlier":"applied"}`
	if err != nil || string(b) != want {
		t.Errorf("want %s\n got %s (%v)", want, b, err)
	}
	var back domain.Verdict
	if err := back.UnmarshalJSON(b); err != nil || !reflect.DeepEqual(back, v) {
		t.Errorf("read back %+v (%v)", back, err)
	}
}
