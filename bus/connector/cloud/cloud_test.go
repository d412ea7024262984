package cloud_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/cloud"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/domain"
)

func TestSequences(t *testing.T) {
	connectortest.Play(t, cloud.New(), "../connectortest/testdata/cloud")
}

var source = &connector.Source{Kind: "cloud", Name: "c1", Secrets: []string{"old", "app"}, VerifyToken: "tok", WABANumbers: map[string][]string{"9": {"901", "902"}}}

const arrival = 1767614460 * 1e9 // 2026-01-05T12:01:00Z

func request(body string) *connector.Request {
	mac := hmac.New(sha256.New, []byte("app"))
	mac.Write([]byte(body))
	h := http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}
	return &connector.Request{Method: http.MethodPost, Header: h, Body: []byte(body), At: arrival}
}

// with is the connector over a memory.
type with struct {
	cloud.Connector
	mem connector.Memory
}

func (w with) Read(ctx context.Context, s *connector.Source, _ connector.Memory, r *connector.Request) ([]connector.Delivery, error) {
	return w.Connector.Read(ctx, s, w.mem, r)
}

// in is an account in a state; "" is one without events.
func in(state string) *domain.Account {
	if state == "" {
		return nil
	}
	return &domain.Account{ID: "c1:155", Machine: "whatsapp@2", State: state, Version: 3}
}

func say(t *testing.T, state, body string) string {
	t.Helper()
	return strings.Join(connectortest.Say(t, with{mem: &hub.MapMemory{}}, source, request(body), in(state)), "\n")
}

// change is a body with one change of an entry at 12:00:30.
func change(field, value string) string {
	return `{"object":"whatsapp_business_account","entry":[{"id":"1","time":1767614430,"changes":[{"field":"` + field + `","value":` + value + `}]}]}`
}

// of is a change of the field messages that is about the number 155.
func of(list, unit string) string {
	return change("messages", `{"messaging_product":"whatsapp","metadata":{"display_phone_number":"155"},"`+list+`":[`+unit+`]}`)
}

type row struct{ state, body, want string }

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		if got := say(t, r.state, r.body); got != r.want {
			t.Errorf("in %q: %s\n got %s\nwant %s", r.state, r.body, got, r.want)
		}
	}
}

func TestProof(t *testing.T) {
	body := `{"a":"\u00e9\/"}`
	good := request(body).Header.Get("X-Hub-Signature-256")
	for name, c := range map[string]struct {
		header, value, body string
		want                bool
	}{
		"right":              {"X-Hub-Signature-256", good, body, true},
		"another body":       {"X-Hub-Signature-256", good, `{"a":"é/"}`, false},
		"no prefix":          {"X-Hub-Signature-256", strings.TrimPrefix(good, "sha256="), body, false},
		"another algorithm":  {"X-Hub-Signature-256", "sha1=" + strings.TrimPrefix(good, "sha256="), body, false},
		"cut off":            {"X-Hub-Signature-256", good[:60], body, false},
		"prefix alone":       {"X-Hub-Signature-256", "sha256=", body, false},
		"not hexadecimal":    {"X-Hub-Signature-256", "sha256=" + strings.Repeat("z", 64), body, false},
		"the older header":   {"X-Hub-Signature", good, body, false},
		"no header":          {"X-Other", good, body, false},
		"right, of no bytes": {"X-Hub-Signature-256", request("").Header.Get("X-Hub-Signature-256"), "", true},
	} {
		err := cloud.New().Authentic(source, &connector.Request{Header: http.Header{c.header: {c.value}}, Body: []byte(c.body)})
		if (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), good[10:20]) {
			t.Errorf("%s: the error quotes the request: %v", name, err)
		}
	}
}

