package clienttest

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/musterhq/muster/cmd/internal/app"
	"github.com/musterhq/muster/cmd/internal/config"
	"github.com/musterhq/muster/cmd/internal/httpapi"
	"github.com/musterhq/muster/domain/lifecycle"
)

// The goroutine is the NATS library's: it waits for ever on the status of a
// connection that was closed while it began.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

var update = flag.Bool("update", false, "write the document anew")

// documentFile is the document that the client is made of.
const documentFile = "openapi.yaml"

func TestTheDocumentIsTheOneServed(t *testing.T) {
	a, err := httpapi.New(httpapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(documentFile, a.YAML(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != string(a.YAML()) {
		t.Fatalf("%s is not the document that is served; the package comment says how to make both anew", documentFile)
	}
	generated, err := os.ReadFile("client_gen_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range a.Routes() {
		if name := "New" + strings.ToUpper(r.ID[:1]) + r.ID[1:] + "Request("; strings.HasPrefix(r.Path, "/v1/") && !strings.Contains(string(generated), name) && !strings.Contains(string(generated), strings.TrimSuffix(name, "(")+"WithBody(") {
			t.Errorf("the client has no call for %s: it was not made anew", r.ID)
		}
	}
}

const within = 60 * time.Second

// client starts a server and returns a client of it.
func client(t *testing.T) (*ClientWithResponses, context.Context) {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.HTTP, cfg.NATSListen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	run, stop := context.WithCancel(context.Background())
	a := app.New(app.Options{Config: cfg, Machines: lifecycle.Registry(), Logger: slog.New(slog.DiscardHandler)})
	done := make(chan error, 1)
	go func() { done <- a.Run(run) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
	select {
	case <-a.Ready():
	case err := <-done:
		done <- err
		t.Fatalf("the server did not start: %v", err)
	case <-time.After(within):
		t.Fatal("the server did not get ready")
	}
	c, err := NewClientWithResponses("http://"+a.HTTPAddr(), WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	t.Cleanup(cancel)
	return c, ctx
}

func must[T any](t *testing.T) func(T, error) T {
	return func(got T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

func ptr[T any](v T) *T { return &v }

func TestMainCalls(t *testing.T) {
	c, ctx := client(t)
	const id = "+1555/01 acct"
	sent := must[*SendTriggerResponse](t)(c.SendTriggerWithResponse(ctx, id, &SendTriggerParams{}, Trigger{Trigger: "start", By: ptr(TriggerByUser)}))
	if sent.JSON200 == nil || sent.JSON200.Outcome != "applied" || sent.JSON200.To != "CONNECTING" || sent.JSON200.Version != 1 {
		t.Fatalf("start: %s", sent.Body)
	}
	for _, name := range []string{"qr_received", "qr_scanned", "sync_completed"} {
		sent = must[*SendTriggerResponse](t)(c.SendTriggerWithResponse(ctx, id, &SendTriggerParams{IfMatch: ptr(sent.HTTPResponse.Header.Get("ETag"))}, Trigger{Trigger: name}))
		if sent.JSON200 == nil {
			t.Fatalf("%s: %s", name, sent.Body)
		}
	}
	late := must[*SendTriggerResponse](t)(c.SendTriggerWithResponse(ctx, id, &SendTriggerParams{IfMatch: ptr(`"1"`)}, Trigger{Trigger: "stop"}))
	if p := late.ApplicationproblemJSON412; p == nil || p.Code != "precondition_failed" || p.Verdict == nil || p.Verdict.Version != 4 {
		t.Errorf("a late If-Match: %s", late.Body)
	}
	refused := must[*SendTriggerResponse](t)(c.SendTriggerWithResponse(ctx, id, &SendTriggerParams{}, Trigger{Trigger: "qr_expired"}))
	if p := refused.ApplicationproblemJSON422; p == nil || p.Code != "rejected" || p.Verdict == nil || p.Verdict.To != "RUNNING" {
		t.Errorf("a rejected trigger: %s", refused.Body)
	}

	position := ptr(refusedAt(t, refused))
	acct := must[*GetAccountResponse](t)(c.GetAccountWithResponse(ctx, id, &GetAccountParams{WaitFor: position}))
	if acct.JSON200 == nil || acct.JSON200.Id != id || acct.JSON200.State != "RUNNING" || !acct.JSON200.Can.Send {
		t.Fatalf("get: %s", acct.Body)
	}
	page := must[*ListAccountsResponse](t)(c.ListAccountsWithResponse(ctx, &ListAccountsParams{State: ptr("RUNNING")}))
	if page.JSON200 == nil || len(page.JSON200.Accounts) != 1 {
		t.Errorf("list: %s", page.Body)
	}
	can := must[*CanResponse](t)(c.CanWithResponse(ctx, id, &CanParams{Do: "send"}))
	if can.JSON200 == nil || !can.JSON200.Can {
		t.Errorf("can: %s", can.Body)
	}
	route := must[*RouteResponse](t)(c.RouteWithResponse(ctx, &RouteParams{Do: "send"}))
	if route.JSON200 == nil || len(route.JSON200.Accounts) != 1 {
		t.Errorf("route: %s", route.Body)
	}
	why := must[*WhyResponse](t)(c.WhyWithResponse(ctx, id))
	if why.JSON200 == nil || why.JSON200.Sentence == "" || why.JSON200.LastProgress == nil || why.JSON200.Source.Worker != nil {
		t.Errorf("why: %s", why.Body)
	}
	timeline := must[*TimelineResponse](t)(c.TimelineWithResponse(ctx, id, &TimelineParams{Limit: ptr(int64(3))}))
	if timeline.JSON200 == nil || len(timeline.JSON200.Events) != 3 || timeline.JSON200.Events[0].Version != 5 || timeline.JSON200.Next == nil {
		t.Errorf("timeline: %s", timeline.Body)
	}
	stats := must[*StatsResponse](t)(c.StatsWithResponse(ctx, &StatsParams{}))
	if stats.JSON200 == nil || stats.JSON200.States["RUNNING"] != 1 || stats.JSON200.TimeToRunning.Onboarding.Reached != 1 {
		t.Errorf("stats: %s", stats.Body)
	}
	gone := must[*GetAccountResponse](t)(c.GetAccountWithResponse(ctx, "nobody", &GetAccountParams{}))
	if p := gone.ApplicationproblemJSON404; p == nil || p.Code != "not_found" {
		t.Errorf("an account that is not there: %s", gone.Body)
	}
	bad := must[*ListAccountsResponse](t)(c.ListAccountsWithResponse(ctx, &ListAccountsParams{Limit: ptr(int64(5000))}))
	if p := bad.ApplicationproblemJSONDefault; p == nil || p.Code != "invalid_request" {
		t.Errorf("a limit that is too large: %s", bad.Body)
	}
}

// refusedAt is where a rejected trigger stands, as wait_for takes it.
func refusedAt(t *testing.T, r *SendTriggerResponse) string {
	t.Helper()
	p := r.ApplicationproblemJSON422
	if p == nil || p.Verdict == nil || len(p.Verdict.AsOf) != 1 {
		t.Fatalf("no position in %s", r.Body)
	}
	return string(must[[]byte](t)(json.Marshal(p.Verdict.AsOf)))
}

func TestClaimAndConversation(t *testing.T) {
	c, ctx := client(t)
	message := map[string]any{"message": "m-1"}
	for _, tr := range []Trigger{{Trigger: "start"}, {Trigger: "customer_message", Key: ptr("c-1"), Data: &message}} {
		if got := must[*SendTriggerResponse](t)(c.SendTriggerWithResponse(ctx, "acct-1", &SendTriggerParams{}, tr)); got.JSON200 == nil {
			t.Fatalf("%s: %s", tr.Trigger, got.Body)
		}
	}
	claim := ClaimRequest{Message: "m-1", Side: ClaimRequestSideBot, Handler: "bot-1"}
	got := must[*ClaimResponse](t)(c.ClaimWithResponse(ctx, "acct-1", "c-1", &ClaimParams{}, claim))
	if got.JSON200 == nil || !got.JSON200.Granted {
		t.Fatalf("claim: %s", got.Body)
	}
	position := string(must[[]byte](t)(json.Marshal(got.JSON200.AsOf)))
	talk := must[*GetConversationResponse](t)(c.GetConversationWithResponse(ctx, "acct-1", "c-1", &GetConversationParams{WaitFor: &position}))
	if talk.JSON200 == nil || talk.JSON200.Claims == nil || len(*talk.JSON200.Claims) != 1 {
		t.Errorf("conversation: %s", talk.Body)
	}
}

func TestBatchAndStream(t *testing.T) {
	c, ctx := client(t)
	stream := must[*http.Response](t)(c.Stream(ctx, &StreamParams{After: ptr("0:0,1:0,2:0,3:0")}))
	defer stream.Body.Close()
	lines := strings.NewReader(`{"account":"acct-1","trigger":"start"}` + "\n" + `{"account":"acct-1","trigger":"qr_received"}` + "\n")
	batch := must[*http.Response](t)(c.SendTriggersWithBody(ctx, "application/x-ndjson", lines))
	defer batch.Body.Close()
	answers := must[[]byte](t)(io.ReadAll(batch.Body))
	if n := strings.Count(string(answers), `"outcome":"applied"`); n != 2 {
		t.Errorf("%d of 2 lines are applied: %s", n, answers)
	}
	var got strings.Builder
	buf := make([]byte, 4096)
	for strings.Count(got.String(), "event: event\n") < 2 {
		n, err := stream.Body.Read(buf)
		if got.Write(buf[:n]); err != nil {
			t.Fatalf("the stream ends: %v; %s", err, got.String())
		}
	}
	if !strings.Contains(got.String(), `"trigger":"qr_received"`) {
		t.Errorf("the stream gives %s", got.String())
	}
}
