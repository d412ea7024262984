package wuzapi_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/wuzapi"
	"github.com/musterhq/muster/domain"
)

func TestRecordedSequences(t *testing.T) {
	connectortest.Play(t, wuzapi.New(), "../connectortest/testdata/wuzapi")
}

var (
	source = &connector.Source{Kind: "wuzapi", Name: "z1", Secrets: []string{"old", "key"}}
	noon   = time.Date(2026, 1, 9, 12, 0, 0, 0, time.UTC).UnixNano()
)

func signed(contentType, body, key string) *connector.Request {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	h := http.Header{}
	h.Set("x-hmac-signature", hex.EncodeToString(mac.Sum(nil)))
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	return &connector.Request{Method: http.MethodPost, Header: h, Body: []byte(body), At: noon}
}

// in is an account in a state; "" is one without events.
func in(state string) *domain.Account {
	if state == "" {
		return nil
	}
	return &domain.Account{ID: "z1:u", Machine: "whatsapp@2", State: state, Version: 3}
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
			got := strings.Join(connectortest.Say(t, wuzapi.New(), source, signed("application/json", r.body, "key"), in(state)), "\n")
			if got != r.want {
				t.Errorf("in %q: %s\n got %s\nwant %s", state, r.body, got, r.want)
			}
		}
	}
}

func event(kind, data string) string {
	return `{"event":` + data + `,"type":"` + kind + `","qrCodeBase64":"secret","instanceName":"shop","userID":"u","token":"secret"}`
}

func TestSessionEvents(t *testing.T) {
	const adopt = `adopt data={"state":"DISCONNECTED"}`
	check(t, []row{
		{everyState, event("QR", `"code"`), "z1:u [] qr_received"},
		{"", event("QR", `"code"`), "z1:u [] qr_received"},
		{"QR_REQUIRED STOPPED", event("QRTimeout", `"timeout"`), "z1:u [] qr_expired"},
		{"", event("QRTimeout", `"timeout"`), "z1:u [] nothing"},
		{"SYNCING QR_REQUIRED", event("PairError", `{"Error":"secret"}`), "z1:u [] pair_failed"},
		{"IDLE", event("PairError", `{}`), "z1:u [] nothing"},
		{"IDLE DISCONNECTED LOGGED_OUT STOPPED", event("PairSuccess", `{"ID":"155:7@s.whatsapp.net","BusinessName":"secret"}`), "z1:u [] start; qr_scanned"},
		{"", event("PairSuccess", `{}`), "z1:u [] start; qr_scanned"},
		{"CONNECTING QR_REQUIRED SYNCING RUNNING DEGRADED RECONNECTING", event("PairSuccess", `{}`), "z1:u [] qr_scanned"},
		{"", event("Connected", `{}`), `z1:u [] adopt data={"state":"RUNNING"}`},
		{"IDLE", event("Connected", `null`), `z1:u [] adopt data={"state":"RUNNING"}`},
		{"SYNCING RUNNING DISCONNECTED LOGGED_OUT", event("Connected", `{}`), "z1:u [] connection_ready"},
		{"SYNCING RUNNING", event("OfflineSyncCompleted", `{"Count":3}`), "z1:u [] sync_completed"},
		{"", event("OfflineSyncCompleted", `{}`), "z1:u [] nothing"},
		{"RUNNING STOPPED", event("Disconnected", `{}`), "z1:u [] connection_lost"},
		{"", event("Disconnected", `{}`), "z1:u [] " + adopt},
		{"RUNNING", event("StreamError", `{"Code":"516","Raw":"secret"}`), "z1:u [] connection_lost code=516"},
		{"RUNNING", event("LoggedOut", `{"OnConnect":false,"Reason":0}`), "z1:u [] logout by=remote code=401"},
		{"CONNECTING", event("LoggedOut", `{"OnConnect":true,"Reason":403}`), "z1:u [] logout by=remote code=403"},
		{"RUNNING", event("LoggedOut", `{}`), "z1:u [] logout by=remote code=401"},
		{"", event("LoggedOut", `{"Reason":406}`), `z1:u [] adopt by=remote code=406 data={"state":"LOGGED_OUT"}`},
		{"CONNECTING RUNNING", event("ConnectFailure", `{"Reason":415,"Message":"secret"}`), "z1:u [] connect_refused code=415"},
		{"", event("ConnectFailure", `{"Reason":"409"}`), `z1:u [] adopt code=409 data={"state":"DISCONNECTED"}; connect_refused code=409`},
		{"CONNECTING RECONNECTING DISCONNECTED", event("ConnectFailure", `"ConnectFailure"`), "z1:u [] reconnect_failed"},
		{"QR_REQUIRED SYNCING RUNNING DEGRADED LOGGED_OUT STOPPED", event("ConnectFailure", `"ConnectFailure"`), "z1:u [] connection_lost"},
		{"", event("ConnectFailure", `"ConnectFailure"`), "z1:u [] " + adopt},
		{"RUNNING", event("ClientOutdated", `{}`), "z1:u [] connect_refused code=405"},
		{"RUNNING", event("TemporaryBan", `{"Code":104,"Expire":3600000000000}`), `z1:u [] banned code=104 data={"until":"2026-01-09T13:00:00Z"}`},
		{"RUNNING", event("TemporaryBan", `{"Code":104,"Expire":0}`), "z1:u [] banned code=104"},
		{"RUNNING", event("TemporaryBan", `{"Code":104,"Expire":9223372036854775807}`), "z1:u [] banned code=104"},
		{"RUNNING", event("TemporaryBan", `{"Code":104,"Expire":1e400}`), "z1:u [] banned code=104"},
		{"", event("TemporaryBan", `{"Expire":60000000000}`), `z1:u [] adopt data={"state":"DISCONNECTED"}; banned data={"until":"2026-01-09T12:01:00Z"}`},
		{"RUNNING", event("StreamReplaced", `{}`), "z1:u [] connection_replaced"},
		{"", event("StreamReplaced", `{}`), "z1:u [] " + adopt + "; connection_replaced"},
		{"RUNNING DISCONNECTED", event("KeepAliveTimeout", `{"ErrorCount":1}`), "z1:u [] probe_failed"},
		{"DEGRADED", event("KeepAliveRestored", `{}`), "z1:u [] probe_ok"},
		{"IDLE", event("KeepAliveTimeout", `{}`), "z1:u [] nothing"},
		{"", event("KeepAliveRestored", `{}`), "z1:u [] nothing"},
	})
}

