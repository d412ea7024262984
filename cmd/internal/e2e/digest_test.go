package e2e

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/trace"
	"github.com/musterhq/muster/projections/stats"
)

// TestOneDigest judges a trace in three ways: without a server, by sending it to
// one, and by letting the server fold its own history anew. All agree, on the
// digest and on every account, verdict and number.
func TestOneDigest(t *testing.T) {
	for name, write := range map[string]func(*testing.T, time.Time) []byte{
		"cases": func(t *testing.T, begin time.Time) []byte {
			text, n := caseTrace(t, begin)
			if n < 60 {
				t.Fatalf("only %d cases fit: too few to mean anything", n)
			}
			t.Logf("%d cases", n)
			return text
		},
		"generated": func(t *testing.T, begin time.Time) []byte {
			seed := uint64(begin.UnixNano())
			t.Logf("seed %d", seed)
			return generate(begin, seed, 4000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "trace.jsonl")
			if err := os.WriteFile(file, write(t, time.Now().Add(ahead).Truncate(time.Second)), 0o644); err != nil {
				t.Fatal(err)
			}
			oneDigest(t, file)
		})
	}
}

func oneDigest(t *testing.T, file string) {
	var want trace.Result
	out, stderr, code := muster(t, "", "try", file, "-o", "json")
	if err := json.Unmarshal([]byte(out), &want); code != 0 || err != nil {
		t.Fatalf("try: exit %d, %v: %s", code, err, stderr)
	}
	dir := t.TempDir()
	args := []string{"--data", dir, "--log-transitions=false", "--recover-after", "24h"}
	p := serve(t, args...)
	sendTrace(t, p, file, &want)
	agrees(t, p, &want)

	p.stop()
	p = serve(t, args...)
	if n := fromSnapshots(t, p); n == 0 {
		t.Fatalf("no snapshot was used:\n%s", p.out)
	}
	agrees(t, p, &want)

	p.stop()
	streams := filepath.Join(dir, "nats", "jetstream", "$G", "streams")
	if err := os.RemoveAll(filepath.Join(streams, "OBJ_MUSTER_BLOBS")); err != nil {
		t.Fatal(err)
	}
	p = serve(t, args...)
	if n := fromSnapshots(t, p); n != 0 {
		t.Fatalf("%d snapshots were used, and there should be none:\n%s", n, p.out)
	}
	agrees(t, p, &want)
	p.stop()
}

var snapshotUsed = regexp.MustCompile(`msg=replayed .* snapshot=(\d+)`)

// fromSnapshots is how many partitions were folded on from a snapshot.
func fromSnapshots(t *testing.T, p *proc) (n int) {
	t.Helper()
	found := snapshotUsed.FindAllStringSubmatch(p.out.String(), -1)
	if len(found) != partitions {
		t.Fatalf("%d partitions say what they replayed:\n%s", len(found), p.out)
	}
	for _, f := range found {
		if f[1] != "0" {
			n++
		}
	}
	return n
}

// sendTrace sends the file and compares each verdict with that of try.
func sendTrace(t *testing.T, p *proc, file string, want *trace.Result) {
	t.Helper()
	out, stderr, code := muster(t, "", "send", "--file", file, "--keep-going", "--server", "nats://"+p.nats)
	if expect := exitOf(&want.Counts); code != expect {
		t.Fatalf("send: exit %d, want %d: %s", code, expect, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(want.Verdicts) {
		t.Fatalf("%d verdicts were sent back, want %d", len(lines), len(want.Verdicts))
	}
	for i, line := range lines {
		var got trace.Verdict
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		w := want.Verdicts[i]
		got.Line, got.Source = w.Line, w.Source // which send does not print
		if got != w {
			t.Fatalf("line %d\n   sent: %+v\n    try: %+v", w.Line, got, w)
		}
	}
}

// exitOf is the exit code of a trace with these outcomes.
func exitOf(n *trace.Counts) int {
	switch {
	case n.Invalid > 0:
		return 2
	case n.Conflict > 0:
		return 4
	case n.Rejected+n.Stale > 0:
		return 8
	}
	return 0
}

// agrees compares everything that a server tells with what try has said, and
// its figures with a plain count over its streams.
func agrees(t *testing.T, p *proc, want *trace.Result) {
	t.Helper()
	ask := func(into any, args ...string) {
		t.Helper()
		out, stderr, code := muster(t, "", append(args, "-o", "json", "--server", "nats://"+p.nats)...)
		if err := json.Unmarshal([]byte(out), into); code != 0 || err != nil {
			t.Fatalf("%v: exit %d, %v: %s", args, code, err, stderr)
		}
	}
	var d struct {
		Digest   string
		Accounts int
		AsOf     json.RawMessage `json:"as_of"`
	}
	ask(&d, "digest")
	all := stored(t, p)
	for _, events := range all {
		for _, e := range events {
			if e.Source == domain.SourceMuster {
				t.Fatalf("%s %s of %s: the test took so long that a deadline fell into it", e.Source, e.Trigger, e.Account)
			}
		}
	}
	if d.Digest != want.Digest || d.Digest != fold(all) || d.Accounts != len(want.Accounts) {
		t.Fatalf("the digest is %s over %d accounts, that of try %s over %d, that of a plain fold %s",
			d.Digest, d.Accounts, want.Digest, len(want.Accounts), fold(all))
	}
	var page struct{ Accounts []domain.AccountView }
	ask(&page, "accounts", "list", "--limit", "1000", "--wait-for", string(d.AsOf))
	if len(page.Accounts) != len(want.Accounts) {
		t.Fatalf("%d accounts are listed, want %d", len(page.Accounts), len(want.Accounts))
	}
	for i, a := range page.Accounts {
		if w := want.Accounts[string(a.ID)]; !reflect.DeepEqual(a, w) {
			t.Fatalf("account %q is listed as\n%+v\nwant\n%+v", a.ID, a, w)
		}
		if i%17 == 0 { // get is the same query for each
			var got domain.AccountView
			if ask(&got, "accounts", "get", string(a.ID)); !reflect.DeepEqual(got, a) {
				t.Fatalf("account %q is listed as\n%+v\nbut got as\n%+v", a.ID, a, got)
			}
		}
	}
	var s stats.Stats
	ask(&s, "stats", "--wait-for", string(d.AsOf))
	compareStats(t, &s, want, all)
}

// compareStats counts plainly what stats tell.
func compareStats(t *testing.T, s *stats.Stats, want *trace.Result, all map[string][]storedEvent) {
	t.Helper()
	states, classes, machines := map[string]int{}, map[string]int{}, map[string]map[string]int{}
	for _, a := range want.Accounts {
		states[a.State]++
		classes[a.Class]++
		if machines[a.Machine] == nil {
			machines[a.Machine] = map[string]int{}
		}
		machines[a.Machine][a.State]++
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"accounts", s.Accounts, len(want.Accounts)},
		{"states", positive(s.States), states},
		{"classes", positive(s.Classes), classes},
		{"by_machine", positiveEach(s.ByMachine), machines},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Fatalf("%s: %v, a plain count gives %v", c.what, c.got, c.want)
		}
	}
	n := count(all)
	if s.Transitions.Total != n.total || !reflect.DeepEqual(s.Transitions.Edges, n.edges) {
		t.Fatalf("transitions: %+v, a plain count gives %d, %+v", s.Transitions, n.total, n.edges)
	}
	if !reflect.DeepEqual(s.Outcomes, n.outcomes) || s.LoggedOut.Total != n.loggedOut || !reflect.DeepEqual(s.LoggedOut.ByReason, n.reasons) {
		t.Fatalf("outcomes %v, logged out %+v; a plain count gives %v, %d, %v", s.Outcomes, s.LoggedOut, n.outcomes, n.loggedOut, n.reasons)
	}
	o := s.TimeToRunning.Onboarding
	if o.Reached != n.reached || o.Open != n.open || o.Abandoned != n.abandoned {
		t.Fatalf("onboarding: %+v; a plain count gives %d reached, %d open, %d abandoned", o, n.reached, n.open, n.abandoned)
	}
	if mean := n.seconds / float64(n.reached); n.reached > 0 && (o.Mean == nil || *o.Mean < mean-1e-6 || *o.Mean > mean+1e-6) {
		t.Fatalf("onboarding takes %v s on average, a plain count gives %v", o.Mean, mean)
	}
}

