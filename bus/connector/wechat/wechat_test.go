package wechat_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/bus/connector/wechat"
	"github.com/musterhq/muster/domain"
)

func TestAuthentic(t *testing.T) {
	s := &connector.Source{Secrets: []string{"old", "new"}}
	for query, want := range map[string]error{
		"key=new": nil, "key=old": nil, "key=ne": peer.ErrWrong, "key=NEW": peer.ErrWrong, "key=": peer.ErrMissing, "": peer.ErrMissing, "Key=new": peer.ErrMissing,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if err := wechat.Authentic(s, &connector.Request{Query: q}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", query, err, want)
		}
	}
}

func names(list []domain.Trigger) string {
	var out []string
	for _, t := range list {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

// TestMessageIsProof goes through all states, with a message from before the
// account entered it, one of the same second, and one from later.
func TestMessageIsProof(t *testing.T) {
	const since = 1_000
	for state, want := range map[string]string{ // before | at since | later
		"IDLE": "adopt|adopt|adopt", "": "adopt|adopt|adopt",
		"CONNECTING": "||connection_ready", "QR_REQUIRED": "||connection_ready", "SYNCING": "||connection_ready",
		"DISCONNECTED": "||connection_ready", "RECONNECTING": "||connection_ready",
		"RUNNING": "||", "DEGRADED": "||", "LOGGED_OUT": "||", "STOPPED": "||",
	} {
		var a *domain.Account
		if state != "" {
			a = &domain.Account{State: state, Since: since, Epoch: 5}
		}
		var got []string
		for _, at := range []int64{since - 1, since, since + 1} {
			got = append(got, names(wechat.Message{ID: "m", At: at}.Triggers(a)))
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%q: %s, want %s", state, s, want)
		}
		if s := names(wechat.Message{ID: "m"}.Triggers(a)); s != strings.Split(want, "|")[0] {
			t.Errorf("%q: a message without a time gave %q", state, s)
		}
	}
}

func TestNewerLoginIsToldWhileUp(t *testing.T) {
	for _, c := range []struct {
		state string
		epoch int64
		want  string
	}{
		{"RUNNING", 6, "connection_ready"}, {"DEGRADED", 6, "connection_ready"}, {"SYNCING", 6, "connection_ready"},
		{"RUNNING", 5, ""}, {"RUNNING", 4, ""}, {"RUNNING", 0, ""}, {"DISCONNECTED", 6, ""}, {"LOGGED_OUT", 6, ""}, {"STOPPED", 6, ""},
	} {
		a := &domain.Account{State: c.state, Since: 1_000, Epoch: 5}
		if got := names(wechat.Message{ID: "m", At: 1, Epoch: c.epoch}.Triggers(a)); got != c.want {
			t.Errorf("%s with epoch %d: %q, want %q", c.state, c.epoch, got, c.want)
		}
	}
}

func TestCustomersAskInAnyState(t *testing.T) {
	for _, state := range []string{"RUNNING", "LOGGED_OUT", "STOPPED", "DISCONNECTED"} {
		list := wechat.Message{ID: "m1", Person: "wxid_c", At: 500}.Triggers(&domain.Account{State: state, Since: 1_000})
		if len(list) != 1 || list[0].Name != "customer_message" || list[0].Key != "wxid_c" || list[0].Data["message"] != "m1" || list[0].At != 500 {
			t.Errorf("%s: %+v", state, list)
		}
	}
	if got := names(wechat.Message{ID: "m1", Person: "wxid_c", At: 2_000}.Triggers(&domain.Account{State: "DISCONNECTED", Since: 1_000})); got != "connection_ready customer_message" {
		t.Errorf("the two facts of one message: %s", got)
	}
}

func TestOfflineIsNeverALogout(t *testing.T) {
	offline := wechat.Offline(domain.Trigger{Epoch: 7})
	for _, state := range []string{"RUNNING", "DEGRADED", "CONNECTING", "LOGGED_OUT", "STOPPED", "DISCONNECTED"} {
		if list := offline(&domain.Account{State: state}); len(list) != 1 || list[0].Name != "connection_lost" || list[0].Epoch != 7 {
			t.Errorf("%s: %+v", state, list)
		}
	}
	if list := offline(nil); len(list) != 1 || list[0].Name != "adopt" || list[0].Data["state"] != "DISCONNECTED" {
		t.Errorf("fresh: %+v", list)
	}
}

func TestPersons(t *testing.T) {
	for id, want := range map[string]bool{
		"wxid_cust0077": true, "someone": true, "25984@openim": true,
		"": false, "3500001@chatroom": false, "3500001@im.chatroom": false, "gh_123": false, "weixin": false, "filehelper": false, "fmessage": false, "newsapp": false,
	} {
		if got := wechat.Person(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}
