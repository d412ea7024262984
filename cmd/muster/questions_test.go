package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/query"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
)

// questions are canned answers to the everyday questions.
func questions() []query.Query {
	return []query.Query{
		{Name: api.CanQuery, Handle: query.Of(fakeCan)},
		{Name: api.RouteQuery, Handle: query.Of(fakeRoute)},
		{Name: api.MessageQuery, Handle: query.Of(fakeMessage)},
		{Name: api.MessagesQuery, Handle: query.Of(fakeMessages)},
		{Name: api.ConversationQuery, Handle: query.Of(fakeConversation)},
		{Name: api.ConversationsQuery, Handle: query.Of(fakeConversations)},
		{Name: api.AttentionQuery, Handle: query.Of(fakeAttention)},
		{Name: api.TimelineQuery, Handle: query.Of(fakeTimeline)},
		{Name: api.WhyQuery, Handle: query.Of(fakeWhy)},
		{Name: api.TransitionsQuery, Handle: query.Of(fakeFlapping)},
	}
}

// refuse is what a server says to a request that a test did not mean.
func refuse(req any) error {
	return &bus.Error{Code: http.StatusNotFound, Title: "not found", Detail: fmt.Sprintf("asked %+v", req)}
}

func fakeCan(_ context.Context, r api.CanRequest) (any, error) {
	can := api.Can{Account: r.Account, Do: r.Do, Scope: r.Scope, Can: true, State: "RUNNING", Since: "2026-01-01T10:00:00Z", Blocks: []domain.ConditionView{}, AsOf: api.AsOf{2: 7}}
	switch r.Account {
	case "acct-1":
		return can, nil
	case "acct-2":
		can.Can, can.State, can.Until, can.Reason = false, "DEGRADED", "2026-01-01T12:30:00Z", "it is DEGRADED; rate_limited until 2026-01-01 12:30:00Z (429)"
		can.Blocks = []domain.ConditionView{{Name: "rate_limited", Since: "2026-01-01T12:00:00Z", Until: "2026-01-01T12:30:00Z", Reason: "429"}}
		return can, nil
	case "acct-3":
		can.Can, can.State, can.Reason = false, "LOGGED_OUT", "it is LOGGED_OUT"
		return can, nil
	}
	return nil, refuse(r)
}

func TestCan(t *testing.T) {
	f := fake(t)
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"can acct-1", 0, "yes: acct-1 may send (it is RUNNING)\n"},
		{"can acct-1 --do bulk --scope new_chats", 0, "yes: acct-1 may send in bulk in new_chats (it is RUNNING)\n"},
		{"can acct-2 --do send --scope groups", 5, "no: acct-2 may not send in groups until 2026-01-01 12:30:00Z: it is DEGRADED; rate_limited until 2026-01-01 12:30:00Z (429)\n"},
		{"can acct-3 --do read", 5, "no: acct-3 may not read: it is LOGGED_OUT\n"},
	} {
		r := f.run(t, strings.Fields(tt.args)...)
		r.want(t, tt.code, "")
		if r.out != tt.want {
			t.Errorf("%s: %q, want %q", tt.args, r.out, tt.want)
		}
	}
	f.run(t, "can", "nobody").want(t, 3, "muster: query can: not found")
	f.run(t, "can", "acct-1", "--do", "fly").want(t, 2, `--do is "fly"; it is read, send or bulk`)
	r := f.run(t, "can", "acct-2", "-o", "json")
	r.want(t, 5, "")
	r.golden(t, "can.json")
}

func fakeRoute(_ context.Context, r api.RouteRequest) (any, error) {
	route := api.Route{Accounts: []api.Candidate{}, Whole: true, AsOf: api.AsOf{0: 5}}
	if r.Labels["pool"] == "mars" {
		return route, nil
	}
	if r.Do != "send" || r.Scope != "new_chats" || r.Limit != 2 || r.Labels["pool"] != "eu" {
		return nil, refuse(r)
	}
	route.Whole = false
	route.Accounts = []api.Candidate{
		{Account: "acct-9", Machine: "whatsapp@2", State: "RUNNING", Since: "2026-01-01T09:00:00Z", Labels: map[string]string{"pool": "eu"}},
		{Account: "acct-1", Machine: "whatsapp@2", State: "RUNNING", Used: "2026-01-01T11:00:00.25Z", Since: "2026-01-01T08:00:00Z", Labels: map[string]string{"pool": "eu", "tier": "gold"}},
	}
	return route, nil
}

