package eyun_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/eyun"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/domain"
)

func TestSequences(t *testing.T) {
	connectortest.Play(t, eyun.New(), "../connectortest/testdata/eyun")
}

var source = &connector.Source{Kind: "eyun", Name: "e1", Secrets: []string{"k"}}

const since = 1767614400 // 2026-01-05T12:00:00Z

func request(body string, arrivalMS int64) *connector.Request {
	return &connector.Request{Method: http.MethodPost, Query: url.Values{"key": {"k"}}, Body: []byte(body), At: arrivalMS * 1e6}
}

// with is the connector over a memory.
type with struct {
	eyun.Connector
	mem connector.Memory
}

func (w with) Read(ctx context.Context, s *connector.Source, _ connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	return w.Connector.Read(ctx, s, w.mem, r)
}

func message(kind, data string) string {
	return `{"account":"18800000000","messageType":"` + kind + `","wcId":"w","data":{"wId":"i1","content":"secret",` + data + `}}`
}

func TestMapping(t *testing.T) {
	const arrival = (since + 60) * 1000
	const later = `"newMsgId":8000000000000000001,"timestamp":1767614401,"toUser":"w"`
	const id, at = "e1:w [msg/w/8000000000000000001/c]", " at=2026-01-05T12:00:01Z"
	const asked = `customer_message key=c data={"message":"8000000000000000001"}` + at
	for _, c := range []struct {
		state string
		epoch int64
		body  string
		want  string
	}{
		{"", 0, message("60001", later+`,"fromUser":"c","self":false`), id + ` adopt epoch=1767614460000 data={"state":"RUNNING"}` + at + "; " + asked},
		{"RUNNING", arrival, message("60002", later+`,"fromUser":"c"`), id + " " + asked},
		{"RUNNING", arrival - 1, message("60001", later+`,"fromUser":"c"`), id + " connection_ready epoch=1767614460000" + at + "; " + asked},
		{"RUNNING", 0, message("80001", later+`,"fromUser":"c","fromGroup":"9@chatroom"`), id + " connection_ready epoch=1767614460000" + at},
		{"RUNNING", arrival, message("80001", later+`,"fromUser":"c"`), id + " nothing"},
		{"RUNNING", arrival, message("70001", later+`,"fromUser":"c"`), id + " nothing"},
		{"RUNNING", arrival, message("60001", later+`,"fromUser":"c","self":true`), id + " nothing"},
		{"RUNNING", arrival, message("60001", later+`,"fromUser":"w","self":false`), "e1:w [msg/w/8000000000000000001/w] nothing"},
		{"RUNNING", arrival, message("60001", later+`,"fromUser":"gh_x"`), "e1:w [msg/w/8000000000000000001/gh_x] nothing"},
		{"DISCONNECTED", arrival, message("70001", later+`,"fromUser":"c"`), id + " connection_ready epoch=1767614460000" + at},
		{"DISCONNECTED", 0, message("60001", `"newMsgId":"8","timestamp":"1767614399","toUser":"w","fromUser":"c"`),
			`e1:w [msg/w/8/c] customer_message key=c data={"message":"8"} at=2026-01-05T11:59:59Z`},
		{"LOGGED_OUT", 0, message("60001", later+`,"fromUser":"c"`), id + " " + asked},
		{"RUNNING", 5, `{"messageType":60001,"wcId":"w","data":{"newMsgId":8,"fromUser":"c","toUser":"w"}}`, `e1:w [msg/w/8/c] customer_message key=c data={"message":"8"}`},

		{"", 0, `{"messageType":"30000","wcId":"w","data":{"wId":"i1","reason":"x"}}`, `e1:w [] adopt epoch=1767614460000 text=x data={"state":"DISCONNECTED"}`},
		{"RUNNING", 5, `{"account":"1","messageType":"30000","wcId":"w","data":{"wId":"i1","reason":"kicked by another login"}}`,
			"e1:w [] connection_lost epoch=1767614460000 text=kicked by another login"},
		{"RUNNING", 5, `{"messageType":"30000","wcId":"w"}`, "e1:w [] connection_lost"},

		{"RUNNING", 5, message("99999", `"a":1`), `unmapped: messageType "99999" map[messageType:99999 wId:i1 wcId:w]`},
		{"RUNNING", 5, message("6", later), `unmapped: messageType "6" map[messageType:6 wId:i1 wcId:w]`},
		{"RUNNING", 5, message("600010", later), `unmapped: messageType "600010" map[messageType:600010 wId:i1 wcId:w]`},
		{"RUNNING", 5, message("6abcd", later), `unmapped: messageType "6abcd" map[messageType:6abcd wId:i1 wcId:w]`},
		{"RUNNING", 5, `{"messageType":"30000","data":{"wId":"i1"}}`, `unmapped: a callback without an account, messageType "30000" map[messageType:30000 wId:i1]`},
		{"RUNNING", 5, `{"messageType":"60001","wcId":"w","data":[]}`, `unmapped: a message without an id, messageType "60001" map[messageType:60001 wcId:w]`},
		{"RUNNING", 5, `{}`, "unmapped: messageType map[]"},
	} {
		var a *domain.Account
		if c.state != "" {
			a = &domain.Account{ID: "e1:w", Machine: "whatsapp@2", State: c.state, Version: 3, Since: since * 1e9, Epoch: c.epoch}
		}
		got := strings.Join(connectortest.Say(t, with{mem: &hub.MapMemory{}}, source, request(c.body, arrival), a), "\n")
		if got != c.want {
			t.Errorf("in %q: %s\n got %s\nwant %s", c.state, c.body, got, c.want)
		}
	}
}

// TestEpochIsOfTheFirstCallback also counts callbacks that are not understood, and
// keeps sources apart.
func TestEpochIsOfTheFirstCallback(t *testing.T) {
	k := with{mem: &hub.MapMemory{}}
	offline := func(s *connector.Source, login string, ms int64) string {
		return connectortest.Say(t, k, s, request(`{"messageType":"30000","wcId":"w","data":{"wId":"`+login+`"}}`, ms), &domain.Account{State: "RUNNING"})[0]
	}
	connectortest.Say(t, k, source, request(`{"messageType":"99999","data":{"wId":"i1"}}`, 1_000), nil)
	other := &connector.Source{Kind: "eyun", Name: "e2", Secrets: []string{"k"}}
	for _, c := range []struct {
		source *connector.Source
		login  string
		ms     int64
		want   string
	}{
		{source, "i1", 2_000, "e1:w [] connection_lost epoch=1000"},
		{source, "i2", 3_000, "e1:w [] connection_lost epoch=3000"},
		{source, "i1", 4_000, "e1:w [] connection_lost epoch=1000"},
		{other, "i1", 5_000, "e2:w [] connection_lost epoch=5000"},
	} {
		if got := offline(c.source, c.login, c.ms); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.login, c.source.Name, got, c.want)
		}
	}
}

type broken struct{ hub.MapMemory }

var errBroken = errors.New("no answer")

func (*broken) PutNew(context.Context, string, string, string) (string, error) { return "", errBroken }

func TestWithoutMemoryTheSenderMustComeAgain(t *testing.T) {
	var memory *connector.MemoryError
	_, err := eyun.New().Read(t.Context(), source, &broken{}, request(message("60001", `"newMsgId":8`), 1_000))
	if !errors.As(err, &memory) || !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	if _, err := eyun.New().Read(t.Context(), source, &broken{}, request("[1]", 1_000)); err == nil || errors.As(err, &memory) {
		t.Errorf("a list: %v", err)
	}
}
