package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
)

func wahaSession(name, status string) string {
	return `{"name":"` + name + `","status":"` + status + `","config":{"webhooks":[{"hmac":{"key":"x"}}]},"me":{"id":"155@c.us"}}`
}

func list(elements ...string) string { return "[" + strings.Join(elements, ",") + "]" }

func evo(name, status, more string) string {
	return `{"id":"u-1","name":"` + name + `","connectionStatus":"` + status + `","token":"instance-s3cret"` + more + `}`
}

// reach are the triggers that lead an account into a state.
var reach = map[string][]string{
	"RUNNING":      {`adopt{"state":"RUNNING"}`},
	"DEGRADED":     {`adopt{"state":"RUNNING"}`, "rate_limited"},
	"CONNECTING":   {"start"},
	"QR_REQUIRED":  {"qr_received"},
	"SYNCING":      {"start", "qr_scanned"},
	"DISCONNECTED": {`adopt{"state":"DISCONNECTED"}`},
	"RECONNECTING": {`adopt{"state":"DISCONNECTED"}`, "start"},
	"LOGGED_OUT":   {`adopt{"state":"LOGGED_OUT"}`},
	"STOPPED":      {"stop"},
}

type row struct {
	state   string // known; "" = no events
	session string // listed
	memory  string // of Evolution: what the process says; "" = 404
	want    []string
}

func check(t *testing.T, kind string, rows []row) {
	t.Helper()
	for _, c := range rows {
		f, s := newFleet(t), newServer(t)
		r := reconciler(t, f, s, kind, "w", nil)
		if c.state != "" {
			f.say("w:a", reach[c.state]...)
		}
		if got := f.state("w:a"); got != c.state {
			t.Fatalf("the account is in %q, want %q", got, c.state)
		}
		n := f.count()
		f.pass(2 * time.Minute)
		s.tell(list(c.session))
		s.states["a"] = c.memory
		mustPoll(t, r, "w")
		if got := f.since(n); !slices.Equal(got, c.want) {
			t.Errorf("%q, %s (%s):\n got %q\nwant %q", c.state, c.session, c.memory, got, c.want)
		}
		// What was published is known now: nothing differs any more.
		n = f.count()
		f.pass(time.Minute)
		mustPoll(t, r, "w")
		if got := f.since(n); len(got) > 0 {
			t.Errorf("%q, %s: published again: %q", c.state, c.session, got)
		}
	}
}

func TestWAHAsListAgainstEveryState(t *testing.T) {
	var rows []row
	add := func(state, status string, want ...string) {
		rows = append(rows, row{state, wahaSession("a", status), "", want})
	}
	add("", "WORKING", "w:a: IDLE -> RUNNING via adopt")
	add("RUNNING", "WORKING")
	add("DEGRADED", "WORKING") // a list is no proof that a limit has ended
	for _, from := range []string{"CONNECTING", "QR_REQUIRED", "SYNCING", "DISCONNECTED", "RECONNECTING"} {
		add(from, "WORKING", "w:a: "+from+" -> RUNNING via connection_ready")
	}
	add("LOGGED_OUT", "WORKING", "w:a: LOGGED_OUT -> CONNECTING via start", "w:a: CONNECTING -> RUNNING via connection_ready")
	add("STOPPED", "WORKING", "w:a: STOPPED -> CONNECTING via start ends unexpected_stop", "w:a: CONNECTING -> RUNNING via connection_ready")
	add("", "STARTING", "w:a: IDLE -> CONNECTING via start")
	add("CONNECTING", "STARTING")
	add("RECONNECTING", "STARTING")
	add("RUNNING", "STARTING", "w:a: RUNNING -> DISCONNECTED via connection_lost", "w:a: DISCONNECTED -> RECONNECTING via start")
	add("QR_REQUIRED", "STARTING", "w:a: QR_REQUIRED -> CONNECTING via start")
	add("STOPPED", "STARTING", "w:a: STOPPED -> CONNECTING via start ends unexpected_stop")
	add("", "SCAN_QR_CODE", "w:a: IDLE -> QR_REQUIRED via qr_received")
	add("QR_REQUIRED", "SCAN_QR_CODE")
	add("RUNNING", "SCAN_QR_CODE", "w:a: RUNNING -> QR_REQUIRED via qr_received")
	add("", "STOPPED", "w:a: IDLE -> STOPPED via adopt")
	add("STOPPED", "STOPPED")
	add("RUNNING", "STOPPED", "w:a: RUNNING -> STOPPED via stop")
	add("", "FAILED", "w:a: IDLE -> DISCONNECTED via adopt (FAILED)")
	add("RUNNING", "FAILED", "w:a: RUNNING -> DISCONNECTED via connection_lost (FAILED)")
	add("QR_REQUIRED", "FAILED", "w:a: QR_REQUIRED -> STOPPED via qr_expired (FAILED)")
	add("RECONNECTING", "FAILED", "w:a: RECONNECTING -> DISCONNECTED via reconnect_failed (FAILED)")
	for _, down := range []string{"DISCONNECTED", "LOGGED_OUT", "STOPPED"} {
		add(down, "FAILED")
	}
	add("QR_REQUIRED", "PASSKEY_REQUIRED", "w:a: user_action_needed noop")
	add("RUNNING", "SLEEPING")
	check(t, "waha", rows)
}

