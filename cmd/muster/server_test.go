package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/bus/dispatch"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/natstest"
	"github.com/musterhq/muster/projections/stats"
)

// fakeServer answers commands and queries over a real nats-server, with canned
// words: what the command line does with an answer is tested here, not what a
// real Muster would answer.
type fakeServer struct {
	url string

	mu       sync.Mutex
	sent     []domain.Trigger
	versions map[domain.AccountID]uint64
	asked    []api.ListRequest
}

func fake(t *testing.T) *fakeServer {
	t.Helper()
	srv := natstest.Run(t, natstest.Listen)
	f := &fakeServer{url: srv.URL(), versions: map[domain.AccountID]uint64{}}
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	svc, err := bus.NewService(nc, bus.ServiceConfig{Version: "0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := svc.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if _, err := dispatch.Register(svc, dispatch.Config{Judge: f}); err != nil {
		t.Fatal(err)
	}
	err = query.Register(svc, query.Config{}, append(questions(), []query.Query{
		{Name: api.GetQuery, Handle: query.Of(f.get)},
		{Name: api.ListQuery, Handle: query.Of(f.list)},
		{Name: api.StatsQuery, Handle: query.Of(f.stats)},
		{Name: api.DigestQuery, Handle: query.Of(f.digest)},
		{Name: api.WorkersQuery, Handle: query.Of(f.workers)},
	}...))
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil { // now a request would be heard
		t.Fatal(err)
	}
	return f
}

// run runs the program against the fake.
func (f *fakeServer) run(t *testing.T, args ...string) result {
	t.Helper()
	return muster(t, append(args, "--server", f.url)...)
}

// Submit answers by the trigger's name, so that a test can ask for any verdict.
func (f *fakeServer) Submit(t domain.Trigger, done func(command.Answer)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, t)
	v := domain.Verdict{Account: t.Account, Key: t.Key, Trigger: t.Name, Source: t.Source, From: "IDLE", To: "IDLE"}
	switch {
	case t.Name == "explode":
		v.Outcome, v.From, v.To, v.Reason = domain.Invalid, "", "", `no machine has a trigger "explode"`
	case t.ID == "seen":
		v.Outcome, v.Earlier, v.Reason = domain.Duplicate, domain.Applied, ""
	case t.ID == "seen-rejected":
		v.Outcome, v.Earlier, v.Reason = domain.Duplicate, domain.Rejected, "no edge"
	case t.Name == "logout":
		return command.ErrOverloaded
	case t.Expect != domain.NoExpect && uint64(t.Expect) != f.versions[t.Account]:
		v.Outcome, v.Reason = domain.Conflict, fmt.Sprintf("the account is at version %d", f.versions[t.Account])
	default:
		f.versions[t.Account]++
		v.Outcome = domain.Noop
		switch t.Name {
		case "start":
			v.Outcome, v.To = domain.Applied, "CONNECTING"
		case "qr_scanned":
			v.Outcome, v.Reason = domain.Rejected, "no edge"
		case "connection_lost":
			v.Outcome, v.Reason = domain.Stale, "an older epoch"
		case "claim":
			v.From, v.To = "BOT", "BOT"
			if t.Data["handler"] == "late" {
				v.Outcome, v.Reason = domain.Rejected, "already_claimed"
			}
		}
	}
	v.Version = f.versions[t.Account]
	done(command.Answer{Verdict: v, Partition: 2, Seq: uint64(len(f.sent))})
	return nil
}

// all returns what was sent so far.
func (f *fakeServer) all() []domain.Trigger {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sent)
}

// triggers returns the names of what was sent so far.
func (f *fakeServer) triggers() []string {
	var names []string
	for _, t := range f.all() {
		names = append(names, t.Name)
	}
	return names
}

