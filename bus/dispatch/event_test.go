package dispatch

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

func TestCloudEvents(t *testing.T) {
	binary := func(typ, subject string) nats.Header {
		return nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"e%201"}, "ce-source": {"/s"}, "ce-type": {typ}, "ce-subject": {subject}, "Content-Type": {"application/json"}}
	}
	structured := nats.Header{"Content-Type": {"application/cloudevents+json; charset=UTF-8"}}
	for name, c := range map[string]struct {
		header nats.Header
		body   string
		fault  string // part of the reason; "" = judged
	}{
		"binary":                  {binary("muster.start", "acct-1"), `{"by":"user"}`, ""},
		"structured":              {structured, `{"specversion":"1.0","id":"e 1","source":"/s","type":"muster.start","subject":"acct-1","data":{"by":"user"}}`, ""},
		"another account":         {binary("muster.start", "acct-2"), "{}", `is about account "acct-2"`},
		"no account":              {binary("muster.start", ""), "{}", "subject is missing"},
		"another type":            {binary("com.example.odd", "acct-1"), "{}", "is not one of Muster's"},
		"Muster's own trigger":    {binary("muster.mark_stuck", "acct-1"), "{}", "is given by Muster itself"},
		"an unknown field":        {binary("muster.start", "acct-1"), `{"colour":"red"}`, `"colour" is no field`},
		"structured and cut off":  {structured, `{"specversion":`, "not a JSON object"},
		"structured and empty":    {structured, "", "not a JSON object"},
		"batches are for HTTP":    {nats.Header{"Content-Type": {"application/cloudevents-batch+json"}}, "[]", "is not known"},
		"a version that is later": {nats.Header{"CE-SpecVersion": {"2.0"}}, "{}", "specversion is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			judge := &fakeJudge{}
			r := newRig(t, Config{Judge: judge})
			got := r.ask(t, &nats.Msg{Subject: "muster.cmd.acct-1", Header: c.header, Data: []byte(c.body)})
			judged := judge.triggers()
			if got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("answered as %v", got.Header)
			}
			if c.fault != "" {
				if len(judged) != 0 || got.Header.Get(micro.ErrorCodeHeader) == "" || !strings.Contains(strings.ReplaceAll(string(got.Data), `\"`, `"`), c.fault) {
					t.Errorf("answered %s, judged %+v, want a reason with %s", got.Data, judged, c.fault)
				}
				return
			}
			if len(judged) != 1 || judged[0].ID != "/s#e 1" || judged[0].Name != "start" || judged[0].By != "user" || judged[0].Source != "/s" {
				t.Errorf("answered %s, judged %+v", got.Data, judged)
			}
		})
	}
}
