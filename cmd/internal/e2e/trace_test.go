package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/trace"
)

// The traces here lie a little in the future: further than a test takes, so that
// no deadline that counts from one of their times is due while it runs, and
// nearer than the five minutes from which on a time is cut to now.
const (
	ahead  = 2 * time.Minute  // the first line's time, seen from now
	window = 90 * time.Second // the last line's, seen from the first
)

// caseTrace puts the traces of real accounts into one trace that begins at a
// time. They are told quickly, so that those in which Muster's own deadlines do
// not fall even so can be left out and most remain. It returns the trace and how
// many it was made of.
func caseTrace(t *testing.T, begin time.Time) (text []byte, cases int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(project, "domain", "trace", "testdata", "cases", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	var all []timedLine
	for _, file := range files {
		if lines := hurried(t, file, begin); quiet(t, lines, begin.Add(window)) {
			all = append(all, lines...)
			cases++
		}
	}
	slices.SortStableFunc(all, func(a, b timedLine) int { return a.at.Compare(b.at) })
	for _, l := range all {
		text = append(append(text, l.text...), '\n')
	}
	return text, cases
}

// timedLine is a line of a trace and its time.
type timedLine struct {
	at   time.Time
	text string
}

var timeText = regexp.MustCompile(`"20\d\d-\d\d-\d\dT[0-9:.]+Z"`)

// hurried reads a case and moves its times so that it starts at begin and no line
// comes more than a second after the one before; times in the data keep their
// distance to the line's. The case's name is put before its accounts'.
func hurried(t *testing.T, file string, begin time.Time) (lines []timedLine) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
	now, before := begin, time.Time{}
	for line := range strings.Lines(string(text)) {
		var l struct {
			At     time.Time
			Source string
		}
		if json.Unmarshal([]byte(line), &l) != nil || l.Source == domain.SourceMuster {
			continue
		}
		if l.At.IsZero() {
			t.Fatalf("%s: a line without a time: %s", file, line)
		}
		if !before.IsZero() {
			now = now.Add(min(l.At.Sub(before), time.Second))
		}
		before = l.At
		line = timeText.ReplaceAllStringFunc(line, func(s string) string {
			at, err := time.Parse(`"`+time.RFC3339Nano+`"`, s)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			return now.Add(at.Sub(l.At)).UTC().Format(`"` + time.RFC3339Nano + `"`)
		})
		line = strings.Replace(strings.TrimSpace(line), `"account":"`, `"account":"`+name+` `, 1)
		lines = append(lines, timedLine{now, line})
	}
	return lines
}

