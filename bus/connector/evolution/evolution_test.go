package evolution_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/evolution"
	"github.com/musterhq/muster/domain"
)

func TestRecordedSequences(t *testing.T) {
	connectortest.Play(t, evolution.New(), "../connectortest/testdata/evolution")
}

var (
	source = &connector.Source{Kind: "evolution", Name: "e1", Secrets: []string{"old", "tok"}}
	noon   = time.Date(2026, 1, 6, 12, 0, 0, 0, time.UTC).UnixNano()
)

func request(body string) *connector.Request {
	return &connector.Request{Method: http.MethodPost, Header: http.Header{"Authorization": {"Bearer tok"}}, Body: []byte(body), At: noon}
}

// in is an account in a state; "" is one without events.
func in(state string) *domain.Account {
	if state == "" {
		return nil
	}
	return &domain.Account{ID: "e1:i", Machine: "whatsapp@2", State: state, Version: 3}
}

const everyState = "IDLE CONNECTING QR_REQUIRED SYNCING RUNNING DEGRADED DISCONNECTED RECONNECTING LOGGED_OUT STOPPED"

type row struct {
	states string // space between; none = an account without events
	body   string
	want   string // # stands for an id that is a hash
}

var hash = regexp.MustCompile(`\[[0-9a-f]{32}\]`)

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		states := strings.Fields(r.states)
		if len(states) == 0 {
			states = []string{""}
		}
		for _, state := range states {
			got := hash.ReplaceAllString(strings.Join(connectortest.Say(t, evolution.New(), source, request(r.body), in(state)), "\n"), "[#]")
			if got != r.want {
				t.Errorf("in %q: %s\n got %s\nwant %s", state, r.body, got, r.want)
			}
		}
	}
}

func event(name, data string) string {
	return `{"event":"` + name + `","instance":"i","data":` + data + `,"date_time":"2026-01-06T12:00:00.000Z","sender":"155@s.whatsapp.net","apikey":"secret"}`
}

func update(state, more string) string {
	return event("connection.update", `{"instance":"i","state":"`+state+`"`+more+`}`)
}

func TestStates(t *testing.T) {
	check(t, []row{
		{"SYNCING RUNNING DEGRADED", update("connecting", `,"statusReason":200`), "e1:i [#] connection_lost; start"},
		{"IDLE CONNECTING QR_REQUIRED DISCONNECTED RECONNECTING LOGGED_OUT STOPPED", update("connecting", ""), "e1:i [#] start"},
		{"", update("connecting", ""), "e1:i [#] start"},
		{"", update("open", `,"wuid":"155@s.whatsapp.net","profileName":"secret"`), `e1:i [#] adopt data={"state":"RUNNING"}`},
		{"IDLE", update("open", `,"wuid":"155@s.whatsapp.net"`), `e1:i [#] adopt data={"state":"RUNNING"}`},
		{"", update("open", ""), "e1:i [#] connection_ready"},
		{"", update("open", `,"wuid":null`), "e1:i [#] connection_ready"},
		{"CONNECTING QR_REQUIRED RUNNING DISCONNECTED LOGGED_OUT", update("open", `,"wuid":"155@s.whatsapp.net"`), "e1:i [#] connection_ready"},
		{everyState[5:], update("close", `,"statusReason":401`), "e1:i [#] logout by=remote code=401"},
		{"RUNNING", update("close", `,"statusReason":"403"`), "e1:i [#] logout by=remote code=403"},
		{"", update("close", `,"statusReason":406`), `e1:i [#] adopt by=remote code=406 data={"state":"LOGGED_OUT"}`},
		{"RUNNING", update("close", `,"statusReason":402`), "e1:i [#] banned code=402"},
		{"RUNNING", update("close", `,"statusReason":405`), "e1:i [#] connect_refused code=405"},
		{"RUNNING", update("close", `,"statusReason":440`), "e1:i [#] connection_replaced code=440"},
		{"", update("close", `,"statusReason":402`), `e1:i [#] adopt code=402 data={"state":"DISCONNECTED"}; banned code=402`},
		{"RUNNING STOPPED", update("close", `,"statusReason":428`), "e1:i [#] connection_lost code=428"},
		{"RUNNING", update("close", ""), "e1:i [#] connection_lost"},
		{"", update("close", `,"statusReason":500`), `e1:i [#] adopt code=500 data={"state":"DISCONNECTED"}`},
		{"", update("refused", `,"statusReason":428`), "e1:i [#] nothing"},
		{"QR_REQUIRED STOPPED", update("refused", `,"statusReason":428,"wuid":"155@s.whatsapp.net"`), "e1:i [#] qr_expired code=428"},
		{"RUNNING", update("sleeping", ""), `unmapped: state "sleeping" map[data.state:sleeping date_time:2026-01-06T12:00:00.000Z event:connection.update instance:i]`},
		{"RUNNING", event("connection.update", `{"statusReason":200}`), "unmapped: state map[data.statusReason:200 date_time:2026-01-06T12:00:00.000Z event:connection.update instance:i]"},
		{"RUNNING", event("connection.update", `null`), "unmapped: state map[date_time:2026-01-06T12:00:00.000Z event:connection.update instance:i]"},
	})
}

