package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/cmd/internal/auth"
	"github.com/musterhq/muster/cmd/internal/httpapi"
	"github.com/musterhq/muster/domain"
)

// described is the document, read by a library that knows nothing of us.
func described(t *testing.T) validator.Validator {
	t.Helper()
	a, err := httpapi.New(httpapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := libopenapi.NewDocument(a.JSON())
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	t.Cleanup(v.Release)
	return v
}

func TestTheDocumentIsValid(t *testing.T) {
	ok, errs := described(t).ValidateDocument()
	if !ok {
		t.Fatal(errs)
	}
}

func TestTheDocumentSaysWhoMay(t *testing.T) {
	a, err := httpapi.New(httpapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Role        string `json:"x-role"`
			Summary     string
		}
	}
	if err := json.Unmarshal(a.JSON(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("the document is OpenAPI %s", doc.OpenAPI)
	}
	documented := 0
	for _, r := range httpapi.Routes() {
		if strings.HasPrefix(r.Path, "/openapi") {
			continue
		}
		documented++
		op := doc.Paths[r.Path][strings.ToLower(r.Method)]
		if op.OperationID != r.ID || op.Role != string(r.Role) || op.Summary == "" {
			t.Errorf("%s %s: the document says %+v, the table %+v", r.Method, r.Path, op, r)
		}
	}
	if documented < 35 {
		t.Errorf("only %d routes", documented)
	}
}

// TestRolesAreThoseOfTheBus holds some routes to the roles that their question, or
// what they do, needs.
func TestRolesAreThoseOfTheBus(t *testing.T) {
	want := map[string]auth.Role{
		"sendTrigger": auth.Connector, "sendTriggers": auth.Connector, "claim": auth.Connector,
		"getAccount": auth.Any, "can": auth.Any, "listCodes": auth.Any,
		"listAccounts": auth.Reader, "stats": auth.Reader, "stream": auth.Reader, "timeline": auth.Reader,
		"act": auth.Operator, "resendAlerts": auth.Operator, "retryInbox": auth.Operator, "dropInbox": auth.Operator,
		"createToken": auth.Admin, "listTokens": auth.Admin, "revokeToken": auth.Admin,
	}
	for _, r := range httpapi.Routes() {
		if need, named := want[r.ID]; named && r.Role != need {
			t.Errorf("%s needs %s, want %s", r.ID, r.Role, need)
		}
		delete(want, r.ID)
	}
	if len(want) > 0 {
		t.Errorf("there are no routes %v", want)
	}
}

// TestAnswersAreAsDescribed holds real answers of every operation, and problems, to
// the document.
func TestAnswersAreAsDescribed(t *testing.T) {
	v := described(t)
	s := shared(t)
	s.sent("acct-1", "start", "qr_received", "qr_scanned", "sync_completed")
	s.trigger("acct-1", `{"trigger":"rate_limited","data":{"until":"2099-01-01T00:00:00Z"}}`, http.StatusOK)
	s.trigger("acct-1", `{"trigger":"message_sent","key":"m-1"}`, http.StatusOK)
	s.trigger("acct-2", `{"trigger":"start","mode":"supervise","machine":"whatsapp@1","labels":{"pool":"eu"}}`, http.StatusOK)
	s.trigger("acct-1", `{"trigger":"qr_expired"}`, http.StatusUnprocessableEntity)
	asOf := s.trigger("acct-1", `{"trigger":"customer_message","key":"c-1","data":{"message":"q-1"}}`, http.StatusOK).header.Get("Muster-As-Of")
	s.get("/v1/stats?wait_for="+asOf, nil)
	seen := map[string]bool{}
	for _, c := range []struct{ method, path, id, body string }{
		{"GET", "/v1/accounts?limit=10&label=pool=eu", "listAccounts", ""}, {"GET", "/v1/accounts", "listAccounts", ""},
		{"GET", "/v1/accounts/acct-1", "getAccount", ""}, {"GET", "/v1/accounts/none", "getAccount", ""},
		{"GET", "/v1/accounts?limit=0", "listAccounts", ""},
		{"GET", "/v1/facets", "countFacets", ""}, {"GET", "/v1/accounts/acct-1/can?do=send", "can", ""},
		{"GET", "/v1/accounts/acct-1/why", "why", ""}, {"GET", "/v1/accounts/acct-2/why", "why", ""},
		{"GET", "/v1/accounts/acct-1/timeline", "timeline", ""}, {"GET", "/v1/route?do=read", "route", ""},
		{"POST", "/v1/accounts/acct-3/triggers", "sendTrigger", `{"trigger":"start","by":"user","data":{"x":1},"reason":{"code":"1"}}`},
		{"POST", "/v1/accounts/acct-3/triggers", "sendTrigger", `{"trigger":"qr_expired","expect":77}`},
		{"POST", "/v1/accounts/acct-3/triggers", "sendTrigger", `{"trigger":"sync_completed","by":"remote"}`},
		{"POST", "/v1/accounts/acct-1/conversations/c-1/claims", "claim", `{"message":"q-1","side":"bot","handler":"b"}`},
		{"GET", "/v1/messages", "listMessages", ""}, {"GET", "/v1/accounts/acct-1/messages/m-1", "getMessage", ""},
		{"GET", "/v1/conversations", "listConversations", ""}, {"GET", "/v1/accounts/acct-1/conversations/c-1", "getConversation", ""},
		{"GET", "/v1/stats", "stats", ""}, {"GET", "/v1/distribution?label=pool", "distribution", ""},
		{"GET", "/v1/distribution/history", "distributionHistory", ""}, {"GET", "/v1/time-to-running?by=label", "timeToRunning", ""},
		{"GET", "/v1/transitions?minutes=5", "transitions", ""}, {"GET", "/v1/digest", "digest", ""},
		{"GET", "/v1/attention", "listAttention", ""}, {"GET", "/v1/attention?accounts=true", "listAttention", ""},
		{"POST", "/v1/actions", "act", `{"action":"ack","target":{"account":"acct-1"},"by":"anna"}`},
		{"GET", "/v1/alerts", "listAlerts", ""}, {"GET", "/v1/alerts/deliveries", "listDeliveries", ""},
		{"POST", "/v1/alerts/resend", "resendAlerts", `{"dead":true}`}, {"POST", "/v1/alerts/test", "testAlert", `{"endpoint":"nobody"}`},
		{"GET", "/v1/machines", "listMachines", ""}, {"GET", "/v1/machines/wecom@1", "getMachine", ""},
		{"GET", "/v1/machines/wecom@1/diagram", "getDiagram", ""}, {"GET", "/v1/workers", "listWorkers", ""},
		{"GET", "/v1/connectors?samples=true", "listConnectors", ""}, {"GET", "/v1/inbox", "listInbox", ""},
		{"POST", "/v1/inbox/retry", "retryInbox", `{"all":true}`}, {"POST", "/v1/inbox/drop", "dropInbox", `{"id":"7"}`},
		{"GET", "/v1/projections", "listProjections", ""}, {"POST", "/v1/projections/rebuild", "rebuildProjection", `{"name":"talk"}`},
		{"GET", "/v1/errors", "listCodes", ""}, {"GET", "/v1/tokens", "listTokens", ""},
		{"POST", "/v1/tokens/revoke", "revokeToken", `{"id":"nobody","by":"anna"}`},
		{"POST", "/v1/tokens", "createToken", `{"id":"x","hash":"y","role":"king","by":"anna"}`},
	} {
		seen[c.id] = true
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.method == http.MethodPost {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil || resp.StatusCode >= 500 {
			t.Errorf("%s %s: %d %s %v", c.method, c.path, resp.StatusCode, body, err)
			continue
		}
		resp.Body, req.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(strings.NewReader(c.body))
		if ok, errs := v.ValidateHttpResponse(req, resp); !ok {
			t.Errorf("%s %s: %s", c.method, c.path, body)
			for _, e := range errs {
				t.Errorf("  %s: %s %+v", e.Message, e.Reason, e.SchemaValidationErrors)
			}
		}
	}
	s.get("/v1/projections", nil) // now with a rebuild
	for _, r := range httpapi.Routes() {
		if !seen[r.ID] && !slices.Contains([]string{"stream", "sendTriggers"}, r.ID) && strings.HasPrefix(r.Path, "/v1/") {
			t.Errorf("%s is not tried", r.ID)
		}
	}
}

// names are the names of a struct's fields in JSON, those of embedded structs too.
func names(t reflect.Type) []string {
	var out []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			out = append(out, names(f.Type)...)
		case name != "" && !slices.Contains(out, name):
			out = append(out, name)
		}
	}
	return out
}