func TestHandshake(t *testing.T) {
	for query, want := range map[string]connector.Answer{
		"hub.mode=subscribe&hub.challenge=42&hub.verify_token=tok":       {Status: 200, Body: "42"},
		"hub.mode=subscribe&hub.challenge=a%3Cb%3E&hub.verify_token=tok": {Status: 200, Body: "a<b>"},
		"hub.mode=subscribe&hub.challenge=42&hub.verify_token=toc":       {Status: 403},
		"hub.mode=subscribe&hub.challenge=42&hub.verify_token=":          {Status: 403},
		"hub.mode=subscribe&hub.challenge=42":                            {Status: 403},
		"hub.mode=unsubscribe&hub.challenge=42&hub.verify_token=tok":     {Status: 403},
		"hub.challenge=42&hub.verify_token=tok":                          {Status: 403},
		"":                                                               {Status: 403},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := cloud.New().Shake(source, &connector.Request{Method: http.MethodGet, Query: q})
		if !ok || got.Status != want.Status || got.Body != want.Body {
			t.Errorf("%s: %+v, %v", query, got, ok)
		}
		none := &connector.Source{Kind: "cloud", Name: "c2", Secrets: []string{"app"}}
		if got, _ := cloud.New().Shake(none, &connector.Request{Method: http.MethodGet, Query: q}); got.Status != 403 {
			t.Errorf("%s, and no token is configured: %+v", query, got)
		}
	}
	if _, ok := cloud.New().Shake(source, request("{}")); ok {
		t.Error("a POST was taken for a handshake")
	}
}

func TestWhatIsNotKnown(t *testing.T) {
	check(t, []row{
		{"RUNNING", `{"object":"page","entry":[{"id":"secret"}]}`, `unmapped: object "page" map[object:page]`},
		{"RUNNING", `{"entry":[]}`, "unmapped: object map[]"},
		{"RUNNING", `{"object":"whatsapp_business_account"}`, `unmapped: object "whatsapp_business_account" map[object:whatsapp_business_account]`},
		{"RUNNING", `{"object":"whatsapp_business_account","entry":{"id":"1"}}`, `unmapped: object "whatsapp_business_account" map[object:whatsapp_business_account]`},
		{"RUNNING", `{"object":"whatsapp_business_account","entry":[{"id":"1","time":5},7]}`, "unmapped: an entry without changes map[id:1 time:5]\nunmapped: an entry without changes map[]"},
		{"RUNNING", change("moon_phase_update", `{"phase":"secret"}`), `unmapped: field "moon_phase_update" map[entry:1 field:moon_phase_update]`},
		{"RUNNING", `{"object":"whatsapp_business_account","entry":[{"id":"1","changes":[7]}]}`, "unmapped: field map[entry:1 field:]"},
		{"RUNNING", change("messages", `{"statuses":[{"id":"w1","status":"sent"},{"id":"w2","status":"sent"}]}`),
			`unmapped: a change without a number, field "messages" map[entry:1 field:messages]` + "\n" + `unmapped: a change without a number, field "messages" map[entry:1 field:messages]`},
		{"RUNNING", change("messages", `{}`), `unmapped: a change without a number, field "messages" map[entry:1 field:messages]`},
		{"RUNNING", change("messages", `[]`), `unmapped: a change without a number, field "messages" map[entry:1 field:messages]`},
		{"RUNNING", of("statuses", `{"id":"w1","status":"pondered","timestamp":"1767614400","recipient_id":"77"}`),
			`unmapped: status "pondered" map[id:w1 recipient_id:77 status:pondered timestamp:1767614400]`},
		{"RUNNING", of("statuses", `{"status":"sent"}`), `unmapped: a status without a message "sent" map[status:sent]`},
		{"RUNNING", of("statuses", `"sent"`), `unmapped: status map[]`},
		{"RUNNING", of("messages", `{"id":"w1","text":{"body":"secret"},"type":"text"}`), `unmapped: a message without id or sender map[id:w1 type:text]`},
		{"RUNNING", change("smb_message_echoes", `{"metadata":{"display_phone_number":"155"},"message_echoes":[{"id":"w1"}]}`), `unmapped: an echo without id or recipient map[id:w1]`},
		{"RUNNING", change("smb_message_echoes", `{"metadata":{"display_phone_number":"155"}}`), `unmapped: a change without echoes, field "smb_message_echoes" map[entry:1 field:smb_message_echoes]`},
	})
	for _, body := range []string{"", "[]", "7", `{"object":`, `{"object":"whatsapp_business_account","entry":[{`} {
		if _, err := cloud.New().Read(t.Context(), source, &hub.MapMemory{}, request(body)); err == nil {
			t.Errorf("%q was read", body)
		}
	}
}

