package plain_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/plain"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

var (
	conn   = plain.New(domain.NewJudge(lifecycle.Registry()))
	source = &connector.Source{Kind: "plain", Name: "p1", Secrets: []string{"s"}}
)

func TestSequences(t *testing.T) { connectortest.Play(t, conn, "testdata") }

func request(media, body string) *connector.Request {
	return &connector.Request{Method: http.MethodPost, Header: http.Header{"Authorization": {"Bearer s"}, "Content-Type": {media}}, Body: []byte(body), At: 5e9}
}

func TestOneObject(t *testing.T) {
	for _, media := range []string{"application/json", "application/json; charset=utf-8", "application/x-www-form-urlencoded", "", "nonsense;;"} {
		got := connectortest.Say(t, conn, source, request(media, "{\"account\":\"acct-1\",\n \"trigger\":\"start\",\"by\":\"user\",\"epoch\":3,\"seq\":4,\"reason\":{\"code\":\"1\",\"text\":\"x\"}}\n"), nil)
		if len(got) != 1 || got[0] != "acct-1 [] start epoch=3 seq=4 by=user code=1 text=x" {
			t.Errorf("%q: %v", media, got)
		}
	}
}

func TestLines(t *testing.T) {
	body := `{"id":"a","account":"acct-1","trigger":"customer_message","key":"c","data":{"message":"m"},"at":"2026-01-05T12:00:00Z"}` + "\n\n  \r\n" +
		`{"account":"acct-2","trigger":"stop","source":"p1/part"}` + "\r\n" +
		`{"account":"acct-1","trigger":"start"}`
	want := []string{
		`acct-1 [a] customer_message key=c data={"message":"m"} at=2026-01-05T12:00:00Z`,
		"acct-2 [] stop", "acct-1 [] start",
	}
	for _, media := range []string{"application/x-ndjson", "application/x-ndjson; charset=utf-8", "Application/NDJSON", "application/jsonl"} {
		got := connectortest.Say(t, conn, source, request(media, body), nil)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: got %s", media, strings.Join(got, "\n"))
		}
	}
}

func TestWordsAreKept(t *testing.T) {
	list, err := conn.Read(t.Context(), source, nil, request("application/x-ndjson",
		`{"account":"a","trigger":"start","expect":5,"machine":"whatsapp@1","mode":"supervise","labels":{"pool":"eu"}}`+"\n"+`{"account":"a","trigger":"start","source":"p1/x"}`))
	if err != nil || len(list) != 2 || !list[0].Verbatim || !list[1].Verbatim {
		t.Fatalf("%+v, %v", list, err)
	}
	one, two := list[0].Map(nil)[0], list[1].Map(nil)[0]
	if one.Expect != 5 || one.Machine != "whatsapp@1" || one.Mode != "supervise" || one.Labels["pool"] != "eu" || one.Source != "p1" || one.HasAt {
		t.Errorf("%+v", one)
	}
	if two.Expect != domain.NoExpect || two.Source != "p1/x" {
		t.Errorf("%+v", two)
	}
}

func TestInvalidLinesAreNamed(t *testing.T) {
	good := `{"account":"a","trigger":"start"}` + "\n"
	for line, want := range map[string]string{
		`{"account":"a","trigger":"levitate"}`:                                "trigger: ",
		`{"account":"a","trigger":"start","colour":"red"}`:                    "colour: ",
		`{"account":"a","trigger":"start","trigger":"stop"}`:                  "trigger: ",
		`{"account":"","trigger":"start"}`:                                    "account: ",
		`{"trigger":"start"}`:                                                 "account: ",
		`{"account":"a","trigger":"mark_stuck"}`:                              "trigger: ",
		`{"account":"a","trigger":"start","source":"muster"}`:                 "source: ",
		`{"account":"a","trigger":"start","source":"other"}`:                  "source: ",
		`{"account":"a","trigger":"start","source":"p12"}`:                    "source: ",
		`{"account":"a","trigger":"start","epoch":-1}`:                        "epoch: ",
		`{"account":"a","trigger":"start","machine":"pigeon@1"}`:              "machine: ",
		`{"account":"a","trigger":"start","data":{"token":"s3cret"}}`:         "data.token: ",
		`{"account":"a","trigger":"message_sent"}`:                            "key: ",
		`{"account":"a","trigger":"start"} {"account":"b","trigger":"start"}`: "not JSON",
		`{"account":"a","trigger":`:                                           "not JSON",
		`[{"account":"a","trigger":"start"}]`:                                 "not JSON",
	} {
		_, err := conn.Read(t.Context(), source, nil, request("application/x-ndjson", good+"\n"+line+"\n"+good))
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: "+want) {
			t.Errorf("%s: %v, want line 3: %s…", line, err, want)
		}
		_, err = conn.Read(t.Context(), source, nil, request("application/json", line))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s alone: %v, want %s…", line, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error quotes a secret: %v", line, err)
		}
	}
	for _, body := range []string{"", "\n\n"} {
		if _, err := conn.Read(t.Context(), source, nil, request("application/x-ndjson", body)); err == nil {
			t.Errorf("%q was read", body)
		}
	}
	if _, err := conn.Read(t.Context(), source, nil, request("application/json", "")); err == nil {
		t.Error("an empty body was read")
	}
}