func TestEvolutionsListAgainstEveryState(t *testing.T) {
	const owner = `,"ownerJid":"155@s.whatsapp.net"`
	lost := []string{"w:a: RUNNING -> DISCONNECTED via connection_lost"}
	check(t, "evolution", []row{
		{"", evo("a", "open", owner), "open", []string{"w:a: IDLE -> RUNNING via adopt"}},
		{"", evo("a", "open", owner), "", []string{"w:a: IDLE -> RUNNING via adopt"}},
		{"", evo("a", "open", ""), "open", []string{"w:a: connection_ready rejected"}}, // every instance is born open
		{"", evo("a", "close", ""), "close", []string{}},                               // made and never paired
		{"", evo("a", "close", owner), "close", []string{"w:a: IDLE -> DISCONNECTED via adopt"}},
		{"", evo("a", "connecting", ""), "connecting", []string{"w:a: IDLE -> CONNECTING via start"}},
		{"", `{"instance":{"instanceName":"a","status":"open","owner":"155@s.whatsapp.net"}}`, "", []string{"w:a: IDLE -> RUNNING via adopt"}}, // version 1
		{"RUNNING", evo("a", "open", owner), "connecting", []string{}},                                                                         // agrees: not asked
		{"RUNNING", evo("a", "close", owner), "close", lost},
		{"RUNNING", evo("a", "close", owner), "open", []string{}},
		{"RUNNING", evo("a", "close", owner+`,"disconnectionReasonCode":"401"`), "close", []string{"w:a: RUNNING -> LOGGED_OUT via logout (401)"}},
		{"RUNNING", evo("a", "close", owner+`,"disconnectionReasonCode":402`), "", []string{"w:a: RUNNING -> DISCONNECTED via banned (402)"}},
		{"RUNNING", evo("a", "close", owner+`,"disconnectionReasonCode":401,"disconnectionAt":"2026-01-05T11:00:00.000Z"`), "close", lost}, // of an earlier connection
		{"RUNNING", evo("a", "close", owner+`,"disconnectionReasonCode":401,"disconnectionAt":"2026-01-05T12:01:00.000Z"`), "close", []string{"w:a: RUNNING -> LOGGED_OUT via logout (401)"}},
		{"RUNNING", evo("a", "connecting", owner), "connecting", []string{"w:a: RUNNING -> DISCONNECTED via connection_lost", "w:a: DISCONNECTED -> RECONNECTING via start"}},
		{"RECONNECTING", evo("a", "open", owner), "connecting", []string{}}, // the database does not know of the loss
		{"RECONNECTING", evo("a", "open", owner), "open", []string{"w:a: RECONNECTING -> RUNNING via connection_ready"}},
		{"LOGGED_OUT", evo("a", "open", owner), "open", []string{"w:a: LOGGED_OUT -> CONNECTING via start", "w:a: CONNECTING -> RUNNING via connection_ready"}},
		{"LOGGED_OUT", evo("a", "close", owner), "close", []string{}},
		{"STOPPED", evo("a", "close", `,"disconnectionReasonCode":401`), "close", []string{}},
		{"QR_REQUIRED", evo("a", "connecting", ""), "connecting", []string{}},
		{"QR_REQUIRED", evo("a", "close", ""), "connecting", []string{}},
		{"CONNECTING", evo("a", "close", ""), "refused", []string{"w:a: CONNECTING -> STOPPED via qr_expired"}},
		{"DISCONNECTED", evo("a", "close", owner), "", []string{}},
		{"RUNNING", evo("a", "sleeping", owner), "", []string{}},
	})
}