func closedWith(code string) string {
	return event("status.instance", `{"instance":"i","status":"closed","disconnectionReasonCode":`+code+`,"disconnectionObject":"secret"}`)
}

func TestEndings(t *testing.T) {
	check(t, []row{
		{"RUNNING DISCONNECTED LOGGED_OUT", closedWith("401"), "e1:i [#] logout by=remote code=401"},
		{"RUNNING", closedWith(`"406"`), "e1:i [#] logout by=remote code=406"},
		{"RUNNING", closedWith("null"), "e1:i [#] logout"},
		{"", closedWith("null"), `e1:i [#] adopt data={"state":"LOGGED_OUT"}`},
		{"RUNNING", event("status.instance", `{"status":"closed"}`), "e1:i [#] logout"},
		{"RUNNING", closedWith("402"), "e1:i [#] banned code=402"},
		{"RUNNING", closedWith("405"), "e1:i [#] connect_refused code=405"},
		{"RUNNING", closedWith("440"), "e1:i [#] connection_replaced code=440"},
		{"RUNNING", closedWith("503"), "e1:i [#] connection_lost code=503"},
		{"RUNNING", event("status.instance", `{"status":"open"}`), `unmapped: status "open" map[data.status:open date_time:2026-01-06T12:00:00.000Z event:status.instance instance:i]`},
		{"RUNNING DISCONNECTED", event("logout.instance", "null"), "e1:i [#] logout"},
		{"", event("logout.instance", "null"), `e1:i [#] adopt data={"state":"LOGGED_OUT"}`},
		{"RUNNING", event("LOGOUT_INSTANCE", "null"), "e1:i [#] logout"},
		{"RUNNING CONNECTING LOGGED_OUT STOPPED", event("remove.instance", "null"), "e1:i [#] stop code=removed"},
		{"RUNNING", event("instance.delete", `{"instanceName":"i"}`), "e1:i [#] stop code=removed"},
		{"", event("remove.instance", "null"), "e1:i [#] nothing"},
		{"IDLE", event("instance.delete", "null"), "e1:i [#] nothing"},
	})
}

func TestQRCodes(t *testing.T) {
	check(t, []row{
		{everyState, event("qrcode.updated", `{"qrcode":{"instance":"i","pairingCode":"secret","code":"2@secret","base64":"secret"}}`), "e1:i [#] qr_received"},
		{"", event("QRCODE_UPDATED", `{"qrcode":{"code":"2@secret"}}`), "e1:i [#] qr_received"},
		{"QR_REQUIRED STOPPED", event("qrcode.updated", `{"message":"QR code limit reached, please login again","statusCode":500}`), "e1:i [#] qr_expired code=500"},
		{"QR_REQUIRED", event("qrcode.updated", `{"qrcode":null}`), "e1:i [#] qr_expired"},
		{"", event("qrcode.updated", `{"statusCode":500}`), "e1:i [#] nothing"},
		{"QR_REQUIRED", event("qrcode.updated", `"secret"`), "unmapped: qrcode.updated without data map[date_time:2026-01-06T12:00:00.000Z event:qrcode.updated instance:i]"},
	})
}

func step(status string) string {
	return event("messages.update", `{"keyId":"k1","remoteJid":"155@s.whatsapp.net","fromMe":true,"status":`+status+`,"messageId":"cm1"}`)
}

