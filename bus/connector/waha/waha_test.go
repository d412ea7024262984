package waha_test

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/waha"
	"github.com/musterhq/muster/domain"
)

func TestRecordedSequences(t *testing.T) {
	connectortest.Play(t, waha.New(), "../connectortest/testdata/waha")
}

var (
	source = &connector.Source{Kind: "waha", Name: "w1", Secrets: []string{"old", "key"}}
	noon   = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC).UnixNano() // 1767614400 s
)

func signed(body string) *connector.Request {
	mac := hmac.New(sha512.New, []byte("key"))
	mac.Write([]byte(body))
	h := http.Header{}
	h.Set("X-Webhook-Hmac", hex.EncodeToString(mac.Sum(nil)))
	h.Set("X-Webhook-Hmac-Algorithm", "sha512")
	h.Set("X-Webhook-Request-Id", "req-1")
	return &connector.Request{Method: http.MethodPost, Header: h, Body: []byte(body), At: noon}
}

// in is an account in a state; "" is one without events.
func in(state string) *domain.Account {
	if state == "" {
		return nil
	}
	return &domain.Account{ID: "w1:s", Machine: "whatsapp@2", State: state, Version: 3}
}

const everyState = "IDLE CONNECTING QR_REQUIRED SYNCING RUNNING DEGRADED DISCONNECTED RECONNECTING LOGGED_OUT STOPPED"

type row struct {
	states string // space between; none = an account without events
	body   string
	want   string
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		states := strings.Fields(r.states)
		if len(states) == 0 {
			states = []string{""}
		}
		for _, state := range states {
			got := strings.Join(connectortest.Say(t, waha.New(), source, signed(r.body), in(state)), "\n")
			if got != r.want {
				t.Errorf("in %q: %s\n got %s\nwant %s", state, r.body, got, r.want)
			}
		}
	}
}

func status(status, me string) string {
	return `{"id":"evt_1","timestamp":1767614400000,"event":"session.status","session":"s","me":` + me + `,"payload":{"name":"s","status":"` + status + `"}}`
}

const somebody = `{"id":"15550100001@c.us","pushName":"Shop One"}`

func TestStatuses(t *testing.T) {
	check(t, []row{
		{"SYNCING RUNNING DEGRADED", status("STARTING", "null"), "w1:s [evt_1] connection_lost; start"},
		{"IDLE CONNECTING QR_REQUIRED DISCONNECTED RECONNECTING LOGGED_OUT STOPPED", status("STARTING", "null"), "w1:s [evt_1] start"},
		{"", status("STARTING", "null"), "w1:s [evt_1] start"},
		{everyState, status("SCAN_QR_CODE", "null"), "w1:s [evt_1] qr_received"},
		{"", status("SCAN_QR_CODE", "null"), "w1:s [evt_1] qr_received"},
		{"", status("WORKING", somebody), `w1:s [evt_1] adopt data={"state":"RUNNING"}`},
		{"IDLE", status("WORKING", somebody), `w1:s [evt_1] adopt data={"state":"RUNNING"}`},
		{"", status("WORKING", "null"), "w1:s [evt_1] connection_ready"},
		{"", status("WORKING", `{"id":""}`), "w1:s [evt_1] connection_ready"},
		{"", status("WORKING", `{"pushName":"Shop One"}`), "w1:s [evt_1] connection_ready"},
		{"CONNECTING QR_REQUIRED SYNCING RUNNING DEGRADED DISCONNECTED RECONNECTING LOGGED_OUT STOPPED", status("WORKING", somebody), "w1:s [evt_1] connection_ready"},
		{everyState, status("STOPPED", "null"), "w1:s [evt_1] stop"},
		{"", status("STOPPED", "null"), "w1:s [evt_1] stop"},
		{"QR_REQUIRED", status("FAILED", "null"), "w1:s [evt_1] qr_expired code=FAILED"},
		{"CONNECTING RECONNECTING DISCONNECTED", status("FAILED", "null"), "w1:s [evt_1] reconnect_failed code=FAILED"},
		{"SYNCING RUNNING DEGRADED LOGGED_OUT STOPPED", status("FAILED", "null"), "w1:s [evt_1] connection_lost code=FAILED"},
		{"", status("FAILED", "null"), `w1:s [evt_1] adopt code=FAILED data={"state":"DISCONNECTED"}`},
		{"", status("PASSKEY_REQUIRED", "null"), `w1:s [evt_1] qr_received; user_action_needed data={"action":"passkey"}`},
		{"CONNECTING QR_REQUIRED RUNNING", status("PASSKEY_REQUIRED", "null"), `w1:s [evt_1] user_action_needed data={"action":"passkey"}`},
		{"", status("PASSKEY_CONFIRMATION_REQUIRED", "null"), `w1:s [evt_1] qr_received; user_action_needed data={"action":"passkey_confirmation"}`},
		{"SYNCING", status("PASSKEY_CONFIRMATION_REQUIRED", "null"), `w1:s [evt_1] user_action_needed data={"action":"passkey_confirmation"}`},
	})
}