// positive leaves out what is counted as 0.
func positive(m map[string]int) map[string]int {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(_ string, n int) bool { return n == 0 })
	return m
}

func positiveEach(m map[string]map[string]int) map[string]map[string]int {
	out := map[string]map[string]int{}
	for name, states := range m {
		if p := positive(states); len(p) > 0 {
			out[name] = p
		}
	}
	return out
}

// counted is a plain count over the events of all accounts.
type counted struct {
	total, loggedOut         uint64
	edges                    []stats.Edge
	outcomes, reasons        map[string]uint64
	reached, abandoned, open int     // first attempts to come up
	seconds                  float64 // of those that reached it, in all
}

func count(all map[string][]storedEvent) *counted {
	n := &counted{outcomes: map[string]uint64{"applied": 0, "noop": 0, "stale": 0, "rejected": 0}, reasons: map[string]uint64{}}
	edges := map[stats.Edge]uint64{}
	for _, events := range all {
		for _, e := range events {
			n.outcomes[e.Outcome.String()]++
			if !moved(&e) {
				continue
			}
			n.total++
			edges[stats.Edge{From: e.From, Trigger: e.Trigger, To: e.To}]++
			if e.To == "LOGGED_OUT" {
				n.loggedOut++
				n.reasons[e.Reason.Code]++
			}
		}
		n.onboard(events)
	}
	for e, count := range edges {
		e.Count = count
		n.edges = append(n.edges, e)
	}
	slices.SortFunc(n.edges, func(a, b stats.Edge) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.From, b.From), cmp.Compare(a.Trigger, b.Trigger), cmp.Compare(a.To, b.To))
	})
	return n
}

// moved says whether an event took the account from one state to another.
func moved(e *storedEvent) bool {
	return e.Outcome == domain.Applied && (e.Kind == domain.KindSession || e.Kind == domain.KindMark)
}

// onboard follows one account until it is up for the first time: an attempt
// begins with the first state on the way up, and ends up, logged out or stopped.
func (n *counted) onboard(events []storedEvent) {
	m, _ := lifecycle.Registry().Get(events[0].Machine)
	begun := int64(0)
	for _, e := range events {
		if e.Kind == domain.KindAccount && e.Trigger == "forget" {
			if begun != 0 {
				n.abandoned++
			}
			begun = 0
			continue
		}
		if !moved(&e) {
			continue
		}
		switch to := m.Class(e.To); {
		case to == "ready" || e.Trigger == "adopt":
			if begun != 0 {
				n.reached++
				n.seconds += time.Duration(e.At - begun).Seconds()
			}
			return
		case begun != 0 && (e.Trigger == "logout" || e.To == "LOGGED_OUT" || to == "stopped" || to == "idle"):
			begun = 0
			n.abandoned++
		case begun == 0 && e.Trigger != "logout" && e.To != "LOGGED_OUT" && (to == "starting" || to == "human"):
			begun = e.At
		}
	}
	if begun != 0 {
		n.open++
	}
}