func TestMessages(t *testing.T) {
	const sample = " map[date_time:2026-01-06T12:00:00.000Z event:"
	check(t, []row{
		{everyState, event("send.message", `{"key":{"remoteJid":"155@s.whatsapp.net","fromMe":true,"id":"k1"},"status":"PENDING","message":{"conversation":"secret"}}`), "e1:i [#] message_pending key=k1"},
		{"RUNNING", event("send.message", `{"key":{"remoteJid":"155@s.whatsapp.net"}}`), "unmapped: sent message without an id" + sample + "send.message instance:i]"},
		{"RUNNING", step(`"ERROR"`), "e1:i [ack/k1/ERROR] message_failed key=k1"},
		{"RUNNING", step(`"PENDING"`), "e1:i [ack/k1/PENDING] message_pending key=k1"},
		{"RUNNING", step(`"SERVER_ACK"`), "e1:i [ack/k1/SERVER_ACK] message_sent key=k1"},
		{"", step(`"DELIVERY_ACK"`), "e1:i [ack/k1/DELIVERY_ACK] message_delivered key=k1"},
		{"RUNNING", step(`"READ"`), "e1:i [ack/k1/READ] message_read key=k1"},
		{"RUNNING", step(`"PLAYED"`), "e1:i [ack/k1/PLAYED] message_read key=k1"},
		{"RUNNING", step(`"DELETED"`), "ignored"},
		{"RUNNING", step(`"EATEN"`), `unmapped: message status "EATEN" map[data.status:EATEN date_time:2026-01-06T12:00:00.000Z event:messages.update instance:i]`},
		{"RUNNING", step(`null`), "unmapped: message status" + sample + "messages.update instance:i]"},
		{"RUNNING", event("messages.update", `{"keyId":"k1","fromMe":false,"status":"READ"}`), "ignored"},
		{"RUNNING", event("messages.update", `{"keyId":"k1","status":"READ"}`), "unmapped: message update that does not say whose message it is map[data.status:READ date_time:2026-01-06T12:00:00.000Z event:messages.update instance:i]"},
		{"RUNNING", event("messages.update", `{"keyId":null,"fromMe":true,"status":"READ"}`), "unmapped: message update without an id map[data.status:READ date_time:2026-01-06T12:00:00.000Z event:messages.update instance:i]"},
		// A list is one fact for each element.
		{"RUNNING", event("MESSAGES_UPDATE", `[{"keyId":"k1","fromMe":true,"status":"READ"},{"keyId":"k2","fromMe":false,"status":"READ"},7]`),
			"e1:i [ack/k1/READ] message_read key=k1\nignored\nunmapped: message update that does not say whose message it is" + sample + "MESSAGES_UPDATE instance:i]"},
		{"RUNNING", event("messages.upsert", `{"key":{"remoteJid":"155@s.whatsapp.net","fromMe":false,"id":"k7"},"pushName":"secret","message":{"conversation":"secret"},"messageType":"conversation"}`),
			`e1:i [#] customer_message key=155@s.whatsapp.net data={"message":"k7"}`},
		{"", event("messages.upsert", `{"key":{"remoteJid":"1000@lid","fromMe":false,"id":"k7"},"contextInfo":{"stanzaId":"k1","quotedMessage":{"conversation":"secret"}}}`),
			`e1:i [#] customer_message key=1000@lid data={"message":"k7"}; message_replied key=k1`},
		{"RUNNING", event("messages.upsert", `{"key":{"remoteJid":"155@s.whatsapp.net","fromMe":true,"id":"k7"}}`), "ignored"},
		{"RUNNING", event("messages.upsert", `{"key":{"remoteJid":"1203@g.us","fromMe":false,"id":"k7"}}`), "ignored"},
		{"RUNNING", event("messages.upsert", `{"key":{"remoteJid":"status@broadcast","fromMe":false,"id":"k7"}}`), "ignored"},
		{"RUNNING", event("messages.upsert", `{"key":{"remoteJid":"12@newsletter","fromMe":false,"id":"k7"}}`), "ignored"},
		{"RUNNING", event("messages.upsert", `{"key":{"remoteJid":"155@s.whatsapp.net","fromMe":false,"id":"k7"},"messageType":"reactionMessage"}`), "ignored"},
		{"RUNNING", event("messages.upsert", `{"key":{"remoteJid":"155@s.whatsapp.net","fromMe":false}}`), "unmapped: message that lacks its key" + sample + "messages.upsert instance:i]"},
	})
}