func receipt(state, chat, more string) string {
	return `{"event":{"Chat":"` + chat + `","IsGroup":false,"MessageIDs":["m2","m1"],"Timestamp":"2026-01-09T11:59:40Z"` + more + `},"type":"ReadReceipt","state":"` + state + `","userID":"u"}`
}

func TestReceiptsAndMessages(t *testing.T) {
	const person = "155@s.whatsapp.net"
	check(t, []row{
		{everyState, receipt("Delivered", person, ""), "z1:u [rcpt/m2/Delivered] message_delivered key=m2 at=2026-01-09T11:59:40Z\nz1:u [rcpt/m1/Delivered] message_delivered key=m1 at=2026-01-09T11:59:40Z"},
		{"", receipt("Read", "1000@lid", ""), "z1:u [rcpt/m2/Read] message_read key=m2 at=2026-01-09T11:59:40Z\nz1:u [rcpt/m1/Read] message_read key=m1 at=2026-01-09T11:59:40Z"},
		{"RUNNING", receipt("Read", person, `,"Timestamp":"soon","MessageIDs":["m1"]`), "z1:u [rcpt/m1/Read] message_read key=m1"},
		{"RUNNING", receipt("Read", person, `,"MessageIDs":["m1",{"x":"secret"}]`),
			"z1:u [rcpt/m1/Read] message_read key=m1 at=2026-01-09T11:59:40Z\nunmapped: receipt for a message without an id map[state:Read type:ReadReceipt userID:u]"},
		{"RUNNING", receipt("ReadSelf", person, ""), "ignored"},
		{"RUNNING", receipt("Read", "1203@g.us", ""), "ignored"},
		{"RUNNING", receipt("Read", person, `,"IsGroup":true`), "ignored"},
		{"RUNNING", receipt("Delivered", "status@broadcast", ""), "ignored"},
		{"RUNNING", receipt("Eaten", person, ""), `unmapped: receipt "Eaten" map[state:Eaten type:ReadReceipt userID:u]`},
		{"RUNNING", receipt("Read", person, `,"MessageIDs":[]`), "unmapped: receipt without messages map[state:Read type:ReadReceipt userID:u]"},
		{"RUNNING", receipt("Read", person, `,"MessageIDs":"m1"`), "unmapped: receipt without messages map[state:Read type:ReadReceipt userID:u]"},
	})
	message := func(info, content string) string {
		return `{"event":{"Info":` + info + `,"Message":` + content + `},"type":"Message","base64":"secret","userID":"u"}`
	}
	const said = `{"conversation":"secret"}`
	check(t, []row{
		{everyState, message(`{"ID":"m7","Chat":"155@s.whatsapp.net","Sender":"155:2@s.whatsapp.net","IsFromMe":false,"IsGroup":false,"PushName":"secret","Timestamp":"2026-01-09T11:59:50Z"}`, said),
			`z1:u [msg/m7] customer_message key=155@s.whatsapp.net data={"message":"m7"} at=2026-01-09T11:59:50Z`},
		{"", message(`{"ID":"m7","Chat":"1000@lid","IsFromMe":false}`, said), `z1:u [msg/m7] customer_message key=1000@lid data={"message":"m7"}`},
		{"RUNNING", message(`{"ID":"m7","Chat":"155@s.whatsapp.net","IsFromMe":true}`, said), "ignored"},
		{"RUNNING", message(`{"ID":"m7","Chat":"1203@g.us","IsFromMe":false,"IsGroup":true}`, said), "ignored"},
		{"RUNNING", message(`{"ID":"m7","Chat":"status@broadcast","IsFromMe":false}`, said), "ignored"},
		{"RUNNING", message(`{"ID":"m7","Chat":"12@newsletter","IsFromMe":false}`, said), "ignored"},
		{"RUNNING", message(`{"ID":"m7","Chat":"155@s.whatsapp.net","IsFromMe":false}`, `{"reactionMessage":{"text":"secret"}}`), "ignored"},
		{"RUNNING", message(`{"Chat":"155@s.whatsapp.net","IsFromMe":false}`, said), "unmapped: message that lacks its id, its chat, or whose it is map[type:Message userID:u]"},
		{"RUNNING", message(`{"ID":"m7","Chat":"155@s.whatsapp.net"}`, said), "unmapped: message that lacks its id, its chat, or whose it is map[type:Message userID:u]"},
		{"RUNNING", message(`null`, said), "unmapped: message that lacks its id, its chat, or whose it is map[type:Message userID:u]"},
	})
}

