package mautrix_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/mautrix"
	"github.com/musterhq/muster/domain"
)

func TestSequences(t *testing.T) {
	connectortest.Play(t, mautrix.New(), "../connectortest/testdata/mautrix")
}

var source = &connector.Source{Kind: "mautrix", Name: "m1", Secrets: []string{"tok"}}

const arrival = 1767614460 * 1e9

func request(body string) *connector.Request {
	return &connector.Request{Method: http.MethodPost, Header: http.Header{"Authorization": {"Bearer tok"}}, Body: []byte(body), At: arrival}
}

// login is a pushed state of a login at 12:00:00.
func login(state, rest string) string {
	return `{"state_event":"` + state + `","timestamp":1767614400,"ttl":21600,"source":"bridge","user_id":"@ops:example.org","remote_id":"155"` + rest + `}`
}

var (
	hash = regexp.MustCompile(`\[state/[0-9a-f]{32}\]`)
	at   = " at=2026-01-05T12:00:00Z"
)

func say(t *testing.T, a *domain.Account, body string) string {
	t.Helper()
	got := connectortest.Say(t, mautrix.New(), source, request(body), a)
	return strings.ReplaceAll(hash.ReplaceAllString(strings.Join(got, "\n"), "[h]"), at, "")
}

const everyState = "IDLE CONNECTING QR_REQUIRED SYNCING RUNNING DEGRADED DISCONNECTED RECONNECTING LOGGED_OUT STOPPED"

// fresh is an account without events, in the lists of states below.
const fresh = "none"

type row struct{ states, body, want string }

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		for _, state := range strings.Fields(r.states) {
			var a *domain.Account
			if state != fresh {
				a = &domain.Account{ID: "m1:155", Machine: "whatsapp@2", State: state, Version: 3}
			}
			if got := say(t, a, r.body); got != r.want {
				t.Errorf("in %s: %s\n got %s\nwant %s", state, r.body, got, r.want)
			}
		}
	}
}

func TestConnecting(t *testing.T) {
	check(t, []row{
		{"SYNCING RUNNING DEGRADED", login("CONNECTING", ""), "m1:155 [h] connection_lost; start"},
		{fresh + " IDLE CONNECTING QR_REQUIRED DISCONNECTED RECONNECTING LOGGED_OUT STOPPED", login("CONNECTING", `,"error":"wa-connecting"`), "m1:155 [h] start code=wa-connecting"},
		{"CONNECTING QR_REQUIRED SYNCING RUNNING DEGRADED RECONNECTING", login("BACKFILLING", ""), "m1:155 [h] qr_scanned"},
		{fresh + " IDLE DISCONNECTED LOGGED_OUT STOPPED", login("BACKFILLING", ""), "m1:155 [h] start; qr_scanned"},
	})
}

func TestConnected(t *testing.T) {
	const adopted = `m1:155 [h] adopt data={"state":"RUNNING"}`
	const lock = `,"info":{"reachout_timelock_until":"2026-01-09T12:00:00Z"}`
	const locked = `restricted data={"scope":"new_chats","until":"2026-01-09T12:00:00Z"}`
	check(t, []row{
		{fresh + " IDLE", login("CONNECTED", `,"remote_name":"+155"`), adopted},
		{fresh, login("CONNECTED", `,"remote_profile":{"phone":"+155"}`), adopted},
		{fresh, login("CONNECTED", `,"remote_profile":{"name":"Shop"}`), adopted},
		{fresh + " IDLE", login("CONNECTED", ""), "m1:155 [h] connection_ready"},
		{fresh, login("CONNECTED", `,"remote_name":"","remote_profile":{"phone":null}`), "m1:155 [h] connection_ready"},
		{fresh, login("CONNECTED", lock), "m1:155 [h] connection_ready"}, // it is not believed
		{fresh, login("CONNECTED", `,"remote_name":"+155"`+lock), adopted + "; " + locked},
		{"CONNECTING QR_REQUIRED SYNCING RUNNING DEGRADED DISCONNECTED RECONNECTING LOGGED_OUT STOPPED", login("CONNECTED", ""), "m1:155 [h] connection_ready"},
		{"RUNNING DISCONNECTED", login("CONNECTED", lock), "m1:155 [h] connection_ready; " + locked},
		{"RUNNING", login("CONNECTED", `,"info":{"reachout_timelock_until":1767960000}`), "m1:155 [h] connection_ready; " + locked},
		{"RUNNING", login("CONNECTED", `,"info":{"reachout_timelock_until":"soon"}`), "m1:155 [h] connection_ready"},
		{"RUNNING", login("CONNECTED", `,"info":[]`), "m1:155 [h] connection_ready"},
	})
	a := &domain.Account{State: "RUNNING", Conditions: []domain.Condition{{Name: "restricted", Scope: "replies"}}}
	if got := say(t, a, login("CONNECTED", "")); got != "m1:155 [h] connection_ready" {
		t.Errorf("restricted in another scope: %s", got)
	}
	a.Conditions = append(a.Conditions, domain.Condition{Name: "restricted", Scope: "new_chats"})
	if got := say(t, a, login("CONNECTED", "")); got != `m1:155 [h] connection_ready; restriction_lifted data={"scope":"new_chats"}` {
		t.Errorf("the restriction is over: %s", got)
	}
	if got := say(t, a, login("CONNECTED", lock)); got != "m1:155 [h] connection_ready; "+locked {
		t.Errorf("the restriction goes on: %s", got)
	}
}