// lists returns the pages that were asked for so far.
func (f *fakeServer) lists() []api.ListRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func account(id string) domain.AccountView {
	return domain.AccountView{
		ID: domain.AccountID(id), Machine: "whatsapp@2", Mode: "observe", State: "DEGRADED", Class: "limited", Since: "2026-01-01T12:00:00.5Z", Version: 7,
		Desired: "run", Labels: map[string]string{"pool": "eu", "team": "a"}, Source: "waha-1",
		Conditions: []domain.ConditionView{
			{Name: "rate_limited", Since: "2026-01-01T12:00:00Z", Until: "2026-01-01T13:00:00Z", Reason: "429"},
			{Name: "restricted", Since: "2026-01-01T12:00:00Z", Scope: "groups"},
		},
		Can: domain.CanView{Read: true}, Attention: []string{"stuck"},
		Messages: map[string]domain.MessageView{"m-1": {State: "SENT"}}, Conversations: map[string]domain.ConversationView{"c-1": {State: "HUMAN", OpenTurns: 1}},
	}
}

func (f *fakeServer) get(_ context.Context, req api.GetRequest) (any, error) {
	if req.Account != "acct-1" {
		return nil, &bus.Error{Code: http.StatusNotFound, Title: "not found", Detail: "there is no such account"}
	}
	a := api.Account{AccountView: account(req.Account), AsOf: api.AsOf{0: 12}}
	for p, seq := range req.WaitFor {
		a.AsOf[p] = seq
	}
	return a, nil
}

func (f *fakeServer) list(_ context.Context, req api.ListRequest) (any, error) {
	f.mu.Lock()
	f.asked = append(f.asked, req)
	f.mu.Unlock()
	ids := []string{"a", "b", "c", "d", "e"}
	from := 0
	if req.After != "" {
		from = slices.Index(ids, req.After) + 1
	}
	to := min(from+req.Limit, len(ids))
	if req.Prefix == "slow" {
		to = min(from+1, len(ids)) // one account an answer, as a server does that had to look far
	}
	page := api.Page{Accounts: []domain.AccountView{}, AsOf: api.AsOf{0: 5}}
	for _, id := range ids[from:to] {
		page.Accounts = append(page.Accounts, account(id))
	}
	if to < len(ids) {
		page.Next = ids[to-1]
	}
	return page, nil
}

func (f *fakeServer) stats(context.Context, api.StatsRequest) (any, error) {
	n := func(v float64) *float64 { return &v }
	return stats.Stats{
		AsOf: api.AsOf{0: 123, 1: 7}, Accounts: 1000,
		States: map[string]int{"RUNNING": 900, "STOPPED": 100}, Classes: map[string]int{"ready": 900, "stopped": 100},
		ByMachine: map[string]map[string]int{"whatsapp@2": {"RUNNING": 900, "STOPPED": 100}},
		Transitions: stats.Transitions{Total: 5000, LastMinute: 12, Edges: []stats.Edge{
			{From: "CONNECTING", Trigger: "qr_received", To: "QR_REQUIRED", Count: 40},
			{From: "IDLE", Trigger: "start", To: "CONNECTING", Count: 30},
		}},
		LoggedOut: stats.LoggedOut{Total: 3, ByReason: map[string]uint64{"401": 2, "": 1}},
		Outcomes:  map[string]uint64{"applied": 5000, "noop": 20, "stale": 1, "rejected": 4},
		TimeToRunning: stats.TimeToRunning{
			Onboarding: stats.Episodes{
				Reached: 40, Abandoned: 1, Open: 2, Mean: n(31.2), Median: n(28), P90: n(60), MedianCI: [2]*float64{n(26), n(31)},
			},
		},
	}, nil
}

func (f *fakeServer) digest(context.Context, api.DigestRequest) (any, error) {
	return api.Digest{Digest: "sha256:" + strings.Repeat("ab", 32), Accounts: 1000, AsOf: api.AsOf{0: 123}}, nil
}