func TestAnAccountInDoubtIsConfirmed(t *testing.T) {
	for _, c := range []struct {
		kind    string
		before  []string
		session string
		want    string
	}{
		{"waha", []string{`adopt{"state":"RUNNING"}`}, wahaSession("a", "WORKING"), "w:a: connection_ready noop ends unverified"},
		{"waha", reach["DEGRADED"], wahaSession("a", "WORKING"), "w:a: start noop ends unverified"}, // ready would end the limit
		{"waha", reach["QR_REQUIRED"], wahaSession("a", "SCAN_QR_CODE"), "w:a: qr_received noop ends unverified"},
		{"waha", reach["RECONNECTING"], wahaSession("a", "STARTING"), "w:a: start noop ends unverified"},
		{"evolution", []string{`adopt{"state":"RUNNING"}`}, evo("a", "open", ""), "w:a: connection_ready noop ends unverified"},
		{"evolution", reach["QR_REQUIRED"], evo("a", "connecting", ""), "w:a: qr_received noop ends unverified"},
	} {
		f, s := newFleet(t), newServer(t)
		r := reconciler(t, f, s, c.kind, "w", nil)
		f.say("w:a", c.before...)
		f.pass(time.Minute)
		f.say("w:a", "recover")
		n := f.count()
		f.pass(time.Minute)
		s.tell(list(c.session))
		report := mustPoll(t, r, "w")
		if got := f.since(n); !slices.Equal(got, []string{c.want}) || report.Confirmed != 1 || report.Changed != 0 {
			t.Errorf("%v: got %q, %+v; want %q", c.before, got, report, c.want)
		}
		f.pass(time.Minute)
		if mustPoll(t, r, "w"); f.count() != n+1 {
			t.Errorf("%v: confirmed twice: %q", c.before, f.since(n))
		}
	}
}