func TestWhatIsOfNoInterestAndWhatIsNotKnown(t *testing.T) {
	for _, name := range []string{"instance.create", "application.startup", "APPLICATION_STARTUP", "creds.update", "presence.update", "PRESENCE_UPDATE", "call", "chats.upsert", "contacts.update", "groups.upsert",
		"group-participants.update", "GROUP_PARTICIPANTS_UPDATE", "labels.edit", "labels.association", "messages.set", "messages.delete", "typebot.change.status"} {
		check(t, []row{{"RUNNING", event(name, `{"creds":"secret"}`), "ignored"}})
	}
	check(t, []row{
		{"RUNNING", event("quantum.update", `{"x":"secret"}`), `unmapped: event "quantum.update" map[date_time:2026-01-06T12:00:00.000Z event:quantum.update instance:i]`},
		{"RUNNING", `{"event":"connection.update","data":{"state":"open"},"apikey":"secret"}`, `unmapped: event without an instance "connection.update" map[event:connection.update]`},
		{"RUNNING", `{"instance":"i"}`, "unmapped: event map[instance:i]"},
		{"RUNNING", `{"event":["connection.update"],"instance":"i"}`, "unmapped: event map[instance:i]"},
		{"RUNNING", `{"event":"connection.update","instance":{"name":"i"}}`, `unmapped: event without an instance "connection.update" map[event:connection.update]`},
	})
}

func TestTheServersClock(t *testing.T) {
	for _, c := range []struct {
		offset time.Duration
		told   string
		want   string
	}{
		{0, `"2026-01-06T11:00:00.000Z"`, "2026-01-06T11:00:00Z"},
		{-3 * time.Hour, `"2026-01-06T08:00:00.500Z"`, "2026-01-06T11:00:00.5Z"},
		{5*time.Hour + 30*time.Minute, `"2026-01-06T16:30:00Z"`, "2026-01-06T11:00:00Z"},
		{-3 * time.Hour, `"2026-01-06T08:00:00-03:00"`, "2026-01-06T11:00:00Z"}, // names its zone itself
		{-3 * time.Hour, `1767697200`, "2026-01-06T11:00:00Z"},                  // no clock on the wall
		{-3 * time.Hour, `"yesterday"`, ""},
		{-3 * time.Hour, `null`, ""},
	} {
		s := *source
		s.UTCOffset = c.offset
		body := strings.Replace(event("logout.instance", "null"), `"2026-01-06T12:00:00.000Z"`, c.told, 1)
		got := hash.ReplaceAllString(strings.Join(connectortest.Say(t, evolution.New(), &s, request(body), in("RUNNING")), "\n"), "[#]")
		want := "e1:i [#] logout"
		if c.want != "" {
			want += " at=" + c.want
		}
		if got != want {
			t.Errorf("%s at %v: got %s, want %s", c.told, c.offset, got, want)
		}
	}
}

func TestOneEventHasOneIdHoweverItComes(t *testing.T) {
	id := func(body string) string {
		list, err := evolution.New().Read(t.Context(), source, nil, request(body))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].ID
	}
	const base = `{"event":"connection.update","instance":"i","date_time":"2026-01-06T12:00:00.000Z","data":{"state":"open","wuid":"155@s.whatsapp.net"},"apikey":"one"}`
	for name, same := range map[string]string{
		"through the global webhook": `{"destination":"https://elsewhere","apikey":null,"data":{"wuid":"155@s.whatsapp.net","state":"open"},"date_time":"2026-01-06T12:00:00.000Z","instance":"i","event":"CONNECTION_UPDATE"}`,
		"with other white space":     strings.ReplaceAll(base, ",", " ,\n"),
	} {
		if id(same) != id(base) {
			t.Errorf("%s: another id", name)
		}
	}
	for name, other := range map[string]string{
		"later":            strings.Replace(base, "12:00:00.000", "12:00:00.001", 1),
		"another instance": strings.Replace(base, `"i"`, `"j"`, 1),
		"another state":    strings.Replace(base, `"open"`, `"close"`, 1),
		"other data":       strings.Replace(base, `"wuid"`, `"x"`, 1),
	} {
		if id(other) == id(base) {
			t.Errorf("%s: the same id", name)
		}
	}
}

func TestTails(t *testing.T) {
	for segment, want := range map[string]bool{
		"connection-update": true, "qrcode-updated": true, "messages-upsert": true, "presence-update": true, "MESSAGES_UPDATE": true, "connection.update": true, "group-participants-update": true, "call": true,
		"evo2": false, "quantum-update": false, "": false, "connection": false,
	} {
		if got := evolution.New().Tail(segment); got != want {
			t.Errorf("Tail(%q) = %v", segment, got)
		}
	}
}

func TestOnlyAnObjectIsAnEvent(t *testing.T) {
	for _, body := range []string{"", "null", "[]", "7", `{"event":"connection.update","instance":"i","data":{`} {
		if _, err := evolution.New().Read(t.Context(), source, nil, request(body)); err == nil {
			t.Errorf("%q was read", body)
		}
	}
}