func TestAccountsGet(t *testing.T) {
	f := fake(t)
	r := f.run(t, "accounts", "get", "acct-1")
	r.want(t, 0, "")
	r.golden(t, "accounts-get.golden")
	r = f.run(t, "accounts", "get", "acct-1", "-o", "json", "--wait-for", `{"3":9}`)
	r.want(t, 0, "")
	r.golden(t, "accounts-get.json")
	f.run(t, "accounts", "get", "nobody").want(t, 3, "muster: query accounts.get: not found: there is no such account\n")
}

func TestAccountsList(t *testing.T) {
	f := fake(t)
	r := f.run(t, "accounts", "list", "--limit", "2", "--state", "DEGRADED", "--label", "pool=eu", "--label", "team=a")
	r.want(t, 0, `there are more: --after "b"`)
	r.golden(t, "accounts-list.golden")
	if q := f.lists()[0]; q.State != "DEGRADED" || q.Limit != 2 || q.Labels["pool"] != "eu" || q.Labels["team"] != "a" {
		t.Errorf("asked %+v", q)
	}
	var page api.Page
	r = f.run(t, "accounts", "list", "--limit", "2", "-o", "json")
	r.want(t, 0, "")
	if err := json.Unmarshal([]byte(r.out), &page); err != nil || len(page.Accounts) != 2 || page.Next != "b" || page.AsOf[0] != 5 {
		t.Errorf("page is %+v (%v)", page, err)
	}
	r = f.run(t, "accounts", "list", "--limit", "2", "--after", "d", "-o", "jsonl")
	r.want(t, 0, "")
	if !strings.HasPrefix(r.out, `{"id":"e",`) || strings.Count(r.out, "\n") != 1 {
		t.Errorf("stdout is %s", r.out)
	}
}

func TestAccountsListOfAStateThatNobodyKnows(t *testing.T) {
	f := fake(t)
	r := f.run(t, "accounts", "list", "--after", "e", "--state", "RUNING")
	r.want(t, 0, "no built-in machine has a state \"RUNING\"; did you mean \"RUNNING\"?\n")
	f.run(t, "accounts", "list", "--after", "e", "--state", "running").want(t, 0, "did you mean \"RUNNING\"?")
	f.run(t, "accounts", "list", "--after", "e", "--state", "RUNNING").want(t, 0, "")
}

func TestAccountsListAll(t *testing.T) {
	f := fake(t)
	for _, format := range []string{"table", "json", "jsonl"} {
		r := f.run(t, "accounts", "list", "--all", "--limit", "2", "-o", format)
		r.want(t, 0, "")
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			if !strings.Contains(r.out, `"id":"`+id+`"`) && !strings.Contains(r.out, `"id": "`+id+`"`) && !strings.Contains(r.out, "\n"+id+" ") {
				t.Errorf("-o %s: %s is missing in\n%s", format, id, r.out)
			}
		}
	}
	r := f.run(t, "accounts", "list", "--limit", "3", "--prefix", "slow", "-o", "jsonl")
	r.want(t, 0, `there are more: --after "c"`)
	if strings.Count(r.out, "\n") != 3 {
		t.Errorf("a page of three is\n%s", r.out)
	}
	if n := len(f.lists()); n != 9+3 {
		t.Errorf("asked %d times, want three pages three times, and three answers for one page", n)
	}
}

func TestStats(t *testing.T) {
	f := fake(t)
	r := f.run(t, "stats")
	r.want(t, 0, "")
	r.golden(t, "stats.golden")
	r = f.run(t, "stats", "-o", "json")
	r.want(t, 0, "")
	r.golden(t, "stats.json")
}

func TestDigest(t *testing.T) {
	f := fake(t)
	r := f.run(t, "digest", "-o", "json")
	r.want(t, 0, "")
	r.golden(t, "digest.json")
	if r := f.run(t, "digest"); r.out != "sha256:"+strings.Repeat("ab", 32)+" over 1000 accounts\n" {
		t.Errorf("stdout is %q", r.out)
	}
}

