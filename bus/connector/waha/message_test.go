package waha_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/waha"
)

func message(event, payload string) string {
	return `{"id":"evt_3","timestamp":1767614400000,"event":"` + event + `","session":"s","payload":` + payload + `}`
}

func TestAcks(t *testing.T) {
	for ack, trigger := range map[string]string{
		"-1": "message_failed", "0": "message_pending", "1": "message_sent", "2": "message_delivered", "3": "message_read", "4": "message_read",
	} {
		want := "w1:s [ack/m1/" + ack + "] " + trigger + " key=m1"
		check(t, []row{
			{everyState, message("message.ack", `{"id":"m1","from":"155@c.us","fromMe":true,"ack":`+ack+`}`), want},
			{"", message("message.ack", `{"id":"m1","from":"155@c.us","fromMe":true,"ack":"`+ack+`"}`), want},
			{"", message("message.any", `{"id":"m1","to":"155@c.us","fromMe":true,"source":"api","body":"secret","ack":`+ack+`}`), want},
		})
	}
	check(t, []row{
		{"RUNNING", message("message.ack", `{"id":"m1","fromMe":false,"ack":3}`), "ignored"},
		{"RUNNING", message("message.ack", `{"id":"m1","ack":3}`), "unmapped: ack that does not say whose message it is map[event:message.ack id:evt_3 payload.ack:3 session:s timestamp:1767614400000]"},
		{"RUNNING", message("message.ack", `{"id":"m1","fromMe":true,"ack":5,"body":"secret"}`), "unmapped: ack that is none of -1 to 4 map[event:message.ack id:evt_3 payload.ack:5 session:s timestamp:1767614400000]"},
		{"RUNNING", message("message.ack", `{"id":"m1","fromMe":true}`), "unmapped: ack that is none of -1 to 4 map[event:message.ack id:evt_3 session:s timestamp:1767614400000]"},
		{"RUNNING", message("message.ack", `{"id":{"x":1},"fromMe":true,"ack":1}`), "unmapped: ack without a message map[event:message.ack id:evt_3 payload.ack:1 session:s timestamp:1767614400000]"},
	})
}

func TestMessages(t *testing.T) {
	const said = `w1:s [msg/m1] customer_message key=155@c.us data={"message":"m1"}`
	check(t, []row{
		{everyState, message("message", `{"id":"m1","from":"155@c.us","fromMe":false,"body":"secret"}`), said},
		{"", message("message.any", `{"id":"m1","from":"155@c.us","fromMe":false,"source":"app","body":"secret"}`), said},
		{"RUNNING", message("message", `{"id":"m1","from":"1000@lid","fromMe":false}`), `w1:s [msg/m1] customer_message key=1000@lid data={"message":"m1"}`},
		{"RUNNING", message("message", `{"id":"m1","from":"155@c.us","fromMe":false,"replyTo":{"id":"m0","body":"secret"}}`), said + "; message_replied key=m0"},
		{"RUNNING", message("message", `{"id":"m1","from":"155@c.us","fromMe":false,"replyTo":null}`), said},
		{"RUNNING", message("message", `{"id":"m1","from":"1203@g.us","fromMe":false}`), "ignored"},
		{"RUNNING", message("message", `{"id":"m1","from":"status@broadcast","fromMe":false}`), "ignored"},
		{"RUNNING", message("message", `{"id":"m1","from":"12@newsletter","fromMe":false}`), "ignored"},
		{"RUNNING", message("message", `{"id":"m1","from":"155@c.us","to":"156@c.us","fromMe":true,"source":"app"}`), "ignored"},
		{"RUNNING", message("message.any", `{"id":"m2","from":"155@c.us","to":"156@c.us","fromMe":true,"source":"app","body":"secret","ack":1}`), "w1:s [msg/m2] human_replied key=156@c.us"},
		{"RUNNING", message("message.any", `{"id":"m2","to":"1203@g.us","fromMe":true,"source":"app"}`), "ignored"},
		{"RUNNING", message("message.any", `{"id":"m2","to":"status@broadcast","fromMe":true,"source":"app"}`), "ignored"},
		{"RUNNING", message("message.any", `{"id":"m2","to":"156@c.us","fromMe":true}`), "ignored"},
		{"RUNNING", message("message.any", `{"id":"m2","to":"156@c.us","fromMe":true,"source":"elsewhere"}`), "ignored"},
		{"RUNNING", message("message", `{"from":"155@c.us","fromMe":false,"body":"secret"}`), "unmapped: message that lacks its id or does not say whose it is map[event:message id:evt_3 session:s timestamp:1767614400000]"},
		{"RUNNING", message("message", `{"id":"m1","from":"155@c.us","fromMe":1}`), "unmapped: message that lacks its id or does not say whose it is map[event:message id:evt_3 session:s timestamp:1767614400000]"},
		{"RUNNING", message("message", `{"id":"m1","from":null,"fromMe":false}`), "unmapped: message without a sender map[event:message id:evt_3 session:s timestamp:1767614400000]"},
		{"RUNNING", message("message", `"secret"`), "unmapped: message that lacks its id or does not say whose it is map[event:message id:evt_3 session:s timestamp:1767614400000]"},
	})
}