func TestRoute(t *testing.T) {
	f := fake(t)
	args := []string{"route", "--do", "send", "--scope", "new_chats", "--label", "pool=eu", "-n", "2"}
	r := f.run(t, args...)
	r.want(t, 0, "")
	r.golden(t, "route.golden")
	r = f.run(t, append(args, "-o", "json")...)
	r.want(t, 0, "")
	r.golden(t, "route.json")
	if r = f.run(t, append(args, "-o", "jsonl")...); strings.Count(r.out, "\n") != 2 || !strings.HasPrefix(r.out, `{"account":"acct-9",`) {
		t.Errorf("as lines: %s", r.out)
	}
	f.run(t, "route", "--label", "pool=mars").want(t, 5, "muster: no account may do that now\n")
	f.run(t, "route", "-n", "0").want(t, 2, "--limit is 0; from 1 to 1000 are possible")
}

func TestClaim(t *testing.T) {
	f := fake(t)
	args := []string{"claim", "acct-1", "c-1", "m-1", "--side", "bot", "--handler"}
	r := f.run(t, append(args, "b-7")...)
	r.want(t, 0, "")
	if r.out != "granted: b-7 answers m-1 of c-1\n" {
		t.Errorf("stdout is %q", r.out)
	}
	got := f.all()[0]
	if got.Name != "claim" || got.Account != "acct-1" || got.Key != "c-1" || got.ID != "" ||
		got.Data["message"] != "m-1" || got.Data["side"] != "bot" || got.Data["handler"] != "b-7" {
		t.Errorf("the server got %+v", got)
	}
	r = f.run(t, append(args, "late")...)
	r.want(t, 8, "muster: rejected: already_claimed\n")
	if r.out != "not granted: m-1 of c-1: already_claimed\n" {
		t.Errorf("stdout is %q", r.out)
	}
	r = f.run(t, append(args, "late", "-o", "json")...)
	r.want(t, 8, "muster: rejected: already_claimed\n")
	r.golden(t, "claim.json")
	f.run(t, "claim", "acct-1", "c-1", "m-1").want(t, 2, `--side is ""; it is bot or human`)
	f.run(t, "claim", "acct-1", "c-1", "m-1", "--side", "human").want(t, 2, "name who would answer: --handler NAME")
	f.run(t, "claim", "acct-1", "c-1").want(t, 2, "muster claim takes ACCOUNT CONTACT MESSAGE; 2 given")
}

func message(account, id string) api.Message {
	return api.Message{
		Account: account, ID: id, State: "REPLIED", Late: true, First: "2026-01-01T10:00:00Z",
		Times: map[string]string{"replied": "2026-01-01T10:40:00Z", "sent": "2026-01-01T10:00:01Z", "pending": "2026-01-01T10:00:00Z"},
		Due:   "2026-01-01T10:30:00Z", Closed: "2026-01-01T10:40:00Z",
	}
}

func fakeMessage(_ context.Context, r api.MessageRequest) (any, error) {
	if r.Account != "acct-1" || r.ID != "m-1" {
		return nil, refuse(r)
	}
	m := message(r.Account, r.ID)
	m.AsOf = api.AsOf{1: 9}
	return m, nil
}

func fakeMessages(_ context.Context, r api.MessagesRequest) (any, error) {
	ids := []string{"m-1", "m-2", "m-3", "m-4", "m-5"}
	from := slices.Index(ids, r.After) + 1
	to := min(len(ids), from+min(r.Limit, 2)) // two an answer, as a server does that had to look far
	if r.Account != "acct-1" || !r.Overdue || r.State != "" && r.State != "TIMED_OUT" {
		return nil, refuse(r)
	}
	page := api.Messages{Messages: []api.Message{}, AsOf: api.AsOf{1: 9}}
	for _, id := range ids[from:to] {
		page.Messages = append(page.Messages, message("acct-1", id))
	}
	if to < len(ids) {
		page.Next = ids[to-1]
	}
	return page, nil
}

