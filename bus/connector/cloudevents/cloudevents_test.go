package cloudevents_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/cloudevents"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

var (
	conn   = cloudevents.New(domain.NewJudge(lifecycle.Registry()))
	source = &connector.Source{Kind: "cloudevents", Name: "cloudevents", Secrets: []string{"old", "s"}}
)

func TestSequences(t *testing.T) {
	connectortest.Play(t, conn, "../connectortest/testdata/cloudevents")
}

// request has the headers given as "Name: value".
func request(body string, headers ...string) *connector.Request {
	r := &connector.Request{Method: http.MethodPost, Header: http.Header{"Authorization": {"Bearer s"}}, Body: []byte(body), At: 5e9}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func structured(body string) *connector.Request {
	return request(body, "Content-Type: application/cloudevents+json; charset=UTF-8")
}

func say(t *testing.T, r *connector.Request) string {
	t.Helper()
	return strings.Join(connectortest.Say(t, conn, source, r, nil), "\n")
}

// event is a structured event with further members.
func event(typ, rest string) string {
	return `{"specversion":"1.0","id":"e","source":"/s","type":"` + typ + `","subject":"acct"` + rest + `}`
}

// headers are those of a binary event, and further ones.
func headers(typ string, more ...string) []string {
	return append([]string{"ce-specversion: 1.0", "ce-id: e", "ce-source: /s", "ce-type: " + typ, "ce-subject: acct", "Content-Type: application/json"}, more...)
}

func TestBinary(t *testing.T) {
	for _, c := range []struct {
		r    *connector.Request
		want string
	}{
		{request("", headers("muster.start")...), "acct [/s#e] start"},
		{request("  \n", headers("muster.start")...), "acct [/s#e] start"},
		{request("null", headers("muster.start")...), "acct [/s#e] start"},
		{request("{}", headers("muster.start", "ce-time: 2026-01-05T12:00:00.5Z", "ce-epoch: 7", "ce-sequence: 0012")...), "acct [/s#e] start epoch=7 seq=12 at=2026-01-05T12:00:00.5Z"},
		{request(`{"by":"user","reason":{"code":"515","text":"x"}}`, headers("muster.connection_lost")...), "acct [/s#e] connection_lost by=user code=515 text=x"},
		{request(`{"key":"c","data":{"message":"m"}}`, headers("muster.customer_message")...), `acct [/s#e] customer_message key=c data={"message":"m"}`},
		{request("", "CE-SPECVERSION: 1.0", "Ce-Id: e", "cE-source: /s", "ce-TYPE: muster.stop", "ce-subject: acct"), "acct [/s#e] stop"},
		// Values may be quoted and percent-encoded; what is no escape stays as it is.
		{request("", "ce-specversion: 1.0", `ce-id: "a\"b"`, "ce-source: /s%20%E2%82%AC", "ce-type: muster.stop", "ce-subject: 100%25"), `100% [/s €#a"b] stop`},
		{request("", "ce-specversion: 1.0", "ce-id: 50%", "ce-source: %zz%41", "ce-type: muster.stop", "ce-subject: +155"), "+155 [%zzA#50%] stop"},
		{request("not JSON", "ce-specversion: 1.0", "ce-id: e", "ce-source: /s", "ce-type: com.example.odd", "Content-Type: text/plain"), `unmapped: type "com.example.odd" map[id:e source:/s type:com.example.odd]`},
		{request(`{"secret":1}`, headers("musterly.start")...), `unmapped: type "musterly.start" map[id:e source:/s subject:acct type:musterly.start]`},
	} {
		if got := say(t, c.r); got != c.want {
			t.Errorf("%v\n got %s\nwant %s", c.r.Header, got, c.want)
		}
	}
}

func TestStructured(t *testing.T) {
	for body, want := range map[string]string{
		event("muster.start", ""): "acct [/s#e] start",
		event("muster.start", `,"data":null,"time":null,"epoch":null,"sequence":null`):         "acct [/s#e] start",
		event("muster.start", `,"epoch":7,"sequence":"12","time":"2026-01-05T13:00:00+01:00"`): "acct [/s#e] start epoch=7 seq=12 at=2026-01-05T12:00:00Z",
		event("muster.start", `,"epoch":"9223372036854775807","sequence":0`):                   "acct [/s#e] start epoch=9223372036854775807",
		event("muster.adopt", `,"data":{"data":{"state":"RUNNING"},"labels":{"pool":"eu"}}`):   `acct [/s#e] adopt data={"state":"RUNNING"}`,
		event("muster.start", `,"data_base64":"eyJieSI6InVzZXIifQ=="`):                         "acct [/s#e] start by=user",
		event("muster.start", `,"extension":{"of":["any","form"]},"partitionkey":7`):           "acct [/s#e] start",
		event("com.example.odd", `,"data":"secret"`):                                           `unmapped: type "com.example.odd" map[id:e source:/s subject:acct type:com.example.odd]`,
		`{"specversion":"1.0","id":"e","source":"/s","type":"odd"}`:                            `unmapped: type "odd" map[id:e source:/s type:odd]`,
	} {
		if got := say(t, structured(body)); got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
}

func TestWordsAreKept(t *testing.T) {
	body := event("muster.start", `,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","data":{"by":"us","labels":{"pool":"eu"},"machine":"whatsapp@1","mode":"supervise","expect":3}`)
	list, err := conn.Read(t.Context(), source, nil, structured(body))
	if err != nil || len(list) != 1 || !list[0].Verbatim {
		t.Fatalf("%+v, %v", list, err)
	}
	got := list[0].Map(nil)[0]
	if got.Source != "/s" || got.ID != "/s#e" || got.By != "us" || got.Labels["pool"] != "eu" || got.Machine != "whatsapp@1" || got.Mode != "supervise" || got.Expect != 3 || got.HasAt ||
		got.Traceparent != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" {
		t.Errorf("%+v", got)
	}
}

// bad are events that are meant for Muster and are none, and the beginning of
// what is said about them.
var bad = map[string]string{
	`{"id":"e","source":"/s","type":"muster.start","subject":"a"}`:                           "specversion is missing",
	`{"specversion":"0.3","id":"e","source":"/s","type":"muster.start","subject":"a"}`:       "specversion is not known",
	`{"specversion":1.0,"id":"e","source":"/s","type":"muster.start","subject":"a"}`:         "specversion is not a text",
	`{"specversion":"1.0","source":"/s","type":"muster.start","subject":"a"}`:                "id is missing",
	`{"specversion":"1.0","id":"","source":"/s","type":"odd"}`:                               "id is missing",
	`{"specversion":"1.0","id":7,"source":"/s","type":"muster.start","subject":"a"}`:         "id is not a text",
	`{"specversion":"1.0","id":"e","type":"muster.start","subject":"a"}`:                     "source is missing",
	`{"specversion":"1.0","id":"e","source":"/s","subject":"a"}`:                             "type is missing",
	`{"specversion":"1.0","id":"e","source":"/s","type":"muster.start"}`:                     "subject is missing",
	`{"specversion":"1.0","id":"e","source":"/s","type":"muster.start","subject":"a\u0000"}`: "subject: contains",
	`{"specversion":"1.0","id":"e","source":"muster","type":"muster.start","subject":"a"}`:   "source: the name muster",
	event("muster.levitate", ""):                                 `trigger: "levitate" is not known`,
	event("muster.", ""):                                         "type: is missing",
	event("muster.mark_stuck", ""):                               "type: mark_stuck is given by Muster itself",
	event("muster.vouch_lost", ""):                               "type: vouch_lost is given by Muster itself",
	event("muster.start", `,"time":"yesterday"`):                 "time: ",
	event("muster.start", `,"time":5`):                           "time is not a text",
	event("muster.start", `,"epoch":-1`):                         "epoch: want a decimal number",
	event("muster.start", `,"epoch":"0x7"`):                      "epoch: want a decimal number",
	event("muster.start", `,"sequence":1.5`):                     "sequence: want a decimal number",
	event("muster.start", `,"sequence":"9223372036854775808"`):   "sequence: want a decimal number",
	event("muster.start", `,"sequence":[1]`):                     "sequence: want a decimal number",
	event("muster.start", `,"data":[1]`):                         "data is not a JSON object",
	event("muster.start", `,"data":"{}"`):                        "data is not a JSON object",
	event("muster.start", `,"data":{"colour":"red"}`):            `data: "colour" is no field of it`,
	event("muster.start", `,"data":{"account":"other"}`):         `data: "account" is no field of it`,
	event("muster.start", `,"data":{"source":"other"}`):          `data: "source" is no field of it`,
	event("muster.start", `,"data":{"by":"user","by":"us"}`):     "by: is there twice",
	event("muster.start", `,"data":{"by":"nobody"}`):             "by: want user, us, remote or unknown",
	event("muster.start", `,"data":{"expect":-5}`):               "expect: ",
	event("muster.start", `,"data":{"machine":"pigeon@1"}`):      "machine: ",
	event("muster.start", `,"data":{"data":{"token":"s3cret"}}`): "data.token: ",
	event("muster.message_sent", ""):                             "key: is missing",
	event("muster.adopt", ""):                                    "data.state: is missing",
	event("muster.start", `,"data":{},"data_base64":"e30="`):     "data is there twice",
	event("muster.start", `,"data_base64":"%%"`):                 "data_base64 is not base64",
	event("muster.start", `,"data_base64":7`):                    "data_base64 is not a text",
	event("muster.start", `,"data_base64":"WzFd"`):               "data is not a JSON object",
	`[1]`: "it is not a JSON object", `null`: "it is not a JSON object", `{"specversion":`: "it is not a JSON object", "": "it is not a JSON object",
}

func TestBadEvents(t *testing.T) {
	for body, want := range bad {
		_, err := conn.Read(t.Context(), source, nil, structured(body))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s…", body, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error quotes a secret: %v", body, err)
		}
		if body == "" || strings.HasSuffix(body, ":") { // no element of a list
			continue
		}
		good := event("muster.start", "")
		_, err = conn.Read(t.Context(), source, nil, request("["+good+","+body+"]", "Content-Type: application/cloudevents-batch+json"))
		if err == nil || !strings.HasPrefix(err.Error(), "event 2: "+want) {
			t.Errorf("%s in a batch: %v, want event 2: %s…", body, err, want)
		}
	}
}