func TestLosses(t *testing.T) {
	failure := func(code string) string { return login("UNKNOWN_ERROR", `,"error":"`+code+`"`) }
	transient := func(code string) string { return login("TRANSIENT_DISCONNECT", `,"error":"`+code+`"`) }
	const adopted = `m1:155 [h] adopt code=`
	const known = "CONNECTING QR_REQUIRED SYNCING RUNNING DEGRADED DISCONNECTED RECONNECTING LOGGED_OUT STOPPED"
	check(t, []row{
		{known, transient("wa-transient-disconnect"), "m1:155 [h] connection_lost code=wa-transient-disconnect"},
		{fresh + " IDLE", transient("x"), adopted + `x data={"state":"DISCONNECTED"}`},
		{"RUNNING", login("TRANSIENT_DISCONNECT", `,"message":"gone"`), "m1:155 [h] connection_lost text=gone"},

		{"RUNNING DEGRADED", transient("wa-keepalive-timeout"), "m1:155 [h] probe_failed code=wa-keepalive-timeout"},
		{fresh + " IDLE CONNECTING QR_REQUIRED SYNCING DISCONNECTED RECONNECTING LOGGED_OUT STOPPED", transient("wa-keepalive-timeout"), "m1:155 [h] nothing"},
		{known, transient("wa-phone-offline"), `m1:155 [h] user_action_needed code=wa-phone-offline data={"action":"open_phone"}`},
		{fresh + " IDLE", transient("wa-phone-offline"),
			adopted + `wa-phone-offline data={"state":"RUNNING"}; user_action_needed code=wa-phone-offline data={"action":"open_phone"}`},

		{known, login("BAD_CREDENTIALS", `,"error":"wa-main-device-gone"`), "m1:155 [h] logout by=unknown code=wa-main-device-gone"},
		{fresh, login("BAD_CREDENTIALS", `,"error":"wa-logged-out"`), `m1:155 [h] adopt by=unknown code=wa-logged-out data={"state":"LOGGED_OUT"}`},
		{known, login("BAD_CREDENTIALS", `,"error":"wa-temporary-ban"`), "m1:155 [h] banned code=wa-temporary-ban"},
		{fresh, login("BAD_CREDENTIALS", `,"error":"wa-temporary-ban"`), adopted + `wa-temporary-ban data={"state":"DISCONNECTED"}; banned code=wa-temporary-ban`},
		{known, login("LOGGED_OUT", ""), "m1:155 [h] logout by=user"},
		{fresh, login("LOGGED_OUT", ""), `m1:155 [h] adopt by=user data={"state":"LOGGED_OUT"}`},

		{known, failure("wa-stream-replaced"), "m1:155 [h] connection_replaced code=wa-stream-replaced"},
		{fresh, failure("wa-stream-replaced"), adopted + `wa-stream-replaced data={"state":"DISCONNECTED"}; connection_replaced code=wa-stream-replaced`},
		{known, failure("wa-client-outdated"), `m1:155 [h] connect_refused code=wa-client-outdated data={"code":"405"}`},
		{known, failure("wa-connect-failure-503"), `m1:155 [h] connect_refused code=wa-connect-failure-503 data={"code":"503"}`},
		{fresh, failure("wa-connect-failure-400"), adopted + `wa-connect-failure-400 data={"state":"DISCONNECTED"}; connect_refused code=wa-connect-failure-400 data={"code":"400"}`},
		{"RUNNING", failure("wa-connect-failure-"), "m1:155 [h] connection_lost code=wa-connect-failure-"},
		{"CONNECTING RECONNECTING DISCONNECTED", failure("wa-connection-failed"), "m1:155 [h] reconnect_failed code=wa-connection-failed"},
		{"QR_REQUIRED SYNCING RUNNING DEGRADED LOGGED_OUT STOPPED", failure("wa-connection-failed"), "m1:155 [h] connection_lost code=wa-connection-failed"},
		{fresh, failure("wa-connection-failed"), adopted + `wa-connection-failed data={"state":"DISCONNECTED"}`},
		{known, failure("wa-stream-error"), "m1:155 [h] connection_lost code=wa-stream-error"},
		{known, login("UNKNOWN_ERROR", ""), "m1:155 [h] connection_lost"},
	})
}

