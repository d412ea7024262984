package gewechat_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/gewechat"
	"github.com/musterhq/muster/domain"
)

func TestSequences(t *testing.T) {
	connectortest.Play(t, gewechat.New(), "../connectortest/testdata/gewechat")
}

var source = &connector.Source{Kind: "gewechat", Name: "g1", Secrets: []string{"k"}}

const (
	since   = 1767614400 // 2026-01-05T12:00:00Z
	arrival = (since + 60) * 1e9
)

func request(body string) *connector.Request {
	return &connector.Request{Method: http.MethodPost, Query: url.Values{"key": {"k"}}, Body: []byte(body), At: arrival}
}

func say(t *testing.T, state, body string) string {
	t.Helper()
	var a *domain.Account
	if state != "" {
		a = &domain.Account{ID: "g1:w", Machine: "whatsapp@2", State: state, Version: 3, Since: since * 1e9}
	}
	return strings.Join(connectortest.Say(t, gewechat.New(), source, request(body), a), "\n")
}

func addMsg(data string) string {
	return `{"TypeName":"AddMsg","Appid":"wx_1","Wxid":"w","Data":` + data + `}`
}

func TestMapping(t *testing.T) {
	const later = `"NewMsgId":7000000000000000001,"CreateTime":1767614401,"Content":{"string":"secret"}`
	const asked = `customer_message key=c data={"message":"7000000000000000001"} at=2026-01-05T12:00:01Z`
	from := func(id string) string { return `{` + later + `,"MsgType":1,"FromUserName":{"string":"` + id + `"}}` }
	for _, c := range []struct{ state, body, want string }{
		{"", addMsg(from("c")), `g1:w [msg/7000000000000000001] adopt data={"state":"RUNNING"} at=2026-01-05T12:00:01Z; ` + asked},
		{"IDLE", addMsg(from("9@chatroom")), `g1:w [msg/7000000000000000001] adopt data={"state":"RUNNING"} at=2026-01-05T12:00:01Z`},
		{"DISCONNECTED", addMsg(from("c")), `g1:w [msg/7000000000000000001] connection_ready at=2026-01-05T12:00:01Z; ` + asked},
		{"RUNNING", addMsg(from("c")), `g1:w [msg/7000000000000000001] ` + asked},
		{"LOGGED_OUT", addMsg(from("c")), `g1:w [msg/7000000000000000001] ` + asked},
		{"RUNNING", addMsg(from("9@chatroom")), "g1:w [msg/7000000000000000001] nothing"},
		{"RUNNING", addMsg(from("w")), "g1:w [msg/7000000000000000001] nothing"}, // own
		{"RUNNING", addMsg(from("gh_news")), "g1:w [msg/7000000000000000001] nothing"},
		{"RUNNING", addMsg(from("weixin")), "g1:w [msg/7000000000000000001] nothing"},
		{"RECONNECTING", addMsg(from("w")), "g1:w [msg/7000000000000000001] connection_ready at=2026-01-05T12:00:01Z"}, // own, but it proves that it is up
		{"RUNNING", addMsg(`{` + later + `,"MsgType":10002,"FromUserName":{"string":"c"}}`), "g1:w [msg/7000000000000000001] nothing"},
		{"RUNNING", addMsg(`{` + later + `,"MsgType":"51","FromUserName":{"string":"c"}}`), "g1:w [msg/7000000000000000001] nothing"},
		{"DISCONNECTED", addMsg(`{"NewMsgId":"7","CreateTime":1767614399,"FromUserName":{"string":"9@chatroom"}}`), "g1:w [msg/7] nothing"},
		{"DISCONNECTED", addMsg(`{"NewMsgId":7,"FromUserName":{"string":"c"}}`), `g1:w [msg/7] customer_message key=c data={"message":"7"}`},
		{"DISCONNECTED", addMsg(`{"NewMsgId":7,"CreateTime":"1767614401"}`), "g1:w [msg/7] connection_ready at=2026-01-05T12:00:01Z"},

		{"", `{"TypeName":"Offline","Appid":"wx_1","Wxid":"w"}`, `g1:w [] adopt data={"state":"DISCONNECTED"}`},
		{"RUNNING", `{"TypeName":"Offline","Appid":"wx_1","Wxid":"w"}`, "g1:w [] connection_lost"},
		{"DISCONNECTED", `{"TypeName":"Offline","Wxid":"w","Data":{}}`, "g1:w [] connection_lost"},

		{"RUNNING", `{"TypeName":"ModContacts","Wxid":"w","Data":{}}`, "ignored"},
		{"", `{"TypeName":"DelContacts"}`, "ignored"},
		{"", `{"testMsg":"hello","token":"secret"}`, "ignored"},

		{"RUNNING", `{"TypeName":"Weather","Appid":"wx_1","Wxid":"w","Data":{"x":"secret"}}`, `unmapped: type "Weather" map[Appid:wx_1 TypeName:Weather Wxid:w]`},
		{"RUNNING", `{"TypeName":"Offline","Appid":"wx_1"}`, "unmapped: an Offline without an account map[Appid:wx_1 TypeName:Offline]"},
		{"RUNNING", `{"TypeName":"Offline","Wxid":"a\u0001b"}`, "unmapped: an Offline without an account map[TypeName:Offline Wxid:a\x01b]"},
		{"RUNNING", `{"TypeName":"AddMsg","Data":{"NewMsgId":7}}`, "unmapped: an AddMsg without an account map[TypeName:AddMsg]"},
		{"RUNNING", addMsg(`"secret"`), "unmapped: an AddMsg without an id map[Appid:wx_1 TypeName:AddMsg Wxid:w]"},
		{"RUNNING", addMsg(`{"NewMsgId":{"a":1}}`), "unmapped: an AddMsg without an id map[Appid:wx_1 TypeName:AddMsg Wxid:w]"},
		{"RUNNING", `{"TypeName":["AddMsg"],"Wxid":"w"}`, "unmapped: type map[Wxid:w]"},
		{"RUNNING", `{}`, "unmapped: type map[]"},
	} {
		if got := say(t, c.state, c.body); got != c.want {
			t.Errorf("in %q: %s\n got %s\nwant %s", c.state, c.body, got, c.want)
		}
	}
}

func TestUnreadableBodies(t *testing.T) {
	for _, body := range []string{"", "TypeName=Offline", "[]", `{"TypeName":`, `"x"`, `{}x`} {
		if _, err := gewechat.New().Read(t.Context(), source, nil, request(body)); err == nil {
			t.Errorf("%q was read", body)
		}
	}
}