func TestBadBinaryEvents(t *testing.T) {
	for want, r := range map[string]*connector.Request{
		"specversion is missing":           request(`{"trigger":"start"}`, "Content-Type: application/json"),
		"id is missing":                    request("", "ce-specversion: 1.0", "ce-source: /s", "ce-type: muster.start", "ce-subject: a"),
		"subject is missing":               request("", "ce-specversion: 1.0", "ce-id: e", "ce-source: /s", "ce-type: muster.start", "ce-subject: "),
		"subject is there twice":           request("", headers("muster.start", "ce-subject: b")...),
		"extra is not valid UTF-8":         request("", headers("muster.start", "ce-extra: %ff")...),
		"data is not a JSON object":        request("order=5", headers("muster.start")...),
		`data: "order" is no field`:        request(`{"order":5}`, headers("muster.start")...),
		"epoch: want a decimal number":     request("", headers("muster.start", "ce-epoch: seven")...),
		"events in this format are not":    request("", "Content-Type: application/cloudevents+avro"),
		"the body is not a JSON list":      request(event("muster.start", ""), "Content-Type: application/cloudevents-batch+json"),
		`trigger: "levitate" is not known`: request("", headers("muster.levitate")...),
	} {
		if _, err := conn.Read(t.Context(), source, nil, r); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s…", err, want)
		}
	}
}

