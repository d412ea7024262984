package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/all"
	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/hub"
	"github.com/musterhq/muster/bus/connector/play"
	"github.com/musterhq/muster/bus/connector/sign"
	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

// recorded is where the recorded sequences lie.
const recorded = "../../../bus/connector/connectortest/testdata"

// hookCase is a recorded sequence with the source that it gets in the one server
// of all sequences. The first of each kind keeps the path without a source.
type hookCase struct {
	*play.Case
	file string
	name string
}

func hookCases(t *testing.T) []hookCase {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recorded, "*", "*.json"))
	if err != nil || len(files) < 37 {
		t.Fatalf("%d recorded sequences found (%v), want 37", len(files), err)
	}
	seen := map[string]int{}
	var cases []hookCase
	for _, file := range files {
		c := hookCase{Case: connectortest.Load(t, file), file: strings.TrimPrefix(file, recorded+"/")}
		c.name = c.Connector
		if n := seen[c.Connector]; n > 0 {
			c.name = fmt.Sprintf("%s-%d", c.Connector, n+1)
		}
		seen[c.Connector]++
		cases = append(cases, c)
	}
	return cases
}

// config is the file of serve with a source for each sequence.
func hookConfig(t *testing.T, cases []hookCase) string {
	t.Helper()
	type entry struct {
		Kind   string `json:"kind"`
		Name   string `json:"name"`
		Secret string `json:"secret"`
		connector.Settings
	}
	var list []entry
	for _, c := range cases {
		list = append(list, entry{c.Connector, c.name, c.Secret, c.Config})
	}
	text, err := json.Marshal(map[string]any{"connectors": list}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "muster.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWebhooks sends every recorded sequence over HTTP to one running server and
// compares what a real clock leaves comparable: the answers, which of them
// appended nothing, states that were entered, messages and conversations; and no
// secret is in any file of the data directory, or in what the server printed.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	cases := hookCases(t)
	dir := t.TempDir()
	file := hookConfig(t, cases)
	p := serve(t, "--data", dir, "--config", file)
	nc := p.connect()
	t.Run("sequences", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.file, func(t *testing.T) {
				t.Parallel()
				r := &hookRun{t: t, c: &c, p: p, q: bus.NewClient(nc, bus.ClientConfig{Timeout: 30 * time.Second})}
				r.run()
			})
		}
	})
	listed, stderr, code := muster(t, "", "connectors", "list", "--samples", "--server", "nats://"+p.nats)
	if code != 0 || strings.Count(listed, "/hooks/") != len(cases) || !strings.Contains(listed, "session.teleported") {
		t.Errorf("connectors list: exit %d, %s\n%s", code, stderr, listed)
	}
	for name, want := range map[string]int{"waha-2": 0, "gewechat": 0, "evolution-6": 0, "nobody": 3} {
		out, stderr, code := muster(t, `{"event":"quantum","TypeName":"quantum"}`, "connectors", "test", name, "--config", file, "--http", p.http, "-o", "json")
		if code != want || code == 0 && !strings.Contains(out, `"status": 200`) {
			t.Errorf("connectors test %s: exit %d, want %d: %s%s", name, code, want, out, stderr)
		}
	}
	p.stop()
	for _, c := range cases {
		for _, secret := range append(c.Expect.SecretsAbsent, c.Secret) {
			if strings.Contains(p.out.String(), secret) || strings.Contains(listed, secret) {
				t.Errorf("%s: %q was printed", c.file, secret)
			}
			absent(t, dir, c.file, secret)
		}
	}
}