func TestSendOne(t *testing.T) {
	f := fake(t)
	r := f.run(t, "send", "--account", "acct.1 *>😀", "--machine", "whatsapp@1", "--mode", "supervise", "--at", "2026-01-01T12:00:00Z",
		"--source", "waha-1", "--epoch", "3", "--seq", "17", "--id", "i-1", "--by", "user", "--reason-code", "515", "--reason", "stream error",
		"--data", `{"n":1}`, "--label", "pool=eu", "--expect", "0", "start")
	r.want(t, 0, "")
	want := `{"account":"acct.1 *>😀","key":"","trigger":"start","outcome":"applied","from":"IDLE","to":"CONNECTING","version":1,"reason":"","as_of":{"2":1}}` + "\n"
	if r.out != want {
		t.Errorf("stdout is\n%s\nwant\n%s", r.out, want)
	}
	got := f.all()[0]
	if got.Account != "acct.1 *>😀" || got.Name != "start" || got.Machine != "whatsapp@1" || got.Mode != "supervise" || got.At != noon.UnixNano() ||
		got.Source != "waha-1" || got.Epoch != 3 || got.Seq != 17 || got.ID != "i-1" || got.By != domain.ByUser ||
		got.Reason != (domain.Reason{Code: "515", Text: "stream error"}) || got.Data["n"] != int64(1) || got.Labels["pool"] != "eu" || got.Expect != 0 {
		t.Errorf("the server got %+v", got)
	}
	if r := f.run(t, "send", "--account", "b", "-o", "table", "start"); r.out != "b: IDLE -> CONNECTING via start (version 1)\n" {
		t.Errorf("as a table: %q", r.out)
	}
	if r := f.run(t, "send", "--account", "b", "--key", "m-1", "-o", "table", "message_sent"); r.out != "b m-1: IDLE message_sent (noop)\n" {
		t.Errorf("as a table: %q", r.out)
	}
}

func TestSendExitCodes(t *testing.T) {
	f := fake(t)
	tests := []struct {
		args    []string
		code    int
		onErr   string
		outcome string
	}{
		{[]string{"--account", "a", "start"}, 0, "", "applied"},
		{[]string{"--account", "a", "qr_received"}, 0, "", "noop"},
		{[]string{"--account", "a", "--expect", "9", "start"}, 4, "muster: conflict: the account is at version 2\n", "conflict"},
		{[]string{"--account", "a", "qr_scanned"}, 8, "muster: rejected: no edge\n", "rejected"},
		{[]string{"--account", "a", "connection_lost"}, 8, "muster: stale: an older epoch\n", "stale"},
		{[]string{"--account", "a", "--id", "seen", "start"}, 0, "", "duplicate"},
		{[]string{"--account", "a", "--id", "seen-rejected", "start"}, 8, "muster: duplicate of a trigger that was rejected: no edge\n", "duplicate"},
		{[]string{"--account", "a", "explode"}, 2, "muster: invalid: no machine has a trigger \"explode\"\n", "invalid"},
		{[]string{"--account", "", "start"}, 2, "muster: invalid: account: is missing", "invalid"},
		{[]string{"--account", strings.Repeat("x", 129), "start"}, 2, "muster: invalid: account: ", "invalid"},
		{[]string{"--account", "\xff", "start"}, 2, "muster: invalid: account: is not valid UTF-8\n", "invalid"},
		{[]string{"--account", "a\tb", "start"}, 2, "muster: invalid: account: ", "invalid"},
		{[]string{"--account", "a", "--data", "{", "start"}, 2, "muster: invalid: --data is not JSON: {\n", "invalid"},
		{[]string{"--account", "a", "--data", "[1]", "start"}, 2, "muster: invalid: data: ", "invalid"},
		{[]string{"--account", "a", "--data", `{"Token":"x"}`, "start"}, 2, "muster: invalid: data.Token: ", "invalid"},
		{[]string{"--account", "a", "--at", "noon", "start"}, 2, "muster: invalid: at: ", "invalid"},
		{[]string{"--account", "a", "--by", "me", "start"}, 2, "muster: invalid: by: ", "invalid"},
		{[]string{"--account", "a", "--epoch", "-1", "start"}, 2, "muster: invalid: epoch: ", "invalid"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			r := f.run(t, append([]string{"send"}, tt.args...)...)
			r.want(t, tt.code, tt.onErr)
			var v struct{ Outcome string }
			if err := json.Unmarshal([]byte(r.out), &v); err != nil || v.Outcome != tt.outcome || strings.Count(r.out, "\n") != 1 {
				t.Errorf("stdout is %q (%v), want one line with outcome %s", r.out, err, tt.outcome)
			}
		})
	}
	for _, name := range f.triggers() {
		if !slices.Contains([]string{"start", "qr_received", "qr_scanned", "connection_lost", "explode"}, name) {
			t.Errorf("%s was sent, though it is invalid by itself", name)
		}
	}
}