func TestBatches(t *testing.T) {
	const batch = "Content-Type: application/cloudevents-batch+json; charset=utf-8"
	if got := say(t, request("[]", batch)); got != "" {
		t.Errorf("an empty batch: %s", got)
	}
	body := "[" + event("muster.start", "") + "," + strings.ReplaceAll(event("muster.stop", ""), `"acct"`, `"acct-2"`) + "," + event("odd", "") + "]"
	want := "acct [/s#e] start\nacct-2 [/s#e] stop\n" + `unmapped: type "odd" map[id:e source:/s subject:acct type:odd]`
	if got := say(t, request(body, batch)); got != want {
		t.Errorf("got %s", got)
	}
}

func TestHandshake(t *testing.T) {
	options := func(headers ...string) connector.Answer {
		r := request("", headers...)
		r.Method = http.MethodOptions
		r.Header.Del("Authorization")
		a, ok := conn.Shake(source, r)
		if !ok {
			t.Fatal("OPTIONS was taken for an event")
		}
		return a
	}
	a := options("WebHook-Request-Origin: fleet.example")
	if a.Status != 200 || strings.Join(a.Header["WebHook-Allowed-Origin"], "|") != "fleet.example" || len(a.Header["WebHook-Allowed-Rate"]) != 0 || a.Header.Get("Allow") == "" {
		t.Errorf("%+v", a)
	}
	if a := options("WebHook-Request-Origin: fleet.example", "WebHook-Request-Rate: 120"); strings.Join(a.Header["WebHook-Allowed-Rate"], "|") != "*" {
		t.Errorf("with a rate: %+v", a)
	}
	if a := options(); a.Status != 400 {
		t.Errorf("without an origin: %+v", a)
	}
	if _, ok := conn.Shake(source, structured(event("muster.start", ""))); ok {
		t.Error("a POST was taken for a handshake")
	}
}

func TestProof(t *testing.T) {
	for token, want := range map[string]bool{"Bearer s": true, "Bearer old": true, "Bearer nope": false, "": false} {
		err := conn.Authentic(source, &connector.Request{Header: http.Header{"Authorization": {token}}})
		if (err == nil) != want {
			t.Errorf("%q: %v", token, err)
		}
	}
}