func TestWhatIsOfNoInterest(t *testing.T) {
	for _, field := range []string{"message_template_status_update", "message_template_quality_update", "account_alerts", "phone_number_name_update",
		"business_capability_update", "history", "smb_app_state_sync", "calls", "security", "account_review_update", "flows", "user_preferences"} {
		check(t, []row{{"RUNNING", change(field, `{"metadata":{"display_phone_number":"155"},"x":["secret"]}`), "ignored"}})
	}
	check(t, []row{
		{"RUNNING", of("messages", `{"id":"w1","from":"77","type":"reaction","reaction":{"message_id":"w0","emoji":"x"}}`), "ignored"},
		{"", of("messages", `{"id":"w1","from":"77","type":"reaction"}`), "ignored"},
		{"RUNNING", of("messages", `{"id":"w1","from":"77","type":"system"}`), "ignored"},
		{"RUNNING", of("messages", `{"id":"w1","from":"77","type":"text","group_id":"g"}`), "ignored"},
		{"RUNNING", of("errors", `{"code":130429}`), "ignored"},
		{"RUNNING", change("account_update", `{"event":"VERIFIED_ACCOUNT","phone_number":"155"}`), "ignored"},
		{"RUNNING", change("account_update", `{"event":"PARTNER_APP_INSTALLED"}`), "ignored"},
		{"RUNNING", change("phone_number_quality_update", `{"event":"THROUGHPUT_UPGRADE","display_phone_number":"155"}`), "ignored"},
	})
}

// TestBatches takes several entries, changes and units apart, numbers as texts and
// as numbers.
func TestBatches(t *testing.T) {
	body := `{"object":"whatsapp_business_account","entry":[
	  {"id":1,"time":"1767614430","changes":[
	    {"field":"messages","value":{"metadata":{"display_phone_number":"+1 55"},"statuses":[{"id":"w1","status":"sent","timestamp":1767614400},{"id":"w2","status":"odd"}],"messages":[{"id":"w3","from":77}]}},
	    {"field":"flows","value":{}}]},
	  {"id":"2","changes":[{"field":"messages","value":{"metadata":{"display_phone_number":156},"statuses":[{"id":"w4","status":"read"}]}}]}]}`
	want := strings.Join([]string{
		"c1:155 [w1/sent/1767614400] message_sent key=w1 at=2026-01-05T12:00:00Z",
		`unmapped: status "odd" map[id:w2 status:odd]`,
		`c1:155 [msg/w3] customer_message key=77 data={"message":"w3"} at=2026-01-05T12:00:30Z`,
		"ignored",
		"c1:156 [w4/read/] message_read key=w4",
	}, "\n")
	if got := say(t, "RUNNING", body); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

type broken struct{ hub.MapMemory }

var errBroken = errors.New("no answer")

func (*broken) PutNew(context.Context, string, string, string) (string, error) { return "", errBroken }
func (*broken) Keys(context.Context, string, string) ([]string, error)         { return nil, errBroken }

func TestWithoutMemoryThePlatformMustComeAgain(t *testing.T) {
	for _, body := range []string{of("statuses", `{"id":"w1","status":"sent"}`), change("account_update", `{"event":"ACCOUNT_DELETED"}`)} {
		var memory *connector.MemoryError
		if _, err := cloud.New().Read(t.Context(), source, &broken{}, request(body)); !errors.As(err, &memory) || !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := cloud.New().Read(t.Context(), source, &broken{}, request(change("account_update", `{"event":"ACCOUNT_DELETED","phone_number":"155"}`))); err != nil {
		t.Errorf("an event that names its number: %v", err)
	}
}