func history(status, points string) string {
	return `{"id":"evt_1","timestamp":1767614399000,"event":"session.status","session":"s","payload":{"status":"` + status + `","statuses":` + points + `}}`
}

func TestTheHistoryGivesTimeEpochAndSequence(t *testing.T) {
	check(t, []row{
		// STARTING itself is number 1 of its connection; the loss before it has no epoch.
		{"RUNNING", history("STARTING", `[{"status":"WORKING","timestamp":1767614390000},{"status":"STARTING","timestamp":1767614395000}]`),
			"w1:s [evt_1] connection_lost at=2026-01-05T11:59:55Z; start epoch=1767614395000 seq=1 at=2026-01-05T11:59:55Z"},
		{"CONNECTING", history("WORKING", `[{"status":"STARTING","timestamp":1767614395000},{"status":"WORKING","timestamp":1767614400000}]`),
			"w1:s [evt_1] connection_ready epoch=1767614395000 seq=5001"},
		// The latest STARTING counts.
		{"CONNECTING", history("SCAN_QR_CODE", `[{"status":"STARTING","timestamp":1767614300000},{"status":"STARTING","timestamp":1767614395000},{"status":"SCAN_QR_CODE","timestamp":1767614395500}]`),
			"w1:s [evt_1] qr_received epoch=1767614395000 seq=501 at=2026-01-05T11:59:55.5Z"},
		// Of several points of the status, the latest is its own.
		{"QR_REQUIRED", history("SCAN_QR_CODE", `[{"status":"STARTING","timestamp":1767614300000},{"status":"SCAN_QR_CODE","timestamp":1767614310000},{"status":"SCAN_QR_CODE","timestamp":1767614400000}]`),
			"w1:s [evt_1] qr_received epoch=1767614300000 seq=100001"},
		// No STARTING among the points: ordered by time alone.
		{"QR_REQUIRED", history("FAILED", `[{"status":"SCAN_QR_CODE","timestamp":1767614390000},{"status":"FAILED","timestamp":1767614400000}]`),
			"w1:s [evt_1] qr_expired code=FAILED"},
		// Its own point is missing: the time of the event.
		{"RUNNING", history("STOPPED", `[{"status":"STARTING","timestamp":1767614390000},{"status":"WORKING","timestamp":1767614395000}]`),
			"w1:s [evt_1] stop epoch=1767614390000 seq=9001 at=2026-01-05T11:59:59Z"},
		// A STARTING after the status began the next connection, not its own.
		{"RUNNING", history("STOPPED", `[{"status":"WORKING","timestamp":1767614380000},{"status":"STOPPED","timestamp":1767614390000},{"status":"STARTING","timestamp":1767614391000}]`),
			"w1:s [evt_1] stop at=2026-01-05T11:59:50Z"},
		// Fresh and told of a passkey: two triggers of one connection, one number.
		{"", history("PASSKEY_REQUIRED", `[{"status":"STARTING","timestamp":1767614395000},{"status":"PASSKEY_REQUIRED","timestamp":1767614400000}]`),
			`w1:s [evt_1] qr_received epoch=1767614395000 seq=5001; user_action_needed epoch=1767614395000 data={"action":"passkey"}`},
		// Points that are none are skipped.
		{"RUNNING", history("STOPPED", `[null,7,"x",{"status":"STARTING"},{"status":"STARTING","timestamp":"soon"},{"status":5,"timestamp":1767614400000},{"status":"STARTING","timestamp":99999999999999999999}]`),
			"w1:s [evt_1] stop at=2026-01-05T11:59:59Z"},
		{"RUNNING", history("STOPPED", `"none"`), "w1:s [evt_1] stop at=2026-01-05T11:59:59Z"},
		{"RUNNING", history("STOPPED", `[{"status":"STARTING","timestamp":"1767614395000"},{"status":"STOPPED","timestamp":"1767614400000"}]`), "w1:s [evt_1] stop epoch=1767614395000 seq=5001"},
	})
}

func engine(event, data string) string {
	return `{"id":"evt_2","timestamp":1767614400000,"event":"engine.event","session":"s","payload":{"event":"` + event + `","data":` + data + `}}`
}

func closed(code string) string {
	return engine("connection.update", `{"connection":"close","lastDisconnect":{"error":{"output":{"statusCode":`+code+`}}}}`)
}