// quiet says whether a trace lies before end and no deadline falls into the
// time until then.
func quiet(t *testing.T, lines []timedLine, end time.Time) bool {
	t.Helper()
	var text strings.Builder
	for _, l := range lines {
		if l.at.After(end) {
			return false
		}
		text.WriteString(l.text + "\n")
	}
	res, err := trace.Run(strings.NewReader(text.String()), trace.Options{
		Machines: lifecycle.Registry(), Until: end.UnixNano(), HasUntil: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(res.Verdicts, func(v trace.Verdict) bool { return v.Line == 0 })
}

// generator writes a trace of a fleet: accounts of all machines that connect,
// lose their connections and send messages, publishers that repeat themselves,
// are late, or send what is no trigger.
type generator struct {
	rnd      *rand.Rand
	clock    time.Time
	run      *trace.Runner // knows the versions
	accounts []*generated
	text     bytes.Buffer
	number   int
}

// generated is one account of a generated trace.
type generated struct {
	id, machine string
	words       []string
	step        int
	epoch, seq  int64
	begun       bool
	last        map[string]any
}

// words are the session triggers of each machine, in an order that mostly makes sense.
var words = map[string][]string{
	"whatsapp@1": {"start", "qr_received", "qr_scanned", "sync_completed", "rate_limited", "connection_ready", "connection_lost", "start", "reconnect_success", "logout", "start", "connection_lost", "stop"},
	"whatsapp@2": append(slices.Clone(storyline), "restricted", "restriction_lifted", "user_action_needed", "connection_replaced", "start", "connection_ready", "banned", "start", "connection_ready"),
	"wecom@1":    {"login_started", "login_succeeded", "sync_started", "sync_completed", "heartbeat", "sync_advanced", "ticket_renewed", "connection_lost", "reconnected", "sync_completed", "logout"},
	"instance@1": {"online", "offline", "online", "online", "offline"},
}

// generate returns a trace of n lines over 50 accounts, the first of which has
// this time and the last one lies within the window.
func generate(begin time.Time, seed uint64, n int) []byte {
	g := &generator{rnd: rand.New(rand.NewPCG(seed, 0)), clock: begin, run: trace.NewRunner(domain.NewJudge(lifecycle.Registry()))}
	odd := []string{"a.b c>*", "😀", "+15550100001", "15550100001@s.whatsapp.net", strings.Repeat("ü", 64)}
	for i := range 50 {
		a := &generated{id: fmt.Sprintf("gen-%02d", i), machine: "whatsapp@2", epoch: 1}
		if i < len(odd) {
			a.id = odd[i]
		}
		switch i % 10 {
		case 7:
			a.machine = "whatsapp@1"
		case 8:
			a.machine = "wecom@1"
		case 9:
			a.machine = "instance@1"
		}
		a.words = words[a.machine]
		g.accounts = append(g.accounts, a)
	}
	for range n {
		g.clock = g.clock.Add(window / time.Duration(n+1))
		g.line()
	}
	return g.text.Bytes()
}

// line writes one more line.
func (g *generator) line() {
	g.number++
	a := g.accounts[g.rnd.IntN(len(g.accounts))]
	l := map[string]any{"account": a.id, "at": g.clock.UTC().Format(time.RFC3339Nano)}
	switch p := g.rnd.IntN(100); {
	case !a.begun:
		g.session(a, l)
		l["machine"], l["labels"] = a.machine, map[string]string{"pool": []string{"eu", "us"}[g.rnd.IntN(2)], "n": fmt.Sprint(g.number)}
		a.begun = true
	case p < 65:
		g.session(a, l)
	case p < 77:
		g.message(l)
	case p < 87:
		g.conversation(l)
	case p < 90:
		l["trigger"], l["by"], l["data"] = "set_labels", "user", map[string]any{"labels": map[string]string{"pool": fmt.Sprint(g.rnd.IntN(3))}}
	case p < 95:
		l = a.last // said twice
	case p < 97:
		l["trigger"] = []string{"qr_recieved", "", "START", "mark_stuck"}[g.rnd.IntN(4)] // is no trigger
	default:
		l["trigger"], l["data"] = "user_action_needed", map[string]any{"action": "open the phone", "n": g.number, "list": []any{1, "two", nil, true}}
	}
	if g.rnd.IntN(3) > 0 && l["id"] == nil {
		l["id"] = fmt.Sprintf("g-%05d", g.number)
	}
	a.last = l
	text, _ := json.Marshal(l)
	g.text.Write(append(text, '\n'))
	if t, err := domain.ParseTrigger(text); err == nil {
		g.run.Feed(g.number, &t)
	}
}

// session fills in a trigger of the account's machine.
func (g *generator) session(a *generated, l map[string]any) {
	word := a.words[a.step%len(a.words)]
	if g.rnd.IntN(4) == 0 { // some other one, which seldom fits
		word = a.words[g.rnd.IntN(len(a.words))]
	} else {
		a.step++
	}
	l["trigger"], l["source"] = word, "gw-"+a.machine
	if g.rnd.IntN(8) == 0 {
		a.epoch, a.seq = a.epoch+1, 0
	}
	a.seq++
	l["epoch"], l["seq"] = a.epoch, a.seq
	switch p := g.rnd.IntN(24); {
	case p == 0: // of a connection that is gone
		l["epoch"] = max(a.epoch-1, 0)
	case p == 1: // late
		delete(l, "epoch")
		delete(l, "seq")
		l["at"] = g.clock.Add(-time.Duration(g.rnd.IntN(20)) * time.Second).UTC().Format(time.RFC3339Nano)
	case p == 2:
		l["expect"] = g.rnd.IntN(40)
	case p == 3:
		l["expect"] = 0
		if known := g.run.Account(domain.AccountID(a.id)); known != nil {
			l["expect"] = known.Version
		}
	case p < 8:
		l["by"] = []string{"user", "us", "remote", "unknown"}[p-4]
	}
	l["reason"] = map[string]any{"code": []string{"401", "515", "timeout"}[g.rnd.IntN(3)]}
	if data := g.sessionData(word); data != nil {
		l["data"] = data
	}
}

// sessionData is what a session trigger carries, nil if nothing.
func (g *generator) sessionData(word string) map[string]any {
	after := func(d time.Duration) string { return g.clock.Add(d).UTC().Format(time.RFC3339Nano) }
	switch word {
	case "rate_limited":
		if g.rnd.IntN(2) == 0 {
			return map[string]any{"until": after(time.Hour)}
		}
	case "restricted":
		return map[string]any{"scope": []string{"", "new_chats"}[g.rnd.IntN(2)], "until": after(time.Hour)}
	case "banned":
		return map[string]any{"until": after(24 * time.Hour), "code": "403"}
	case "login_succeeded":
		return map[string]any{"sid_until": after(24 * time.Hour), "tgt_until": after(720 * time.Hour)}
	case "ticket_renewed":
		return map[string]any{"sid_until": after(24 * time.Hour)}
	case "sync_completed", "sync_advanced":
		return map[string]any{"next_seq": g.number, "full": g.rnd.IntN(10) == 0}
	}
	return nil
}

func (g *generator) message(l map[string]any) {
	l["trigger"] = []string{"message_pending", "message_sent", "message_delivered", "message_read", "message_replied", "message_failed"}[g.rnd.IntN(6)]
	l["key"] = fmt.Sprintf("m-%d", g.rnd.IntN(6))
	if g.rnd.IntN(5) == 0 {
		l["data"] = map[string]any{"reply_within": 3600, "text": "héllo 👋"}
	}
}

func (g *generator) conversation(l map[string]any) {
	l["trigger"] = []string{"customer_message", "claim", "take_over", "human_replied", "hand_back", "end"}[g.rnd.IntN(6)]
	l["key"] = fmt.Sprintf("contact-%d", g.rnd.IntN(3))
	message := fmt.Sprintf("in-%d", g.rnd.IntN(8))
	switch l["trigger"] {
	case "customer_message":
		l["data"] = map[string]any{"message": message}
	case "claim":
		l["data"] = map[string]any{"message": message, "side": []string{"bot", "human"}[g.rnd.IntN(2)], "handler": fmt.Sprintf("h-%d", g.rnd.IntN(3))}
	case "end":
		l["by"] = []string{"user", "us"}[g.rnd.IntN(2)]
	}
}
