package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestVerdictsAreStatuses(t *testing.T) {
	s := shared(t)
	for _, c := range []struct {
		name, account, body string
		headers             []string
		status              int
		code, outcome, to   string
	}{
		{"applied", "acct-1", `{"trigger":"start","by":"user"}`, nil, 200, "", "applied", "CONNECTING"},
		{"noop", "acct-1", `{"trigger":"start"}`, nil, 200, "", "noop", "CONNECTING"},
		{"if-match", "acct-1", `{"trigger":"qr_received"}`, []string{"If-Match", `"2"`, "Idempotency-Key", "k-1"}, 200, "", "applied", "QR_REQUIRED"},
		{"duplicate", "acct-1", `{"trigger":"qr_received"}`, []string{"Idempotency-Key", `"k-1"`}, 200, "", "duplicate", "QR_REQUIRED"},
		{"if-match fails", "acct-1", `{"trigger":"qr_scanned"}`, []string{"If-Match", `"2"`}, 412, "precondition_failed", "conflict", "QR_REQUIRED"},
		{"if-none-match fails", "acct-1", `{"trigger":"qr_scanned"}`, []string{"If-None-Match", "*"}, 412, "precondition_failed", "conflict", "QR_REQUIRED"},
		{"if-none-match holds", "acct-2", `{"trigger":"start"}`, []string{"If-None-Match", "*"}, 200, "", "applied", "CONNECTING"},
		{"expect fails", "acct-1", `{"trigger":"qr_scanned","expect":2}`, nil, 409, "conflict", "conflict", "QR_REQUIRED"},
		{"rejected", "acct-1", `{"trigger":"probe_ok","id":"k-2"}`, nil, 422, "rejected", "rejected", "QR_REQUIRED"},
		{"duplicate of rejected", "acct-1", `{"trigger":"probe_ok","id":"k-2"}`, nil, 422, "rejected", "duplicate", "QR_REQUIRED"},
		{"epoch", "acct-1", `{"trigger":"qr_scanned","epoch":7,"seq":3}`, nil, 200, "", "applied", "SYNCING"},
		{"stale", "acct-1", `{"trigger":"qr_received","epoch":6}`, nil, 422, "stale", "stale", "SYNCING"},
		{"no such trigger", "acct-1", `{"trigger":"explode"}`, nil, 400, "invalid_request", "invalid", ""},
		{"unknown field", "acct-1", `{"trigger":"start","bogus":1}`, nil, 400, "invalid_request", "invalid", ""},
		{"secret", "acct-1", `{"trigger":"start","data":{"token":"x"}}`, nil, 400, "invalid_request", "invalid", ""},
		{"another account", "acct-1", `{"trigger":"start","account":"acct-9"}`, nil, 400, "invalid_request", "invalid", ""},
		{"no JSON", "acct-1", `rubbish`, nil, 400, "invalid_request", "invalid", ""},
		{"no body", "acct-1", ``, nil, 400, "invalid_request", "", ""},
		{"bad If-Match", "acct-1", `{"trigger":"start"}`, []string{"If-Match", `W/"2"`}, 400, "invalid_request", "", ""},
		{"If-Match of two", "acct-1", `{"trigger":"start"}`, []string{"If-Match", `"2","3"`}, 400, "invalid_request", "", ""},
		{"If-Match against expect", "acct-1", `{"trigger":"start","expect":4}`, []string{"If-Match", `"2"`}, 400, "invalid_request", "", ""},
		{"both preconditions", "acct-1", `{"trigger":"start"}`, []string{"If-Match", `"2"`, "If-None-Match", "*"}, 400, "invalid_request", "", ""},
		{"key against id", "acct-1", `{"trigger":"start","id":"x"}`, []string{"Idempotency-Key", "y"}, 400, "invalid_request", "", ""},
		{"another type", "acct-1", `{"trigger":"start"}`, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type", "", ""},
		{"too large", "acct-1", `{"trigger":"start","key":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "too_large", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.do(http.MethodPost, "/v1/accounts/"+c.account+"/triggers", c.body, c.headers...)
			a.want(t, c.status)
			if c.code == "" {
				var v struct {
					Outcome, To string
					Version     uint64
					AsOf        map[string]uint64 `json:"as_of"`
				}
				a.read(t, &v)
				if v.Outcome != c.outcome || v.To != c.to || len(v.AsOf) != 1 {
					t.Errorf("got %s", a.body)
				}
				if want := fmt.Sprintf("%q", fmt.Sprint(v.Version)); a.header.Get("ETag") != want {
					t.Errorf("ETag %s, want %s", a.header.Get("ETag"), want)
				}
				return
			}
			p := a.problem(t, c.code)
			if got := ""; p.Verdict != nil {
				if got = p.Verdict.Outcome; got != c.outcome || p.Verdict.To != c.to {
					t.Errorf("verdict %+v, want %s to %s", p.Verdict, c.outcome, c.to)
				}
			} else if c.outcome != "" {
				t.Errorf("no verdict in %s", a.body)
			}
		})
	}
}

func TestIdsInPathsArePercentEncoded(t *testing.T) {
	s := shared(t)
	for _, id := range []string{"+15550100001", "15550100001@s.whatsapp.net", "a/b c", "a%2Fb", "日本", "..", ".", "a?b#c", `"quoted"`} {
		path := "/v1/accounts/" + strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
		a := s.do(http.MethodPost, path+"/triggers", `{"trigger":"start"}`)
		a.want(t, http.StatusOK)
		var acct struct{ ID, State string }
		s.do(http.MethodGet, path, "", "Muster-Wait-For", a.header.Get("Muster-As-Of")).read(t, &acct)
		if acct.ID != id || acct.State != "CONNECTING" {
			t.Errorf("account %q: got %+v", id, acct)
		}
		var line struct{ Account string }
		s.get(path+"/timeline", &line)
		if line.Account != id {
			t.Errorf("timeline of %q is that of %q", id, line.Account)
		}
	}
}

func TestETagOfAnAccount(t *testing.T) {
	s := shared(t)
	asOf := s.sent("acct-1", "start", "qr_received")
	a := s.get("/v1/accounts/acct-1?wait_for="+asOf, nil)
	if got := a.header.Get("ETag"); got != `"2"` {
		t.Fatalf("ETag %s, want \"2\"", got)
	}
	same := s.do(http.MethodGet, "/v1/accounts/acct-1", "", "If-None-Match", `"2"`)
	if same.want(t, http.StatusNotModified); len(same.body) != 0 {
		t.Errorf("304 with a body: %s", same.body)
	}
	s.do(http.MethodGet, "/v1/accounts/acct-1", "", "If-None-Match", `"1"`).want(t, http.StatusOK)
}

func TestWaitingForOnesOwnWrite(t *testing.T) {
	s := shared(t)
	for i := range 50 {
		asOf := s.sent(fmt.Sprint("acct-", i), "start")
		var page struct{ Accounts []any }
		s.get("/v1/accounts?limit=1000&wait_for="+asOf, &page)
		if len(page.Accounts) != i+1 {
			t.Fatalf("after %d writes %d accounts are listed", i+1, len(page.Accounts))
		}
	}
	// as_of of an answer is taken as it stands.
	var got struct {
		AsOf json.RawMessage `json:"as_of"`
	}
	s.get("/v1/stats", &got)
	s.get("/v1/stats?wait_for="+url.QueryEscape(string(got.AsOf)), nil)
	for _, bad := range []string{"x", "0", "0:x", "0:1,0:2", "-1:2", `{"0":`, "200:1"} {
		s.do(http.MethodGet, "/v1/stats?wait_for="+url.QueryEscape(bad), "").problem(t, "invalid_request")
	}
}

func TestPagesOfAccounts(t *testing.T) {
	s := shared(t)
	var asOf string
	for i := range 25 {
		body := fmt.Sprintf(`{"trigger":"start","source":"waha-%d","labels":{"pool":"p%d"}}`, i%2, i%5)
		asOf = s.trigger(fmt.Sprintf("acct-%02d", i), body, http.StatusOK).header.Get("Muster-As-Of")
		s.get("/v1/stats?wait_for="+asOf, nil)
	}
	for query, want := range map[string]int{
		"":                                  25,
		"label=pool=p3":                     5,
		"label=pool%3Dp3&source=waha-1":     3,
		"state=CONNECTING":                  25,
		"class=human":                       0,
		"prefix=acct-1":                     10,
		"prefix=acct-1&label=pool=p0":       2,
		"since_before=2020-01-01T00:00:00Z": 0,
		"desired=run&machine=whatsapp@2":    25,
	} {
		seen, after := []string{}, ""
		for range 30 {
			var page struct {
				Accounts []struct{ ID string }
				Next     string
			}
			s.get("/v1/accounts?limit=4&"+query+"&after="+url.QueryEscape(after), &page)
			for _, a := range page.Accounts {
				seen = append(seen, a.ID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		ascending := true
		for i := 1; i < len(seen); i++ {
			ascending = ascending && seen[i-1] < seen[i]
		}
		if len(seen) != want || !ascending {
			t.Errorf("%q: %d accounts %v, want %d, ascending", query, len(seen), seen, want)
		}
	}
	var f struct {
		Accounts int
		Labels   map[string]map[string]int
		Sources  map[string]int
	}
	s.get("/v1/facets?label=pool=p3", &f)
	if f.Accounts != 5 || f.Sources["waha-0"] != 2 || f.Sources["waha-1"] != 3 || f.Labels["pool"]["p3"] != 5 {
		t.Errorf("facets of pool p3: %+v", f)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "label=pool", "label=a=1&label=a=2", "desired=maybe", "bogus=1", "since_from=yesterday"} {
		p := s.do(http.MethodGet, "/v1/accounts?"+bad, "").problem(t, "invalid_request")
		if name, _, _ := strings.Cut(bad, "="); !strings.Contains(p.Detail, name) {
			t.Errorf("%s: the detail %q does not name the parameter", bad, p.Detail)
		}
	}
}

// TestHTTPAndNATSGiveTheSame asks every question that takes no parameter both
// ways, and compares the JSON.
func TestHTTPAndNATSGiveTheSame(t *testing.T) {
	s := shared(t)
	asOf := s.sent("acct-1", "start", "qr_received", "qr_scanned", "sync_completed")
	s.get("/v1/stats?wait_for="+asOf, nil)
	nc, err := s.app.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, c := range []struct{ path, query, request string }{
		{"/v1/accounts", "accounts.list", `{}`},
		{"/v1/accounts/acct-1", "accounts.get", `{"account":"acct-1"}`},
		{"/v1/accounts/acct-1/can?do=send&scope=new_chats", "can", `{"account":"acct-1","do":"send","scope":"new_chats"}`},
		{"/v1/accounts/acct-1/timeline?limit=2", "timeline", `{"account":"acct-1","limit":2}`},
		{"/v1/facets", "accounts.facets", `{}`},
		{"/v1/distribution", "distribution", `{}`},
		{"/v1/distribution/history?step=hour", "distribution.history", `{"step":"hour"}`},
		{"/v1/transitions", "transitions", `{}`},
		{"/v1/time-to-running?by=source", "time-to-running", `{"by":"source"}`},
		{"/v1/route?do=send", "route", `{"do":"send"}`},
		{"/v1/messages", "messages.list", `{}`},
		{"/v1/conversations", "conversations.list", `{}`},
		{"/v1/attention", "attention.list", `{}`},
		{"/v1/machines", "machines", `{}`},
		{"/v1/machines/whatsapp@2", "machines", `{"name":"whatsapp@2"}`},
		{"/v1/workers", "workers", `{}`},
		{"/v1/connectors", "connectors", `{}`},
		{"/v1/alerts", "alerts.list", `{}`},
		{"/v1/alerts/deliveries", "alerts.deliveries", `{}`},
		{"/v1/inbox", "inbox.list", `{}`},
		{"/v1/digest", "digest", `{}`},
	} {
		m, err := nc.Request("muster.q."+c.query, []byte(c.request), within)
		if err != nil {
			t.Fatalf("%s: %v", c.query, err)
		}
		var overHTTP, overNATS any
		s.get(c.path, &overHTTP)
		if err := json.Unmarshal(m.Data, &overNATS); err != nil {
			t.Fatal(err)
		}
		if c.path == "/v1/machines/whatsapp@2" {
			overNATS = overNATS.(map[string]any)["machines"].([]any)[0]
		}
		if c.query == "transitions" { // it holds how many there were in the last minute
			delete(overHTTP.(map[string]any), "last_minute")
			delete(overNATS.(map[string]any), "last_minute")
		}
		if !reflect.DeepEqual(overHTTP, overNATS) {
			t.Errorf("%s and %s differ:\n%v\n%v", c.path, c.query, overHTTP, overNATS)
		}
	}
}

func TestClaimOfAMessage(t *testing.T) {
	s := shared(t)
	s.sent("acct-1", "start")
	s.trigger("acct-1", `{"trigger":"customer_message","key":"c/1","data":{"message":"m-1"}}`, http.StatusOK)
	const path = "/v1/accounts/acct-1/conversations/c%2F1/claims"
	body := func(handler string) string {
		return fmt.Sprintf(`{"message":"m-1","side":"bot","handler":%q}`, handler)
	}
	var got struct {
		Granted        bool
		Outcome, State string
		Contact        string
	}
	for _, c := range []struct{ handler, outcome string }{{"bot-1", "applied"}, {"bot-1", "noop"}} {
		s.do(http.MethodPost, path, body(c.handler)).read(t, &got)
		if !got.Granted || got.Outcome != c.outcome || got.State != "BOT" || got.Contact != "c/1" {
			t.Errorf("claim by %s: %+v, want granted, %s", c.handler, got, c.outcome)
		}
	}
	if p := s.do(http.MethodPost, path, body("bot-2")).problem(t, "rejected"); p.Verdict.Reason != "already_claimed" {
		t.Errorf("a second handler gets %+v", p.Verdict)
	}
	s.do(http.MethodPost, path, `{"message":"m-1","side":"parrot","handler":"x"}`).problem(t, "invalid_request")
	s.do(http.MethodPost, path, `{"message":"m-1","side":"bot","handler":"x","more":1}`).problem(t, "invalid_request")
}

func TestDiagramsAreText(t *testing.T) {
	s := shared(t)
	for query, begins := range map[string]string{"": "stateDiagram", "?format=dot": "digraph"} {
		a := s.get("/v1/machines/whatsapp@1/diagram"+query, nil)
		if !strings.Contains(string(a.body), begins) || !strings.Contains(string(a.body), "RECONNECTING") {
			t.Errorf("%q: %.80s", query, a.body)
		}
		if got := a.header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
			t.Errorf("content type %q", got)
		}
	}
	s.do(http.MethodGet, "/v1/machines/nokia@1/diagram", "").problem(t, "not_found")
}

func TestOperatorsMuteAndAcknowledge(t *testing.T) {
	s := shared(t)
	var done struct{ ID, By, Action string }
	a := s.do(http.MethodPost, "/v1/actions", `{"action":"mute","target":{"source":"waha-1"},"by":"anna","reason":"maintenance"}`)
	a.want(t, http.StatusOK)
	if a.read(t, &done); done.By != "anna" || done.Action != "mute" || done.ID == "" {
		t.Errorf("got %s", a.body)
	}
	s.do(http.MethodPost, "/v1/actions", `{"action":"shout","target":{},"by":"anna"}`).problem(t, "invalid_request")
	s.do(http.MethodPost, "/v1/actions", `{"action":"mute","target":{"colour":"red"},"by":"anna"}`).problem(t, "invalid_request")
}

func TestDocumentsPageIsOff(t *testing.T) {
	s := shared(t)
	for _, path := range []string{"/docs", "/v1/docs", "/schemas/Problem.json"} {
		if a := s.do(http.MethodGet, path, ""); a.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// TestUnknownParameters: what a path does not take is refused with what it takes.
func TestUnknownParameters(t *testing.T) {
	s := shared(t)
	for path, want := range map[string]string{
		"/v1/messages?colour=red": "query.colour: unknown query parameter; this path takes ",
		"/v1/machines?colour=red": "query.colour: unknown query parameter; this path takes none",
	} {
		if got := s.do(http.MethodGet, path, "").problem(t, "invalid_request").Detail; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := s.do(http.MethodGet, "/v1/messages?colour=red", "").problem(t, "invalid_request").Detail; !strings.Contains(got, "limit") {
		t.Errorf("%q does not name the parameter limit", got)
	}
}

// TestFlapping: an account that comes and goes is told with how often it was lost,
// and with its condition.
func TestFlapping(t *testing.T) {
	s := shared(t)
	s.sent("acct-1", "start", "qr_received", "qr_scanned", "sync_completed")
	for range 6 {
		s.sent("acct-1", "connection_lost", "connection_ready")
	}
	asOf := s.sent("acct-2", "start", "connection_lost")
	var got struct {
		Flapping struct {
			Accounts          int
			Machines, Sources map[string]int
			Window            float64 `json:"window_s"`
			Whole             bool
			Lost              []struct {
				Account, State, Source string
				Times                  int
				Flapping               bool
			}
		}
	}
	s.get("/v1/transitions?window=10m&wait_for="+asOf, &got)
	f := got.Flapping
	if f.Accounts != 1 || f.Machines["whatsapp@2"] != 1 || f.Sources[""] != 1 || f.Window != 600 || !f.Whole || len(f.Lost) != 1 {
		t.Fatalf("flapping: %+v", f)
	}
	if l := f.Lost[0]; l.Account != "acct-1" || l.Times != 6 || l.State != "RUNNING" || l.Source != "" || !l.Flapping {
		t.Errorf("lost: %+v", l)
	}
	for _, bad := range []string{"x", "-1m", "0s", "2h"} {
		s.do(http.MethodGet, "/v1/transitions?window="+bad, "").problem(t, "invalid_request")
	}
}