func TestEngineEvents(t *testing.T) {
	check(t, []row{
		{"", engine("events.LoggedOut", `{"OnConnect":true,"Reason":403}`), `w1:s [evt_2] adopt by=remote code=403 data={"state":"LOGGED_OUT"}`},
		{"RUNNING DISCONNECTED STOPPED LOGGED_OUT", engine("events.LoggedOut", `{"OnConnect":false,"Reason":401}`), "w1:s [evt_2] logout by=remote code=401"},
		{"RUNNING", closed("401"), "w1:s [evt_2] logout by=remote code=401"},
		{"CONNECTING", closed(`"403"`), "w1:s [evt_2] logout by=remote code=403"},
		{"", closed("406"), `w1:s [evt_2] adopt by=remote code=406 data={"state":"LOGGED_OUT"}`},
		{"RUNNING", closed("402"), "w1:s [evt_2] banned code=402"},
		{"RUNNING", closed("405"), "w1:s [evt_2] connect_refused code=405"},
		{"RUNNING", closed("440"), "w1:s [evt_2] connection_replaced code=440"},
		{"", closed("440"), `w1:s [evt_2] adopt code=440 data={"state":"DISCONNECTED"}; connection_replaced code=440`},
		{"RUNNING", closed("428"), "w1:s [evt_2] nothing"},
		{"RUNNING", closed("515"), "w1:s [evt_2] nothing"},
		{"RUNNING", engine("connection.update", `{"connection":"close"}`), "w1:s [evt_2] nothing"},
		{"RUNNING", engine("connection.update", `{"connection":"open"}`), "w1:s [evt_2] nothing"},
		{"RUNNING", engine("connection.update", `{"qr":"2@secret"}`), "w1:s [evt_2] nothing"},
		{"RUNNING", engine("events.TemporaryBan", `{"Code":104,"Expire":3600000000000}`), `w1:s [evt_2] banned code=104 data={"until":"2026-01-05T13:00:00Z"}`},
		{"RUNNING", engine("events.TemporaryBan", `{"Code":104,"Expire":0}`), "w1:s [evt_2] banned code=104"},
		{"RUNNING", engine("events.TemporaryBan", `{"Code":104,"Expire":9223372036854775807}`), "w1:s [evt_2] banned code=104"},
		{"", engine("events.TemporaryBan", `{"Code":101}`), `w1:s [evt_2] adopt code=101 data={"state":"DISCONNECTED"}; banned code=101`},
		{"RUNNING", engine("events.StreamReplaced", `{}`), "w1:s [evt_2] connection_replaced"},
		{"", engine("events.StreamReplaced", `null`), `w1:s [evt_2] adopt data={"state":"DISCONNECTED"}; connection_replaced`},
		{"RUNNING", engine("events.ClientOutdated", `{}`), "w1:s [evt_2] connect_refused code=405"},
		{"CONNECTING", engine("events.ConnectFailure", `{"Reason":415,"Message":"x"}`), "w1:s [evt_2] connect_refused code=415"},
		{"RUNNING", engine("events.NotifyAccountReachoutTimelock", `{"is_active":true,"time_enforcement_ends":"1767722400","enforcement_type":"BIZ_QUALITY"}`),
			`w1:s [evt_2] restricted code=BIZ_QUALITY data={"scope":"new_chats","until":"2026-01-06T18:00:00Z"}`},
		{"RUNNING", engine("events.NotifyAccountReachoutTimelock", `{"is_active":true,"time_enforcement_ends":1767722400}`), `w1:s [evt_2] restricted data={"scope":"new_chats","until":"2026-01-06T18:00:00Z"}`},
		{"RUNNING", engine("events.NotifyAccountReachoutTimelock", `{"is_active":true}`), `w1:s [evt_2] restricted data={"scope":"new_chats"}`},
		{"DISCONNECTED", engine("events.NotifyAccountReachoutTimelock", `{"is_active":false,"time_enforcement_ends":"1767722400"}`), `w1:s [evt_2] restriction_lifted data={"scope":"new_chats"}`},
		{"RUNNING", engine("events.NotifyAccountReachoutTimelock", `{}`), `w1:s [evt_2] restriction_lifted data={"scope":"new_chats"}`},
		{"", engine("events.NotifyAccountReachoutTimelock", `{"is_active":true}`), "w1:s [evt_2] nothing"},
		{"IDLE", engine("events.NotifyAccountReachoutTimelock", `{}`), "w1:s [evt_2] nothing"},
		{"RUNNING", engine("events.Connected", `{}`), "ignored"},
		{"RUNNING", engine("whatsmeow.QRChannelItem", `{"Event":"code","Code":"2@secret"}`), "ignored"},
	})
}

func TestAnEngineEventBelongsToTheConnectionThatItIsNotOlderThan(t *testing.T) {
	for epoch, want := range map[int64]string{
		1767614399999: "w1:s [evt_2] logout epoch=1767614399999 by=remote code=401",
		1767614400000: "w1:s [evt_2] logout epoch=1767614400000 by=remote code=401",
		1767614400001: "w1:s [evt_2] logout by=remote code=401",
		0:             "w1:s [evt_2] logout by=remote code=401",
	} {
		a := in("DISCONNECTED")
		a.Epoch, a.Seq = epoch, 7
		got := connectortest.Say(t, waha.New(), source, signed(engine("events.LoggedOut", `{"Reason":401}`)), a)
		if len(got) != 1 || got[0] != want {
			t.Errorf("epoch %d: got %v, want %s", epoch, got, want)
		}
	}
}