func TestMessages(t *testing.T) {
	f := fake(t)
	r := f.run(t, "messages", "get", "acct-1", "m-1")
	r.want(t, 0, "")
	r.golden(t, "messages-get.golden")
	r = f.run(t, "messages", "get", "acct-1", "m-1", "-o", "json")
	r.want(t, 0, "")
	r.golden(t, "messages-get.json")
	f.run(t, "messages", "get", "acct-1", "m-9").want(t, 3, "not found")

	list := []string{"messages", "list", "--account", "acct-1", "--overdue"}
	r = f.run(t, append(list, "-n", "3")...)
	r.want(t, 0, "there are more: --after m-3\n")
	r.golden(t, "messages-list.golden")
	r = f.run(t, append(list, "--all", "-n", "2", "-o", "jsonl")...)
	r.want(t, 0, "")
	if strings.Count(r.out, "\n") != 5 || !strings.Contains(r.out, `"id":"m-5"`) {
		t.Errorf("all of them: %s", r.out)
	}
	var page api.Messages
	r = f.run(t, append(list, "-n", "2", "--after", "m-2", "--state", "TIMED_OUT", "-o", "json")...)
	r.want(t, 0, "")
	if err := json.Unmarshal([]byte(r.out), &page); err != nil || len(page.Messages) != 2 || page.Next != "m-4" || page.AsOf[1] != 9 {
		t.Errorf("page %+v (%v)", page, err)
	}
	f.run(t, "messages", "list", "--state", "LOST").want(t, 2, `--state is "LOST"; it is one of PENDING, SENT, DELIVERED, READ, REPLIED, TIMED_OUT, FAILED`)
}

func conversation(contact string) api.Conversation {
	return api.Conversation{
		Account: "acct-1", Contact: contact, State: "HUMAN", WaitingSince: "2026-01-01T10:00:00Z", NobodyAnswering: true,
		OpenTurns: []api.Turn{{Message: "q-1", At: "2026-01-01T10:00:00Z"}, {Message: "q-2", At: "2026-01-01T10:01:00Z"}},
	}
}

func fakeConversation(_ context.Context, r api.ConversationRequest) (any, error) {
	if r.Account != "acct-1" || r.Contact != "c-1" {
		return nil, refuse(r)
	}
	c := conversation(r.Contact)
	c.AsOf = api.AsOf{1: 9}
	for i := range 12 {
		c.Claims = append(c.Claims, api.Claim{Message: fmt.Sprint("p-", i), Handler: "anna"})
	}
	return c, nil
}

func fakeConversations(_ context.Context, r api.ConversationsRequest) (any, error) {
	if r.Mode != "human" || !r.Unanswered || r.Account != "" {
		return nil, refuse(r)
	}
	return api.Conversations{Conversations: []api.Conversation{conversation("c-1"), conversation("c-2")}, AsOf: api.AsOf{1: 9}}, nil
}

func TestConversations(t *testing.T) {
	f := fake(t)
	r := f.run(t, "conversations", "get", "acct-1", "c-1")
	r.want(t, 0, "")
	r.golden(t, "conversations-get.golden")
	r = f.run(t, "conversations", "list", "--mode", "human", "--unanswered")
	r.want(t, 0, "")
	r.golden(t, "conversations-list.golden")
	r = f.run(t, "conversations", "list", "--mode", "human", "--unanswered", "-o", "json")
	r.want(t, 0, "")
	r.golden(t, "conversations-list.json")
	f.run(t, "conversations", "get", "acct-1", "c-9").want(t, 3, "not found")
	f.run(t, "conversations", "list", "--mode", "robot").want(t, 2, `--mode is "robot"; it is bot, human or ended`)
}

func fakeAttention(_ context.Context, r api.AttentionRequest) (any, error) {
	k := domain.AttentionNamed("unvouched")
	switch {
	case r.Kind == "banned":
		return api.Attention{Total: &api.AttentionTotal{}, AsOf: api.AsOf{0: 1}}, nil
	case r.Accounts && r.Labels["pool"] == "eu":
		return api.Attention{AsOf: api.AsOf{0: 1}, Accounts: []api.NeedsAttention{
			{Account: "acct-1", Kind: "unvouched", State: "RUNNING", Since: "2026-01-01T10:00:00Z", Source: "worker-1", Reason: "vouch_lost", About: k.About, Do: k.Do, Labels: map[string]string{"pool": "eu"}},
		}}, nil
	case r.Kind == "" && r.Source == "" && !r.Accounts:
		stuck := domain.AttentionNamed("stuck")
		return api.Attention{AsOf: api.AsOf{0: 1}, Total: &api.AttentionTotal{Incidents: 7, Accounts: 512}, Next: "abc", Incidents: []api.Incident{
			{Kind: "unvouched", Accounts: 500, Source: "worker-1", Reason: "vouch_lost", Since: "2026-01-01T10:00:00Z", Last: "2026-01-01T10:00:02Z", About: k.About, Do: k.Do, Sample: []string{"acct-1", "acct-2", "acct-3"}},
			{Kind: "stuck", Accounts: 1, Source: "", Reason: "SYNCING", Since: "2026-01-01T09:00:00Z", Last: "2026-01-01T09:00:00Z", About: stuck.About, Do: stuck.Do, Sample: []string{"acct-9"}},
		}}, nil
	}
	return nil, refuse(r)
}