func TestStatesOfTheBridge(t *testing.T) {
	bridge := func(state string) string { return `{"state_event":"` + state + `","timestamp":1767614400}` }
	check(t, []row{
		{everyState, bridge("STARTING"), "ignored"}, {everyState, bridge("UNCONFIGURED"), "ignored"}, {everyState, bridge("RUNNING"), "ignored"},
		{"RUNNING DEGRADED", bridge("BRIDGE_UNREACHABLE"), " [h] probe_failed"},
		{"RUNNING", login("BRIDGE_UNREACHABLE", ""), "m1:155 [h] probe_failed"},
		{"DISCONNECTED", login("BRIDGE_UNREACHABLE", ""), "m1:155 [h] nothing"},
	})
	list, err := mautrix.New().Read(t.Context(), source, nil, request(bridge("BRIDGE_UNREACHABLE")))
	if err != nil || len(list) != 1 || list[0].Of == nil || !list[0].Newest {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, state := range strings.Fields(everyState) {
		want := state == "RUNNING" || state == "DEGRADED"
		if got := list[0].Of(&domain.Account{State: state}); got != want {
			t.Errorf("%s is asked: %v", state, got)
		}
	}
}

func TestWhatIsNotKnown(t *testing.T) {
	check(t, []row{
		{"RUNNING", login("HIBERNATING", `,"message":"secret","remote_name":"secret"`), `unmapped: state_event "HIBERNATING" map[remote_id:155 state_event:HIBERNATING timestamp:1767614400]`},
		{"RUNNING", login("connected", ""), `unmapped: state_event "connected" map[remote_id:155 state_event:connected timestamp:1767614400]`},
		{"RUNNING", `{"state_event":"CONNECTED","remote_name":"secret"}`, `unmapped: a state without a login "CONNECTED" map[state_event:CONNECTED]`},
		{"RUNNING", `{"state_event":"LOGGED_OUT","remote_id":""}`, `unmapped: a state without a login "LOGGED_OUT" map[remote_id: state_event:LOGGED_OUT]`},
		{"RUNNING", `{"state_event":"LOGGED_OUT","remote_id":"a\u0007"}`, "unmapped: a state without a login \"LOGGED_OUT\" map[remote_id:a\x07 state_event:LOGGED_OUT]"},
		{"RUNNING", `{"stateEvent":"CONNECTED","remote_id":"155"}`, "unmapped: state_event map[remote_id:155]"},
		{"RUNNING", `{"state_event":["CONNECTED"],"remote_id":"155"}`, "unmapped: state_event map[remote_id:155]"},
		{"RUNNING", `{}`, "unmapped: state_event map[]"},
	})
}

func TestIDsAreOfTheWholeState(t *testing.T) {
	id := func(body string) string {
		list, err := mautrix.New().Read(t.Context(), source, nil, request(body))
		if err != nil || len(list) != 1 || !list[0].Newest {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].ID
	}
	one := id(login("CONNECTED", ""))
	if id(login("CONNECTED", "")) != one {
		t.Error("a repeat has another id")
	}
	for _, other := range []string{login("CONNECTED", `,"remote_name":"x"`), login("LOGGED_OUT", ""), strings.Replace(login("CONNECTED", ""), "400", "401", 1)} {
		if id(other) == one {
			t.Errorf("%s has the same id", other)
		}
	}
}

func TestTimes(t *testing.T) {
	for body, want := range map[string]string{
		`{"state_event":"LOGGED_OUT","remote_id":155,"timestamp":"1767614400"}`: "m1:155 [h] logout by=user",
		`{"state_event":"LOGGED_OUT","remote_id":"155"}`:                        "m1:155 [h] logout by=user",
		`{"state_event":"LOGGED_OUT","remote_id":"155","timestamp":"today"}`:    "m1:155 [h] logout by=user",
		`{"state_event":"LOGGED_OUT","remote_id":"155","timestamp":1767614401}`: "m1:155 [h] logout by=user at=2026-01-05T12:00:01Z",
	} {
		if got := say(t, &domain.Account{State: "RUNNING"}, body); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
}

func TestUnreadableBodies(t *testing.T) {
	for _, body := range []string{"", "x", "[]", "7", `{"state_event":`} {
		if _, err := mautrix.New().Read(t.Context(), source, nil, request(body)); err == nil {
			t.Errorf("%q was read", body)
		}
	}
}

func TestProof(t *testing.T) {
	for token, want := range map[string]bool{"Bearer tok": true, "Bearer tok2": false, "Basic tok": false, "": false} {
		err := mautrix.New().Authentic(source, &connector.Request{Header: http.Header{"Authorization": {token}}})
		if (err == nil) != want {
			t.Errorf("%q: %v", token, err)
		}
	}
}
