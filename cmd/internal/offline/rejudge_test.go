package offline

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/cmd/internal/machinefile"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/trace"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/eventlog/archive"
	"github.com/musterhq/muster/eventlog/codec"
)

// written archives events as a server would have stored them.
func written(t *testing.T, partitions int, events []*domain.Event) *archive.Archive {
	t.Helper()
	dir := t.TempDir()
	w, err := archive.Open(dir, make([]string, partitions), archive.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	seqs, last := make([]uint64, partitions), map[domain.AccountID][16]byte{}
	for _, e := range events {
		e.Prev = last[e.Account]
		data, err := codec.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		last[e.Account] = codec.Hash(data)
		p := eventlog.Partition(string(e.Account), partitions)
		seqs[p]++
		if err := w.Append(p, eventlog.Record{Partition: p, Seq: seqs[p], Account: string(e.Account), Data: data, Time: e.Recorded}); err != nil {
			t.Fatal(err)
		}
	}
	for p := range partitions {
		if err := w.Seal(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return opened(t, dir)
}

// randomTrace is a trace of some accounts, in which anything may follow anything.
func randomTrace(seed uint64, machine string, triggers []string) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	at := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	for i := range 1500 {
		at = at.Add(time.Duration(r.IntN(90)) * time.Second)
		account := fmt.Sprintf("acct-%d", r.IntN(25))
		fmt.Fprintf(&b, `{"account":%q,"trigger":%q,"at":%q,"source":"s%d","id":"id-%d"`, account, triggers[r.IntN(len(triggers))], at.Format(time.RFC3339), r.IntN(2), i)
		if r.IntN(3) == 0 {
			b.WriteString(`,"by":"user"`)
		}
		if r.IntN(4) > 0 {
			fmt.Fprintf(&b, `,"epoch":%d`, 1+i/200)
		}
		if machine != "" {
			fmt.Fprintf(&b, `,"machine":%q`, machine)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

var whatsappTriggers = []string{"start", "qr_received", "qr_scanned", "sync_completed", "connection_lost", "connection_ready", "reconnect_success",
	"reconnect_failed", "rate_limited", "logout", "stop"}

func judged(t *testing.T, text string, defaults ...string) *trace.Result {
	t.Helper()
	res, err := trace.Run(strings.NewReader(text), trace.Options{Machines: machines(t), Defaults: defaults})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func table(t *testing.T, defaults ...string) *Table {
	t.Helper()
	tab, err := NewTable(trace.Options{Machines: machines(t), Defaults: defaults})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// TestRejudgeFindsWhatTryFinds judges a trace under both tables, archives the
// one, and rejudges it under the other: what differs must be the lines of which
// the two verdicts differ.
func TestRejudgeFindsWhatTryFinds(t *testing.T) {
	for seed := range uint64(4) {
		text := randomTrace(seed, "", whatsappTriggers)
		was, would := judged(t, text), judged(t, text, "whatsapp@1")
		want := map[string]string{}
		lines := strings.Split(text, "\n")
		for i, n := 0, 0; i < len(was.Verdicts); i++ {
			v := was.Verdicts[i]
			if v.Line == 0 {
				continue
			}
			for would.Verdicts[n].Line != v.Line {
				n++
			}
			if w := would.Verdicts[n]; w.Outcome != v.Outcome || w.From != v.From || w.To != v.To {
				id := lines[v.Line-1][strings.Index(lines[v.Line-1], `"id-`):]
				want[id[:strings.Index(id[1:], `"`)+2]] = fmt.Sprint(v.Account, v.Version, v.Outcome, v.From, v.To, w.Outcome, w.From, w.To)
			}
		}
		if len(want) < 20 {
			t.Fatalf("seed %d: only %d lines differ", seed, len(want))
		}
		got := map[string]string{}
		a := written(t, 3, was.Events)
		r, err := Rejudge(t.Context(), a, table(t, "whatsapp@1"), Options{}, func(d Difference) {
			id := d.Line[strings.Index(d.Line, `"id-`):]
			got[id[:strings.Index(id[1:], `"`)+2]] = fmt.Sprint(d.Account, d.Version, d.Was.Outcome, d.Was.From, d.Was.To, d.Would.Outcome, d.Would.From, d.Would.To)
		})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			for id, w := range want {
				if got[id] != w {
					t.Errorf("seed %d: %s is %q, want %q", seed, id, got[id], w)
				}
			}
			t.Fatalf("seed %d: %d differ, want %d", seed, len(got), len(want))
		}
		if r.Differ != len(want) || r.Digest != would.Digest {
			t.Errorf("seed %d: %d differ, digest %s; want %d, %s", seed, r.Differ, r.Digest, len(want), would.Digest)
		}
		checkSums(t, r, was, would)
	}
}

// checkSums adds up what a rejudging counted.
func checkSums(t *testing.T, r *Rejudged, was, would *trace.Result) {
	t.Helper()
	n := 0
	for _, e := range r.Edges {
		n += e.Count
	}
	ends := map[[2]string]int{}
	same := 0
	for id, a := range was.Accounts {
		if w := would.Accounts[id].State; w == a.State {
			same++
		} else {
			ends[[2]string{a.State, w}]++
		}
	}
	got := map[[2]string]int{}
	for _, f := range r.Finals {
		got[[2]string{f.Was, f.Would}] = f.Accounts
	}
	if n != r.Differ || r.FinalSame != same || !reflect.DeepEqual(got, ends) || r.Accounts != len(was.Accounts) {
		t.Errorf("%d by edge of %d, %d same, ends %v of %d accounts; want %d same, %v of %d", n, r.Differ, r.FinalSame, got, r.Accounts, same, ends, len(was.Accounts))
	}
	if len(r.Examples) == 0 || len(r.Examples) > examplesInAll {
		t.Errorf("%d examples", len(r.Examples))
	}
}

// TestRejudgeUnderTheSameTable differs in nothing.
func TestRejudgeUnderTheSameTable(t *testing.T) {
	was := judged(t, randomTrace(9, "", whatsappTriggers))
	r, err := Rejudge(t.Context(), written(t, 2, was.Events), table(t, "whatsapp@2"), Options{}, nil)
	if err != nil || r.Differ != 0 || r.Digest != was.Digest || len(r.Finals) != 0 || r.OwnWas != r.OwnWould {
		t.Errorf("%v: %d differ, %v, own %d and %d, digest %s, want none and %s", err, r.Differ, r.Finals, r.OwnWas, r.OwnWould, r.Digest, was.Digest)
	}
}

// TestRejudgeTakesBeatsAsRecorded: heartbeats are not stored, so a history with them
// neither gains nor loses a loss when it is judged again under its own table.
func TestRejudgeTakesBeatsAsRecorded(t *testing.T) {
	beating := 0
	for _, path := range cases(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		was := judged(t, string(text))
		if !bytes.Contains(text, []byte(`"heartbeat"`)) || len(was.Events) == 0 {
			continue
		}
		beating++
		r, err := Rejudge(t.Context(), written(t, 2, was.Events), table(t), Options{}, nil)
		if err != nil || r.Differ != 0 || len(r.Finals) != 0 || r.Digest != was.Digest {
			t.Errorf("%s: %v: %d differ, %v", filepath.Base(path), err, r.Differ, r.Finals)
		}
	}
	if beating < 3 {
		t.Errorf("only %d cases have heartbeats", beating)
	}
}

// TestRejudgeReplaces says of which accounts a machine is replaced.
func TestRejudgeReplaces(t *testing.T) {
	events := func(machine string, triggers ...string) (list []*domain.Event) {
		var b bytes.Buffer
		for i, trigger := range triggers {
			fmt.Fprintf(&b, `{"account":"a-%s","trigger":%q,"at":"2026-01-05T10:00:%02dZ","by":"user","machine":%q}`+"\n", machine, trigger, i, machine)
		}
		return judged(t, b.String()).Events
	}
	a := written(t, 2, slices.Concat(events("whatsapp@2", "qr_received"), events("wecom@1", "login_started"), events("whatsapp@1", "start")))
	reg := machines(t)
	path := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(path, []byte(shop), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := machinefile.Load(path)
	if err = errors.Join(err, machinefile.Register(reg, []machinefile.File{f})); err != nil {
		t.Fatal(err)
	}
	for machine, want := range map[string]map[string]string{
		"whatsapp@1": {"a-whatsapp@2": "rejected"},                                                     // from IDLE no qr_received
		"whatsapp@2": {},                                                                               // what they say already, or alike
		"shop@1":     {"a-whatsapp@2": "rejected", "a-wecom@1": "rejected", "a-whatsapp@1": "applied"}, // no other version: all accounts
	} {
		tab, err := NewTable(trace.Options{Machines: reg, Defaults: []string{machine}})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		if _, err := Rejudge(t.Context(), a, tab, Options{}, func(d Difference) { got[string(d.Account)] = d.Would.Outcome }); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", machine, got, want)
		}
	}
	if _, err := NewTable(trace.Options{Machines: reg, Defaults: []string{"nosuch@1"}}); err == nil {
		t.Error("a machine that nobody knows is taken")
	}
}

const shop = `name: shop@1
initial: SHUT
states:
  - {name: SHUT, class: idle}
  - {name: OPEN, class: ready}
triggers: [start, stop]
edges:
  - {on: start, from: SHUT, to: OPEN}
  - {on: stop, from: OPEN, to: SHUT}
`