func TestAttention(t *testing.T) {
	f := fake(t)
	r := f.run(t, "attention", "list", "-n", "2")
	r.want(t, 0, "there are more: --after abc\n")
	r.golden(t, "attention-list.golden")
	r = f.run(t, "attention", "list", "-n", "2", "-o", "json")
	r.want(t, 0, "")
	r.golden(t, "attention-list.json")
	r = f.run(t, "attention", "list", "--accounts", "--label", "pool=eu")
	r.want(t, 0, "")
	r.golden(t, "attention-accounts.golden")
	if r = f.run(t, "attention", "list", "--kind", "banned"); r.out != "no account needs a human\n" {
		t.Errorf("nobody needs one: %q", r.out)
	}
	help := f.run(t, "attention", "list", "--help")
	for _, k := range domain.AttentionKinds() {
		if !strings.Contains(help.out, k.Name) || !strings.Contains(help.out, k.Do) {
			t.Errorf("the help does not explain %s", k.Name)
		}
	}
}

func events() []api.Event {
	return []api.Event{
		{Version: 4, Seq: 90, At: "2026-01-01T10:03:00Z", Recorded: "2026-01-01T10:03:00Z", Trigger: "qr_scanned", Outcome: "rejected", From: "RUNNING", To: "RUNNING", Verdict: "no edge", Source: "waha-1"},
		{Version: 3, Seq: 80, At: "2026-01-01T10:02:00Z", Recorded: "2026-01-01T10:02:00Z", Trigger: "message_sent", Key: "m-1", Outcome: "applied", To: "SENT", Source: "waha-1"},
		{Seq: 71, Error: "not a record"},
		{Version: 1, Seq: 70, At: "2026-01-01T10:00:00Z", Recorded: "2026-01-01T10:00:00Z", Trigger: "connection_ready", Outcome: "applied", From: "DEGRADED", To: "RUNNING", Source: "waha-1", ReasonCode: "515",
			Set: []domain.ConditionView{{Name: "restricted", Scope: "groups"}}, Ended: []string{"rate_limited", "unresponsive"}},
	}
}

func fakeTimeline(_ context.Context, r api.TimelineRequest) (any, error) {
	if r.Account != "acct-1" {
		return nil, refuse(r)
	}
	all := events()
	from := 0
	if r.Before != "" {
		from = slices.IndexFunc(all, func(e api.Event) bool { return fmt.Sprint(e.Seq) == r.Before }) + 1
	}
	to := min(len(all), from+r.Limit)
	page := api.Timeline{Account: r.Account, Events: all[from:to], AsOf: api.AsOf{3: 90}}
	if to < len(all) {
		page.Next = fmt.Sprint(all[to-1].Seq)
	}
	return page, nil
}

func TestTimeline(t *testing.T) {
	f := fake(t)
	r := f.run(t, "timeline", "acct-1")
	r.want(t, 0, "")
	r.golden(t, "timeline.golden")
	r = f.run(t, "timeline", "acct-1", "-n", "2", "-o", "jsonl")
	r.want(t, 0, "there are more: --before 80\n")
	if strings.Count(r.out, "\n") != 2 || !strings.HasPrefix(r.out, `{"version":4,"seq":90,`) {
		t.Errorf("as lines: %s", r.out)
	}
	var page api.Timeline
	r = f.run(t, "timeline", "acct-1", "--all", "-n", "1", "-o", "json")
	r.want(t, 0, "")
	if err := json.Unmarshal([]byte(r.out), &page); err != nil || len(page.Events) != 4 || page.Next != "" {
		t.Errorf("all of them: %+v (%v)", page, err)
	}
	f.run(t, "timeline", "nobody").want(t, 3, "not found")
}