// absent searches all files below a folder.
func absent(t *testing.T, dir, what, secret string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if form := connectortest.LeaksIn(text, secret); err == nil && form != "" {
			t.Errorf("%s: %q is in %s as %s", what, secret, path, form)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hookRun is one sequence on its way.
type hookRun struct {
	t *testing.T
	c *hookCase
	p *proc
	q *bus.Client
}

func (r *hookRun) run() {
	statuses, quiet := []int{}, []int{}
	before := r.events()
	for i := range r.c.Requests {
		status, header, body := r.send(i)
		statuses = append(statuses, status)
		after := r.events()
		if after == before {
			quiet = append(quiet, i)
		}
		before = after
		if want, ok := r.c.Expect.Bodies[fmt.Sprint(i)]; ok && body != want {
			r.t.Errorf("body of answer %d: want %q, got %q", i, want, body)
		}
		for name, want := range r.c.Expect.ResponseHeaders[fmt.Sprint(i)] {
			if got := header.Get(name); got != want {
				r.t.Errorf("header %s of answer %d: want %q, got %q", name, i, want, got)
			}
		}
	}
	r.same("http", r.c.Expect.HTTP, statuses)
	r.same("no_new_events", r.c.Expect.NoNewEvents, quiet)
	for id, want := range r.c.Expect.Accounts {
		r.account(r.id(id), &want)
	}
	r.noOthers()
}

func (r *hookRun) same(what string, want, got any) {
	r.t.Helper()
	if !reflect.DeepEqual(want, got) {
		r.t.Errorf("%s: want %v, got %v", what, want, got)
	}
}

// id is the account's id under this run's source.
func (r *hookRun) id(recorded string) string {
	if native, ok := strings.CutPrefix(recorded, r.c.Connector+":"); ok {
		return r.c.name + ":" + native
	}
	return recorded
}

// send sends one request and returns the answer.
func (r *hookRun) send(i int) (status int, header http.Header, body string) {
	one := &r.c.Requests[i]
	path := one.Path
	if r.c.name != r.c.Connector {
		path = strings.Replace(path, hub.Prefix+r.c.Connector, hub.Prefix+r.c.Connector+"/"+r.c.name, 1)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), one.Method, "http://"+r.p.http+path, bytes.NewReader(r.body(i)))
	if err != nil {
		r.t.Fatal(err)
	}
	for name, value := range one.Headers {
		req.Header.Set(name, value)
	}
	r.renew(i, req)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatalf("request %d: %v", i, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatalf("request %d: %v", i, err)
	}
	return answer.StatusCode, answer.Header, string(text)
}

// written are the times of messages of peers that do not sign, in seconds.
var written = regexp.MustCompile(`("CreateTime"|"timestamp"): ?([0-9]{10})`)

// lossWithoutTime is the body in which they report a loss.
var lossWithoutTime = regexp.MustCompile(`"TypeName": ?"Offline"|"messageType": ?"30000"`)

// body is the request's body. Some peers tell when a message was written, but
// not when a connection was lost, so that the arrival counts: there the times of
// messages are as far from now as they were from the last such arrival.
func (r *hookRun) body(i int) []byte {
	body := r.c.Requests[i].Bytes()
	if r.c.Connector != "gewechat" && r.c.Connector != "eyun" {
		return body
	}
	from := r.c.Requests[i].At
	for j := range i {
		if lossWithoutTime.Match(r.c.Requests[j].Bytes()) {
			from = r.c.Requests[j].At
		}
	}
	return written.ReplaceAllFunc(body, func(text []byte) []byte {
		part := written.FindSubmatch(text)
		at, err := strconv.ParseInt(string(part[2]), 10, 64)
		if err != nil {
			r.t.Fatal(err)
		}
		return fmt.Appendf(nil, "%s:%d", part[1], time.Now().Unix()+at-from.Unix())
	})
}

// renew puts a fresh token in place of a recorded one that was good when it was
// recorded: tokens end, and this clock is a real one.
func (r *hookRun) renew(i int, req *http.Request) {
	if r.c.Config.Auth != "jwt" || r.c.Expect.HTTP[i] == http.StatusUnauthorized {
		return
	}
	s := &connector.Source{Kind: r.c.Connector, Name: r.c.name, Auth: "jwt", Secrets: []string{r.c.Secret}}
	if err := sign.Request(s, &connector.Request{Header: req.Header, Query: url.Values{}, At: time.Now().UnixNano()}); err != nil {
		r.t.Fatal(err)
	}
}

// events counts what was appended to the sequence's accounts by others than
// Muster itself.
func (r *hookRun) events() (n int) {
	for id := range r.c.Expect.Accounts {
		for _, e := range r.timeline(r.id(id)) {
			if e.Source != domain.SourceMuster {
				n++
			}
		}
	}
	return n
}

// timeline is an account's history, oldest first; none when there is no account.
func (r *hookRun) timeline(id string) []bus.Event {
	var got api.Timeline
	err := r.q.Query(r.t.Context(), api.TimelineQuery, api.TimelineRequest{Account: id, Limit: api.MaxLimit}, &got)
	if err != nil && !isNotFound(err) {
		r.t.Fatal(err)
	}
	slices.Reverse(got.Events)
	return got.Events
}

func isNotFound(err error) bool { return strings.Contains(err.Error(), "there is no account") }

// account compares what does not depend on when deadlines fire.
func (r *hookRun) account(id string, want *play.ExpectAccount) {
	var got api.Account
	history := r.timeline(id)
	if len(history) == 0 {
		r.t.Errorf("account %s has no events", id)
		return
	}
	waitFor := api.AsOf{}
	var page api.Timeline
	if err := r.q.Query(r.t.Context(), api.TimelineQuery, api.TimelineRequest{Account: id, Limit: 1}, &page); err != nil {
		r.t.Fatal(err)
	}
	maps.Copy(waitFor, page.AsOf)
	if err := r.q.Query(r.t.Context(), api.GetQuery, api.GetRequest{Account: id, WaitFor: waitFor}, &got); err != nil {
		r.t.Fatal(err)
	}
	trail := []string{}
	for _, e := range history {
		if e.Outcome == "applied" && e.Key == "" && e.From != e.To && e.Trigger != "condition_expired" {
			trail = append(trail, e.To)
		}
	}
	r.same(id+" trail", r.wantTrail(id, want), trail)
	messages := map[string]string{}
	for key, m := range got.Messages {
		if m.State != "TIMED_OUT" {
			messages[key] = m.State
		}
	}
	for key, state := range want.Messages {
		if m, ok := got.Messages[key]; ok && m.State == "TIMED_OUT" || state == "TIMED_OUT" {
			continue
		}
		if _, ok := messages[key]; !ok { // closed months ago: only the history has it
			messages[key] = lastState(history, key)
		}
		r.same(id+" message "+key, state, messages[key])
	}
	conversations := map[string]string{}
	for key, c := range got.Conversations {
		conversations[key] = c.State
	}
	if len(want.Conversations)+len(conversations) > 0 {
		r.same(id+" conversations", want.Conversations, conversations)
	}
}

// lastState is where the last applied event about a message led to.
func lastState(history []bus.Event, key string) (state string) {
	for _, e := range history {
		if e.Key == key && e.Outcome == "applied" {
			state = e.To
		}
	}
	return state
}

// wantTrail is the stated trail without what a deadline did, which the virtual
// player tells apart.
func (r *hookRun) wantTrail(id string, want *play.ExpectAccount) []string {
	got := played(r.t, r.c.Case)
	trail := []string{}
	whole := []string{}
	for _, e := range got.Stored {
		if r.id(string(e.Account)) != id || e.Outcome != domain.Applied || e.Key != "" || e.From == e.To {
			continue
		}
		whole = append(whole, e.To)
		if e.Trigger != "condition_expired" {
			trail = append(trail, e.To)
		}
	}
	r.same(id+" trail on a virtual clock", want.Trail, whole)
	return trail
}

// noOthers: the sequence's source has no accounts but those that are stated.
func (r *hookRun) noOthers() {
	var page api.Page
	if err := r.q.Query(r.t.Context(), api.ListQuery, api.ListRequest{Prefix: r.c.name + ":"}, &page); err != nil {
		r.t.Fatal(err)
	}
	for _, a := range page.Accounts {
		native := strings.TrimPrefix(string(a.ID), r.c.name+":")
		if _, ok := r.c.Expect.Accounts[r.c.Connector+":"+native]; !ok {
			r.t.Errorf("there is an account %s", a.ID)
		}
	}
}

// played plays a sequence on the virtual clock.
func played(t *testing.T, c *play.Case) *play.Result {
	t.Helper()
	k, ok := all.Named(c.Connector)
	if !ok {
		t.Fatalf("there is no connector %q", c.Connector)
	}
	judge := domain.NewJudge(lifecycle.Registry())
	got, err := play.Run(t.Context(), c, k.New(judge), judge)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