// TestEveryQuestionIsWhole holds the parameters of questions to the fields of their
// requests, so that a filter that comes anew is not forgotten here.
func TestEveryQuestionIsWhole(t *testing.T) {
	a, err := httpapi.New(httpapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal(a.JSON(), &doc); err != nil {
		t.Fatal(err)
	}
	parameters := map[string][]string{}
	for _, item := range doc.Paths {
		for _, op := range item {
			for _, p := range op.Parameters {
				parameters[op.OperationID] = append(parameters[op.OperationID], p.Name)
			}
		}
	}
	also := map[string]string{"labels": "label", "id": "message"}
	for id, request := range map[string]reflect.Type{
		"listAccounts": reflect.TypeFor[api.ListRequest](), "getAccount": reflect.TypeFor[api.GetRequest](), "can": reflect.TypeFor[api.CanRequest](),
		"route": reflect.TypeFor[api.RouteRequest](), "getMessage": reflect.TypeFor[api.MessageRequest](), "listMessages": reflect.TypeFor[api.MessagesRequest](),
		"getConversation": reflect.TypeFor[api.ConversationRequest](), "listConversations": reflect.TypeFor[api.ConversationsRequest](),
		"listAttention": reflect.TypeFor[api.AttentionRequest](), "timeline": reflect.TypeFor[api.TimelineRequest](), "why": reflect.TypeFor[api.WhyRequest](),
		"stats": reflect.TypeFor[api.StatsRequest](), "digest": reflect.TypeFor[api.DigestRequest](), "distribution": reflect.TypeFor[api.DistributionRequest](),
		"distributionHistory": reflect.TypeFor[api.HistoryRequest](), "timeToRunning": reflect.TypeFor[api.ReadyTimeRequest](),
		"transitions": reflect.TypeFor[api.TransitionsRequest](), "listDeliveries": reflect.TypeFor[api.DeliveriesRequest](),
		"listInbox": reflect.TypeFor[api.InboxRequest](), "listConnectors": reflect.TypeFor[api.ConnectorsRequest](), "listWorkers": reflect.TypeFor[api.WorkersRequest](),
	} {
		for _, name := range names(request) {
			if other := also[name]; other != "" {
				name = other
			}
			if !slices.Contains(parameters[id], name) {
				t.Errorf("%s has no parameter %s", id, name)
			}
		}
	}
}

// TestEveryQuestionOfTheBusIsAskedOverHTTP compares what the bus answers with what
// the document says is asked.
func TestEveryQuestionOfTheBusIsAskedOverHTTP(t *testing.T) {
	s := shared(t)
	nc, err := s.app.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := nc.Request("$SRV.INFO.muster", nil, within)
	if err != nil {
		t.Fatal(err)
	}
	var info struct{ Endpoints []struct{ Subject string } }
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	document, questions := string(s.get("/openapi.json", nil).body), 0
	for _, e := range info.Endpoints {
		name, ok := strings.CutPrefix(e.Subject, "muster.q.")
		if !ok {
			continue
		}
		questions++
		if !strings.Contains(document, `"x-question":"`+name+`"`) {
			t.Errorf("%s cannot be asked over HTTP", name)
		}
	}
	if questions < 30 {
		t.Errorf("the bus answers only %d questions: %s", questions, m.Data)
	}
}

// TestTriggersAreDescribedWhole writes a trigger with all its fields and looks for
// each of them in the description.
func TestTriggersAreDescribedWhole(t *testing.T) {
	full := domain.Trigger{
		ID: "i", Account: "a", Name: "start", Key: "k", At: 1, HasAt: true, Source: "s", Epoch: 1, Seq: 1, By: domain.ByUser,
		Reason: domain.Reason{Code: "c", Text: "t"}, Data: domain.Data{"x": int64(1)}, Expect: 1, Machine: "whatsapp@2", Mode: "observe",
		Labels: map[string]string{"l": "v"},
	}
	var written map[string]any
	if err := json.Unmarshal(full.AppendJSON(nil), &written); err != nil {
		t.Fatal(err)
	}
	known := names(reflect.TypeFor[httpapi.Trigger]())
	for name := range written {
		if !slices.Contains(known, name) {
			t.Errorf("the description of triggers lacks %s", name)
		}
	}
	if len(known) != len(written) {
		t.Errorf("described are %v, a trigger has %v", known, written)
	}
}