func fakeWhy(_ context.Context, r api.WhyRequest) (any, error) {
	n := func(v float64) *float64 { return &v }
	w := api.Why{
		Account: r.Account, Sentence: r.Account + " has been DISCONNECTED for 12 min (since 2026-01-01 10:00:00Z, because of 515): its connection is lost.", WaitsFor: "Muster to try again", WhoActs: "muster",
		Machine: "whatsapp@2", Mode: "supervise", Desired: "run", State: "DISCONNECTED", Class: "down", Since: "2026-01-01T10:00:00Z", For: 720, Reason: "515",
		Conditions: []domain.ConditionView{}, Attention: []api.AttentionAdvice{}, After: api.AfterMove{Refused: []api.Event{}}, AsOf: api.AsOf{1: 3},
	}
	switch r.Account {
	case "acct-1":
		list := events()
		k := domain.AttentionNamed("flapping")
		w.Progress = &list[3]
		w.Conditions = []domain.ConditionView{{Name: "flapping", Since: "2026-01-01T10:00:00Z", Until: "2026-01-01T10:10:00Z"}}
		w.Attention = []api.AttentionAdvice{{Kind: k.Name, About: k.About, Do: k.Do}}
		w.After = api.AfterMove{Looked: 4, Whole: true, Noop: 1, Rejected: 1, Stale: 1, Refused: list[:1]}
		w.Source = api.SourceFacts{Name: "waha-1", LastWord: "2026-01-01T10:02:00Z", Age: n(600), Epoch: 3,
			Worker: &api.Worker{Name: "waha-1", State: "live", BeatAge: 2.5, BeatEvery: 10}}
		w.Retries = api.Retries{Done: 2, Most: 5, Last: "2026-01-01T10:11:00Z"}
		w.Next = &api.Deadline{Trigger: "start", At: "2026-01-01T10:12:07Z", In: 7}
		w.Dwell = api.Dwell{Stays: 1200, Median: n(40), P95: n(180), Longer: n(0.97)}
		w.Others = api.Others{InState: 12, SameReason: 9}
	case "acct-2":
		w.Damage = "event 7 is missing"
		w.Reason = ""
		w.After.Looked = 200
	default:
		return nil, refuse(r)
	}
	return w, nil
}

func TestWhy(t *testing.T) {
	f := fake(t)
	r := f.run(t, "why", "acct-1")
	r.want(t, 0, "")
	r.golden(t, "why.golden")
	r = f.run(t, "why", "acct-2")
	r.want(t, 0, "")
	r.golden(t, "why-little-known.golden")
	r = f.run(t, "why", "acct-1", "-o", "json")
	r.want(t, 0, "")
	r.golden(t, "why.json")
	f.run(t, "why", "nobody").want(t, 3, "not found")
}

func fakeFlapping(_ context.Context, r api.TransitionsRequest) (any, error) {
	if r.Window != "1h0m0s" {
		return nil, refuse(r)
	}
	return api.Transitions{Flapping: &api.Flapping{
		Accounts: 3, Machines: map[string]int{"whatsapp@2": 3}, Sources: map[string]int{"waha-1": 1, "waha-2": 2},
		Lost: []api.Lost{
			{Account: "acct-7", Times: 9, Last: "2026-01-01T11:00:00.25Z", State: "DISCONNECTED", Machine: "whatsapp@2", Source: "waha-2", Flapping: true},
			{Account: "acct-3", Times: 2, Last: "2026-01-01T10:30:00Z", State: "RUNNING", Machine: "whatsapp@2", Source: "waha-1"},
		},
	}}, nil
}

func TestAccountsFlapping(t *testing.T) {
	f := fake(t)
	r := f.run(t, "accounts", "flapping", "--window", "1h")
	r.want(t, 0, "")
	r.golden(t, "flapping.txt")
	r = f.run(t, "accounts", "flapping", "--window", "1h", "-o", "json")
	r.want(t, 0, "")
	r.golden(t, "flapping.json")
	for _, bad := range []string{"0s", "2h", "-1m"} {
		f.run(t, "accounts", "flapping", "--window", bad).want(t, 2, "from 1s to 1h are possible")
	}
}