const goodTrace = `{"account":"a","trigger":"start"}
{"account":"b","trigger":"start"}

{"account":"a","trigger":"qr_received"}
`

func TestSendFile(t *testing.T) {
	f := fake(t)
	for name, r := range map[string]result{
		"file":  f.run(t, "send", "--file", file(t, "trace.jsonl", goodTrace)),
		"stdin": musterWith(t, goodTrace, "send", "--file", "-", "--server", f.url),
	} {
		r.want(t, 0, "3 verdicts: 2 applied, 1 noop\n")
		if got := outcomes(t, r.out); got != "a start applied, b start applied, a qr_received noop" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// outcomes says the verdicts of a JSONL output in short.
func outcomes(t *testing.T, out string) string {
	t.Helper()
	var words []string
	for l := range strings.Lines(out) {
		var v struct{ Account, Trigger, Outcome string }
		if err := json.Unmarshal([]byte(l), &v); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		words = append(words, v.Account+" "+v.Trigger+" "+v.Outcome)
	}
	return strings.Join(words, ", ")
}

func TestSendFileStopsAtABadLine(t *testing.T) {
	const head = `{"account":"a","trigger":"start"}
{"account":"b","trigger":"start"}
`
	const tail = `
{"account":"c","trigger":"start"}
`
	tests := map[string]struct{ line, want string }{
		"no JSON":       {"nonsense", ":3: "},
		"cut off":       {`{"account":"a","trigger":"start"`, ":3: "},
		"unknown field": {`{"account":"a","triger":"start"}`, ":3: triger: is not a field of a trigger; did you mean trigger?"},
		"wrong type":    {`{"account":1,"trigger":"start"}`, ":3: account: want a text"},
		"secret":        {`{"account":"a","trigger":"start","data":{"token":"x"}}`, ":3: data.token: "},
		"too large":     {`{"account":"a","trigger":"stop","data":{"x":"` + strings.Repeat("x", 2<<20) + `"}}`, ":3: the message has 2097"},
		"by the server": {`{"account":"a","trigger":"explode"}`, `:3: no machine has a trigger "explode"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := fake(t)
			path := file(t, "trace.jsonl", head+tt.line+tail)
			r := f.run(t, "send", "--file", path)
			r.want(t, 2, "muster: "+path+tt.want)
			if got := outcomes(t, r.out); !strings.HasPrefix(got, "a start applied, b start applied, ") || !strings.HasSuffix(got, " invalid") || strings.Count(got, ",") != 2 {
				t.Errorf("verdicts: %s", got)
			}
			if got := strings.Join(f.triggers(), " "); got != "start start" && got != "start start explode" {
				t.Errorf("sent: %s", got)
			}

			f = fake(t)
			r = f.run(t, "send", "--keep-going", "--file", path)
			r.want(t, 2, "4 verdicts: 3 applied, 1 invalid\n")
			if got := outcomes(t, r.out); !strings.HasPrefix(got, "a start applied, b start applied, ") || !strings.HasSuffix(got, " invalid, c start applied") {
				t.Errorf("with --keep-going, verdicts: %s", got)
			}
		})
	}
}

func TestSendFileSendsAllThatStandsBeforeABadLine(t *testing.T) {
	f := fake(t)
	const before = 500
	trace := strings.Repeat(`{"account":"a","trigger":"start"}`+"\n", before) + "nonsense\n" + `{"account":"a","trigger":"start"}`
	r := musterWith(t, trace, "send", "--file", "-", "--server", f.url)
	r.want(t, 2, "501 verdicts: 500 applied, 1 invalid\n")
	if n := len(f.triggers()); n != before {
		t.Errorf("%d triggers were sent, want %d", n, before)
	}
}

func TestSendFileExitCodes(t *testing.T) {
	f := fake(t)
	for trace, code := range map[string]int{
		`{"account":"r","trigger":"qr_scanned"}`:                                                         8,
		`{"account":"s","trigger":"start","expect":4}` + "\n" + `{"account":"s","trigger":"qr_scanned"}`: 4,
		`{"account":"l","trigger":"connection_lost"}` + "\n\n" + `{"account":"l","trigger":"start"}`:     8,
		"": 0,
		`{"account":"x","trigger":"start"}` + "\n" + `{"account":"y","trigger":"` + strings.Repeat("z", 9<<20): 2,
	} {
		r := musterWith(t, trace, "send", "--file", "-", "--server", f.url)
		if r.code != code {
			t.Errorf("%.60s gives exit code %d, want %d: %s", trace, r.code, code, r.err)
		}
	}
}

func TestSendFileKeepsTheOrderOfManyAccounts(t *testing.T) {
	f := fake(t)
	var trace, want []string
	for i := range 3000 {
		id := fmt.Sprintf("n%d", i%50)
		if i%7 == 3 {
			trace, want = append(trace, fmt.Sprintf(`{"account":%q,"bad":1}`, id)), append(want, id+"  invalid")
			continue
		}
		trace, want = append(trace, fmt.Sprintf(`{"account":%q,"trigger":"start"}`, id)), append(want, id+" start applied")
	}
	r := musterWith(t, strings.Join(trace, "\n"), "send", "--keep-going", "--file", "-", "--server", f.url)
	if got := outcomes(t, r.out); r.code != 2 || got != strings.Join(want, ", ") {
		t.Errorf("exit code %d; the verdicts are not in the order of the lines", r.code)
	}
}

func TestSendOneThatIsTooLarge(t *testing.T) {
	f := fake(t)
	r := f.run(t, "send", "--account", "a", "--data", `{"x":"`+strings.Repeat("x", 2<<20)+`"}`, "start")
	r.want(t, 2, "bytes and the server takes 1048576 at most\n")
	if got := outcomes(t, r.out); got != "a start invalid" || len(f.triggers()) != 0 {
		t.Errorf("verdicts: %s; sent: %v", got, f.triggers())
	}
}

func TestSendToABusyServer(t *testing.T) {
	f := fake(t)
	r := f.run(t, "send", "--account", "a", "logout")
	r.want(t, 1, "overloaded")
	if r.out != "" {
		t.Errorf("stdout is %q, want no verdict", r.out)
	}
}

func TestExitCodeOfBusErrors(t *testing.T) {
	for code, want := range map[int]int{400: 2, 403: 7, 404: 3, 413: 2, 423: 1, 500: 1, 503: 1} {
		if got := exitCode(fmt.Errorf("asked: %w", &bus.Error{Code: code})); got != want {
			t.Errorf("bus error %d gives exit code %d, want %d", code, got, want)
		}
	}
	if got := exitCode(errors.New("anything else")); got != 1 {
		t.Errorf("an unknown error gives exit code %d, want 1", got)
	}
}