func TestAfterARestartWhoHasNotBeenSpokenOfIsConfirmedBeforeAnybodyDoubts(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	f.say("w:quiet", `adopt{"state":"RUNNING"}`)
	f.say("w:stopped", "stop")
	f.pass(time.Hour)
	r := reconciler(t, f, s, "waha", "w", nil) // the restart
	f.pass(time.Second)
	f.say("w:heard", `adopt{"state":"RUNNING"}`)
	f.pass(time.Second)
	n := f.count()
	s.tell(list(wahaSession("quiet", "WORKING"), wahaSession("heard", "WORKING"), wahaSession("stopped", "STOPPED")))
	mustPoll(t, r, "w")
	f.pass(time.Minute)
	mustPoll(t, r, "w")
	if got, want := f.since(n), []string{"w:quiet: connection_ready noop"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAWebhookThatCameMeanwhileWins(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	r := reconciler(t, f, s, "waha", "w", nil)
	f.say("w:a", `adopt{"state":"RUNNING"}`)
	f.pass(time.Minute)
	s.tell(list(wahaSession("a", "WORKING"), wahaSession("new", "WORKING")))
	s.set(0, func() { // between the question and the answer
		f.pass(time.Second)
		f.say("w:a", "logout")
		f.say("w:new", "qr_received")
		f.pass(time.Second)
	})
	n := f.count()
	report := mustPoll(t, r, "w")
	if got := f.since(n + 2); len(got) > 0 || f.state("w:a") != "LOGGED_OUT" || f.state("w:new") != "QR_REQUIRED" {
		t.Errorf("published %q; %+v", got, report)
	}
	s.set(0, nil)
	f.pass(time.Minute)
	mustPoll(t, r, "w")
	if f.state("w:a") != "RUNNING" || f.state("w:new") != "RUNNING" {
		t.Errorf("the next list is not believed: %s, %s", f.state("w:a"), f.state("w:new"))
	}
}

func TestWhatIsSaidBetweenTwoTriggersOfAPollEndsIt(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	r := reconciler(t, f, s, "waha", "w", nil)
	f.say("w:a", `adopt{"state":"RUNNING"}`)
	f.pass(time.Minute)
	s.tell(list(wahaSession("a", "STARTING")))
	f.before = func(f *fleet, name string) {
		if name == "start" {
			f.say("w:a", "logout")
		}
	}
	mustPoll(t, r, "w")
	if got := f.state("w:a"); got != "LOGGED_OUT" {
		t.Errorf("the account is %s; the start of the poll was judged behind the logout", got)
	}
}

func TestAServersClockThatRunsAheadPutsThePollOff(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	r := reconciler(t, f, s, "waha", "w", nil)
	f.pass(time.Minute)
	f.say("w:a", `adopt{"state":"DISCONNECTED"}`)
	f.pass(-30 * time.Second)
	s.tell(list(wahaSession("a", "WORKING")))
	mustPoll(t, r, "w")
	if f.state("w:a") != "DISCONNECTED" {
		t.Error("a fact that is newer than the question was overruled")
	}
	f.pass(time.Minute)
	mustPoll(t, r, "w")
	if f.state("w:a") != "RUNNING" {
		t.Error("the next poll is not believed")
	}
}

func TestAServerIsGivenTimeToStop(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	r := reconciler(t, f, s, "waha", "w", nil)
	f.say("w:a", `adopt{"state":"RUNNING"}`)
	f.pass(time.Minute)
	f.say("w:a", "stop!")
	f.pass(20 * time.Second)
	s.tell(list(wahaSession("a", "WORKING")))
	mustPoll(t, r, "w")
	if f.state("w:a") != "STOPPED" {
		t.Error("the operator's stop was contradicted at once")
	}
	f.pass(time.Minute)
	mustPoll(t, r, "w")
	a, _ := f.Account(t.Context(), "w:a")
	if a.State != "RUNNING" || len(a.Conditions) != 1 || a.Conditions[0].Name != "unexpected_activity" {
		t.Errorf("it runs on, and nobody is told: %s %v", a.State, a.Conditions)
	}
}

func TestWhoVanishedIsStoppedAtTheSecondList(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	r := reconciler(t, f, s, "waha", "w", nil)
	f.say("w:gone", `adopt{"state":"RUNNING"}`)
	f.say("w:stays", `adopt{"state":"RUNNING"}`)
	f.say("w:stopped", "stop")
	f.say("other:gone", `adopt{"state":"RUNNING"}`)
	f.say("w:idle", `user_action_needed{"action":"x"}`)
	poll := func(answer string) []string {
		t.Helper()
		f.pass(time.Minute)
		s.tell(answer)
		n := f.count()
		_, _ = r.Poll(t.Context(), "w")
		return f.since(n)
	}
	without, with := list(wahaSession("stays", "WORKING")), list(wahaSession("stays", "WORKING"), wahaSession("gone", "WORKING"))
	for i, c := range []struct {
		answer string
		want   []string
	}{
		{without, nil}, {with, nil}, {without, nil}, // not in a row
		{"[]", nil}, {`{"error":"x"}`, nil}, {"nonsense", nil}, {"null", nil}, // say nothing, neither for nor against
		{without, []string{"w:gone: RUNNING -> STOPPED via stop (vanished)"}},
		{without, nil}, {without, nil},
		{with, []string{"w:gone: STOPPED -> CONNECTING via start ends unexpected_stop", "w:gone: CONNECTING -> RUNNING via connection_ready"}},
	} {
		if got := poll(c.answer); !slices.Equal(got, c.want) {
			t.Errorf("poll %d: got %q, want %q", i+1, got, c.want)
		}
	}
}

func TestAListThatLacksMostOfAFleetIsNotBelieved(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	r := reconciler(t, f, s, "evolution", "w", nil)
	for i := range 10 {
		f.say(domain.AccountID(fmt.Sprintf("w:%d", i)), `adopt{"state":"RUNNING"}`)
	}
	n := f.count()
	s.tell(list(evo("1", "open", ""))) // the key of one instance instead of the server's
	for range 5 {
		f.pass(time.Minute)
		mustPoll(t, r, "w")
	}
	if got := f.since(n); len(got) > 0 {
		t.Errorf("published %q", got)
	}
}

func TestForgottenAccountsAndThoseOfAnotherProcessAreLeftAlone(t *testing.T) {
	f, s := newFleet(t), newServer(t)
	r := reconciler(t, f, s, "waha", "w", nil)
	f.say("w:forgotten", `adopt{"state":"RUNNING"}`, "forget")
	f.say("w:foreign", `adopt{"state":"RUNNING"}`)
	f.foreign["w:foreign"] = true
	n := f.count()
	s.tell(list(wahaSession("forgotten", "STOPPED"), wahaSession("foreign", "STOPPED")))
	for range 3 {
		f.pass(time.Minute)
		mustPoll(t, r, "w")
	}
	if got := f.since(n); len(got) > 0 {
		t.Errorf("published %q", got)
	}
	if f.looked["w:foreign"] != 1 {
		t.Errorf("an account of another process was read from the log %d times", f.looked["w:foreign"])
	}
}