func TestWhatIsOfNoInterestAndWhatIsNotKnown(t *testing.T) {
	for _, event := range []string{"state.change", "presence.update", "group.v2.join", "group.join", "label.upsert", "label.chat.added", "call.received", "message.reaction", "message.revoked", "message.edited",
		"message.ack.group", "message.waiting", "poll.vote", "poll.vote.failed", "chat.archive", "event.response", "event.response.failed"} {
		check(t, []row{{"RUNNING", message(event, `{"body":"secret"}`), "ignored"}})
	}
	check(t, []row{
		{"RUNNING", message("session.teleported", `{"name":"s"}`), `unmapped: event "session.teleported" map[event:session.teleported id:evt_3 session:s timestamp:1767614400000]`},
		{"RUNNING", message("message.whispered", `{}`), `unmapped: event "message.whispered" map[event:message.whispered id:evt_3 session:s timestamp:1767614400000]`},
		{"RUNNING", status("SLEEPING", "null"), `unmapped: status "SLEEPING" map[event:session.status id:evt_1 payload.status:SLEEPING session:s timestamp:1767614400000]`},
		{"RUNNING", status("working", "null"), `unmapped: status "working" map[event:session.status id:evt_1 payload.status:working session:s timestamp:1767614400000]`},
		{"RUNNING", `{"event":"session.status","session":"s"}`, "unmapped: status map[event:session.status session:s]"},
		{"RUNNING", `{"event":"session.status","session":"s","payload":[]}`, "unmapped: status map[event:session.status session:s]"},
		{"RUNNING", `{"event":"engine.event","session":"s","payload":{"data":{"x":"secret"}}}`, "unmapped: engine event without a name map[event:engine.event session:s]"},
		{"RUNNING", `{"event":"session.status","payload":{"status":"WORKING"}}`, `unmapped: event without a session "session.status" map[event:session.status payload.status:WORKING]`},
		{"RUNNING", `{"event":"presence.update","session":null}`, `unmapped: event without a session "presence.update" map[event:presence.update]`},
		{"RUNNING", `{"event":"session.status","session":"a\u0000b","payload":{"status":"WORKING"}}`, "unmapped: event without a session \"session.status\" map[event:session.status payload.status:WORKING session:a\x00b]"},
		{"RUNNING", `{"event":7,"session":"s"}`, "unmapped: event map[event:7 session:s]"},
		{"RUNNING", `{}`, "unmapped: event without a session map[]"},
		// Of a name that stands twice the last value counts.
		{"RUNNING", `{"event":"presence.update","event":"session.status","session":"s","payload":{"status":"STOPPED"},"timestamp":1767614400}`, "w1:s [req-1] stop"},
	})
}

func TestOlderVersionsGiveNeitherIdNorTime(t *testing.T) {
	check(t, []row{{"RUNNING", `{"event":"session.status","session":"s","payload":{"name":"s","status":"STOPPED"}}`, "w1:s [req-1] stop"}})
	r := signed(`{"event":"session.status","session":"s","payload":{"name":"s","status":"STOPPED"}}`)
	r.Header.Del("X-Webhook-Request-Id")
	if got := connectortest.Say(t, waha.New(), source, r, in("RUNNING")); len(got) != 1 || got[0] != "w1:s [] stop" {
		t.Errorf("got %v", got)
	}
}

func TestProof(t *testing.T) {
	body := status("STOPPED", "null")
	for name, c := range map[string]struct {
		change func(h http.Header)
		good   bool
	}{
		"right":                 {func(http.Header) {}, true},
		"capital digits":        {func(h http.Header) { h.Set("X-Webhook-Hmac", strings.ToUpper(h.Get("X-Webhook-Hmac"))) }, true},
		"no signature":          {func(h http.Header) { h.Del("X-Webhook-Hmac") }, false},
		"empty":                 {func(h http.Header) { h.Set("X-Webhook-Hmac", "") }, false},
		"cut off":               {func(h http.Header) { h.Set("X-Webhook-Hmac", h.Get("X-Webhook-Hmac")[:64]) }, false},
		"one digit wrong":       {func(h http.Header) { h.Set("X-Webhook-Hmac", flip(h.Get("X-Webhook-Hmac"))) }, false},
		"not hexadecimal":       {func(h http.Header) { h.Set("X-Webhook-Hmac", strings.Repeat("z", 128)) }, false},
		"no algorithm":          {func(h http.Header) { h.Del("X-Webhook-Hmac-Algorithm") }, false},
		"another algorithm":     {func(h http.Header) { h.Set("X-Webhook-Hmac-Algorithm", "sha256") }, false},
		"algorithm in capitals": {func(h http.Header) { h.Set("X-Webhook-Hmac-Algorithm", "SHA512") }, false},
	} {
		r := signed(body)
		c.change(r.Header)
		err := waha.New().Authentic(source, r)
		if (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "key") && strings.Contains(err.Error(), source.Secrets[1]+"\"")) {
			t.Errorf("%s: the error quotes a secret: %v", name, err)
		}
	}
	r := signed(body)
	r.Body = append(r.Body, ' ')
	if waha.New().Authentic(source, r) == nil {
		t.Error("another body was taken for the signed one")
	}
	if waha.New().Authentic(&connector.Source{Secrets: []string{"other"}}, signed(body)) == nil {
		t.Error("another key was taken")
	}
}

func flip(hex string) string {
	if hex[0] == '0' {
		return "1" + hex[1:]
	}
	return "0" + hex[1:]
}

func TestOnlyAnObjectIsAnEvent(t *testing.T) {
	for _, body := range []string{"", "null", "[]", `[{"event":"message"}]`, `"x"`, "7", `{"event":"session.status","session":"s"`, "jsonData={}", "<xml/>"} {
		if _, err := waha.New().Read(t.Context(), source, nil, signed(body)); err == nil {
			t.Errorf("%q was read", body)
		} else if body != "" && strings.Contains(err.Error(), body) {
			t.Errorf("the error quotes the body: %v", err)
		}
	}
}