func TestWhatIsOfNoInterestAndWhatIsNotKnown(t *testing.T) {
	for _, kind := range []string{"Presence", "ChatPresence", "HistorySync", "AppState", "AppStateSyncComplete", "OfflineSyncPreview", "CallOffer", "GroupInfo", "JoinedGroup", "Picture", "PushNameSetting", "Receipt",
		"UndecryptableMessage", "LabelEdit", "NewsletterJoin", "QRScannedWithoutMultidevice", "IdentityChange"} {
		check(t, []row{{"RUNNING", event(kind, `{"x":"secret"}`), "ignored"}})
	}
	check(t, []row{
		{"RUNNING", event("Teleported", `{"x":"secret"}`), `unmapped: event "Teleported" map[instanceName:shop type:Teleported userID:u]`},
		{"RUNNING", event("connected", `{}`), `unmapped: event "connected" map[instanceName:shop type:connected userID:u]`},
		{"RUNNING", `{"event":{},"type":"Connected"}`, `unmapped: event without an account "Connected" map[type:Connected]`},
		{"RUNNING", `{"userID":"u","type":{"a":1}}`, "unmapped: event map[userID:u]"},
	})
}

func TestWhoIsMeant(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	// printf tok | openssl dgst -sha256 -hmac key (or old)
	connected := url.QueryEscape(`{"event":{},"type":"Connected"}`)
	for name, c := range map[string]struct{ kind, body, key, want string }{
		"the user":                  {"application/json", `{"type":"Connected","userID":"u","instanceName":"shop","token":"tok"}`, "key", "z1:u"},
		"a user that is a number":   {"application/json; charset=utf-8", `{"type":"Connected","userID":17,"instanceName":"shop"}`, "key", "z1:17"},
		"else the instance":         {"application/json", `{"type":"Connected","userID":"","instanceName":"shop","token":"tok"}`, "key", "z1:shop"},
		"no content type":           {"", `{"type":"Connected","userID":"u"}`, "key", "z1:u"},
		"in a form":                 {form, "instanceName=shop&jsonData=" + connected + "&token=tok&userID=u", "key", "z1:u"},
		"in a form with a charset":  {form + "; charset=UTF-8", "instanceName=shop&jsonData=" + connected, "key", "z1:shop"},
		"within the form's JSON":    {form, "jsonData=" + url.QueryEscape(`{"type":"Connected","userID":"inner"}`), "key", "z1:inner"},
		"else a digest":             {form, "jsonData=" + connected + "&token=tok", "key", "z1:t-d20bbd26133c"},
		"under the key that signed": {form, "jsonData=" + connected + "&token=tok", "old", "z1:t-a683d976ec21"},
		"a token in JSON":           {"application/json", `{"type":"Connected","token":"tok"}`, "key", "z1:t-d20bbd26133c"},
	} {
		r := signed(c.kind, c.body, c.key)
		got := connectortest.Say(t, wuzapi.New(), source, r, nil)
		if want := c.want + ` [] adopt data={"state":"RUNNING"}`; len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
}

func TestProof(t *testing.T) {
	good := signed("application/json", event("QR", `"code"`), "key").Header.Get("x-hmac-signature")
	for name, c := range map[string]struct {
		proof string
		good  bool
	}{
		"right": {good, true}, "capital digits": {strings.ToUpper(good), true}, "missing": {"", false}, "cut off": {good[:32], false}, "longer": {good + "00", false},
		"with a prefix": {"sha256=" + good, false}, "zeros": {strings.Repeat("0", 64), false},
	} {
		r := signed("application/json", event("QR", `"code"`), "key")
		r.Header.Set("X-Hmac-Signature", c.proof)
		if err := wuzapi.New().Authentic(source, r); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if wuzapi.New().Authentic(source, signed("application/json", "{}", "other")) == nil {
		t.Error("another key was taken")
	}
	// The body as sent is signed, not what it means.
	r := signed("application/x-www-form-urlencoded", "a=1&b=2", "key")
	r.Body = []byte("b=2&a=1")
	if wuzapi.New().Authentic(source, r) == nil {
		t.Error("a form in another order was taken for the signed one")
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct{ kind, body string }{
		"empty": {"application/json", ""}, "a list": {"application/json", "[]"}, "null": {"application/json", "null"}, "cut off": {"application/json", `{"type":"Connected"`}, "a form as JSON": {"application/json", "jsonData={}"},
		"no field": {form, "token=secret"}, "empty field": {form, "jsonData=&token=secret"}, "no JSON": {form, "jsonData=secret"}, "a list in the field": {form, "jsonData=[]"},
		"no form": {form, "jsonData=%zz"}, "empty form": {form, ""}, "JSON as a form": {form, `{"type":"Connected","userID":"u"}`},
	} {
		_, err := wuzapi.New().Read(t.Context(), source, nil, signed(c.kind, c.body, "key"))
		if err == nil {
			t.Errorf("%s: it was read", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error quotes the body: %v", name, err)
		}
	}
}
