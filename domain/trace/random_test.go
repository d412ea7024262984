package trace_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
	"github.com/musterhq/muster/domain/trace"
)

var (
	lines = flag.Int("lines", 20_000, "random trace lines per machine")
	seed  = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the random lines; a failure prints it")
)

// traceLines is the length of one random trace.
const traceLines = 2_000

// TestRandomTraces judges random lines under every built-in machine: nothing
// panics, nothing is in a state that is not in the tables, and the digest is the
// same when the lines are judged again and when the events are folded anew.
func TestRandomTraces(t *testing.T) {
	reg := lifecycle.Registry()
	for _, d := range lifecycle.Builtin() {
		t.Run(d.Name, func(t *testing.T) {
			t.Logf("%d lines, seed %d (-seed %d plays them again)", *lines, *seed, *seed)
			var counts trace.Counts
			reached := map[string]bool{}
			for n := 0; n < *lines; n += traceLines {
				w := newWriter(reg, d, rand.New(rand.NewPCG(*seed, uint64(n))))
				text := w.trace(min(traceLines, *lines-n))
				opts := trace.Options{Machines: reg, Defaults: w.defaults, Mode: pick(w.r, "", "observe", "supervise")}
				result := judged2(t, text, opts)
				for _, fault := range []string{states(reg, opts, result), refolded(result)} {
					if fault != "" {
						t.Fatalf("seed %d, lines from %d: %s", *seed, n, fault)
					}
				}
				sum(&counts, result.Counts)
				for i := range result.Verdicts {
					reached[result.Verdicts[i].To] = true
				}
			}
			t.Logf("%+v", counts)
			if never := missing(d, counts, reached); never != "" && *lines >= 10_000 {
				t.Errorf("%s never came, so the lines try too little", never)
			}
		})
	}
}

// judged2 judges a trace twice and expects the same.
func judged2(t *testing.T, text []byte, opts trace.Options) *trace.Result {
	t.Helper()
	var first *trace.Result
	for range 2 {
		result, err := trace.Run(bytes.NewReader(text), opts)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = result
			continue
		}
		if first.Digest != result.Digest || !slices.Equal(first.Verdicts, result.Verdicts) {
			t.Fatalf("seed %d: the same lines give %s and %s", *seed, first.Digest, result.Digest)
		}
	}
	return first
}

// refolded says whether the events, folded anew, give another digest.
func refolded(r *trace.Result) string {
	accounts := map[domain.AccountID]*domain.Account{}
	for _, e := range r.Events {
		accounts[e.Account] = domain.Evolve(accounts[e.Account], e)
	}
	list := make([]*domain.Account, 0, len(r.Fold))
	for _, a := range r.Fold {
		list = append(list, accounts[a.ID])
	}
	if digest := domain.Digest(list); digest != r.Digest {
		return fmt.Sprintf("the events folded anew give %s, not %s", digest, r.Digest)
	}
	return ""
}

// states names a state that is in no table, "" when there is none.
func states(reg *machine.Registry, opts trace.Options, r *trace.Result) string {
	has := func(name, state string) bool {
		m, ok := reg.Get(name)
		if !ok {
			return false
		}
		_, ok = m.State(state)
		return ok && state != "NEW"
	}
	for _, a := range r.Fold {
		v := r.Accounts[string(a.ID)]
		m, known := reg.Get(a.Machine)
		switch {
		case !known:
			return fmt.Sprintf("account %s has machine %q", a.ID, a.Machine)
		case !has(a.Machine, a.State):
			return fmt.Sprintf("account %s of %s is in %q", a.ID, a.Machine, a.State)
		case !a.Forgotten && (v.State != a.State || v.Class != m.Class(a.State)):
			return fmt.Sprintf("account %s is shown as %s (%s)", a.ID, v.State, v.Class)
		case a.Mode != domain.ModeObserve && a.Mode != domain.ModeSupervise, a.Desired != domain.DesiredRun && a.Desired != domain.DesiredStop:
			return fmt.Sprintf("account %s has mode %q and desired %q", a.ID, a.Mode, a.Desired)
		}
		for _, c := range a.Conditions {
			if !m.Has(c.Name) {
				return fmt.Sprintf("account %s of %s has condition %q", a.ID, a.Machine, c.Name)
			}
		}
		for key, one := range v.Messages {
			if table := messageTable(m, opts.Defaults); !has(table, one.State) {
				return fmt.Sprintf("message %s of %s is %q", key, table, one.State)
			}
		}
		for key, one := range v.Conversations {
			if !has("conversation@1", one.State) || one.State == domain.ConversationEnded && one.OpenTurns > 0 {
				return fmt.Sprintf("conversation %s is %q with %d open turns", key, one.State, one.OpenTurns)
			}
		}
	}
	for _, v := range r.Verdicts {
		if v.Outcome != domain.Applied.String() && v.Outcome != domain.Duplicate.String() && v.From != v.To {
			return fmt.Sprintf("line %d is %s, and yet from %q to %q", v.Line, v.Outcome, v.From, v.To)
		}
	}
	return ""
}

// messageTable is what the messages of accounts of a machine are judged by.
func messageTable(m *machine.Machine, defaults []string) string {
	for _, name := range []string{"message@1", "message@2"} {
		if slices.Contains(defaults, name) {
			return name
		}
	}
	if m.Name() == "whatsapp@1" {
		return "message@1"
	}
	return "message@2"
}

// missing names what never came in lines that are enough for all of it.
func missing(d machine.Definition, counts trace.Counts, reached map[string]bool) string {
	session := d.Family == "" || d.Family == machine.FamilySession
	for name, n := range map[string]int{"applied": counts.Applied, "noop": counts.Noop, "rejected": counts.Rejected, "duplicate": counts.Duplicate,
		"conflict": counts.Conflict, "invalid": counts.Invalid, "stale": counts.Stale} {
		if n == 0 && (session || name != "stale") {
			return "outcome " + name
		}
	}
	for _, s := range d.States {
		if !reached[s.Name] && s.Name != "NEW" {
			return "state " + s.Name
		}
	}
	return ""
}

func sum(all *trace.Counts, one trace.Counts) {
	all.Applied += one.Applied
	all.Noop += one.Noop
	all.Stale += one.Stale
	all.Rejected += one.Rejected
	all.Duplicate += one.Duplicate
	all.Conflict += one.Conflict
	all.Invalid += one.Invalid
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// writer writes random traces for one machine.
type writer struct {
	r        *rand.Rand
	defaults []string
	triggers []string // of the machine
	others   []string
	now      time.Time
	seq      int64
}

func newWriter(reg *machine.Registry, d machine.Definition, r *rand.Rand) *writer {
	w := &writer{r: r, defaults: []string{d.Name}, now: time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)}
	for _, name := range d.Triggers {
		if group, reserved := machine.Reserved(name); !reserved || group == machine.GroupMessage || group == machine.GroupConversation {
			w.triggers = append(w.triggers, name)
		}
	}
	if d.Family != "" && d.Family != machine.FamilySession {
		// The account itself has a machine, too.
		w.defaults = append(w.defaults, pick(r, "whatsapp@1", "whatsapp@2", "wecom@1", "instance@1"))
	}
	w.others = []string{"message_sent", "message_replied", "message_failed", "customer_message", "claim", "end", "take_over",
		"set_mode", "set_labels", "authority", "forget", "recover", "vouch_lost", "vouch_restored", "heartbeat", "start", "stop", "logout", "online", "mark_stuck", "no_such_trigger"}
	return w
}

// trace writes n lines.
func (w *writer) trace(n int) []byte {
	var b bytes.Buffer
	for range n {
		b.WriteString(w.line())
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// line writes one; now and then it is no trigger.
func (w *writer) line() string {
	r := w.r
	w.now = w.now.Add(pick(r, 0, 0, time.Nanosecond, time.Second, 20*time.Second, 3*time.Minute, 11*time.Minute, 40*time.Minute) / time.Duration(1+r.IntN(3)))
	if r.IntN(400) == 0 {
		w.now = w.now.Add(pick(r, 25*time.Hour, 8*24*time.Hour, 31*24*time.Hour))
	}
	name := pick(r, w.triggers...)
	if r.IntN(5) == 0 {
		name = pick(r, w.others...)
	}
	fields := `{"account":` + strconv.Quote(fmt.Sprint("acct-", r.IntN(6))) + `,"trigger":"` + name + `","key":"k` + strconv.Itoa(r.IntN(5)) + `"`
	if r.IntN(20) > 0 {
		fields += `,"at":"` + w.now.Add(-pick(r, 0, 0, 0, time.Nanosecond, time.Minute, time.Hour, -time.Minute)).Format(time.RFC3339Nano) + `"`
	}
	source := pick(r, "s1", "s1", "s2", "s3", "")
	if group, _ := machine.Reserved(name); group == machine.GroupRecover {
		source = domain.SourceMuster
	}
	fields += `,"source":"` + source + `"`
	for _, one := range []struct {
		in   int // one of so many lines has it
		text string
	}{
		{3, `"by":"` + pick(r, "user", "us", "remote", "unknown") + `"`},
		{4, `"id":"` + strconv.Itoa(r.IntN(200)) + `"`},
		{40, `"expect":` + strconv.Itoa(r.IntN(50))},
		{4, `"reason":{"code":"` + pick(r, "401", "515", "") + `","text":"x"}`},
		{6, `"mode":"` + pick(r, "observe", "supervise") + `","labels":{"pool":"eu"}`},
		{300, `"colour":"red"`},
		{300, `"epoch":"1"`},
	} {
		if r.IntN(one.in) == 0 {
			fields += "," + one.text
		}
	}
	if r.IntN(2) == 0 {
		w.seq++
		fields += fmt.Sprintf(`,"epoch":%d,"seq":%d`, w.seq/40+r.Int64N(2), max(0, w.seq-r.Int64N(3)))
	}
	if r.IntN(500) == 0 {
		return fields // no end
	}
	return fields + `,"data":` + w.data(name) + "}"
}

// data writes a payload, mostly one that the trigger can have.
func (w *writer) data(name string) string {
	r := w.r
	end := func() string {
		return w.now.Add(pick(r, -time.Minute, 0, time.Second, 5*time.Minute, time.Hour, 24*time.Hour, 30*24*time.Hour)).Format(time.RFC3339Nano)
	}
	n := strconv.Itoa(r.IntN(12))
	object := `{"state":"` + pick(r, "RUNNING", "DEGRADED", "QR_REQUIRED", "LOGGED_OUT", "SYNCING") + `","scope":"` + pick(r, "", "groups", "new_chats") + `"}`
	switch name {
	case "rate_limited", "restricted", "banned":
		object = pick(r, `{}`, `{"until":"`+end()+`"}`, `{"until":"`+end()+`","scope":"groups","code":104}`)
	case "user_action_needed":
		object = pick(r, `{}`, `{"action":"open_phone"}`)
	case "login_succeeded", "ticket_renewed", "reconnected":
		object = pick(r, `{"sid_until":"`+end()+`","tgt_until":"`+end()+`"}`, `{"tgt_until":"`+end()+`"}`, `{}`)
	case "sync_completed", "sync_advanced":
		object = pick(r, `{}`, `{"next_seq":`+n+`}`, `{"next_seq":`+n+`,"full":true}`)
	case "message_pending", "message_sent", "message_delivered":
		object = pick(r, `{}`, `{"reply_within":`+n+`00}`)
	case "customer_message":
		object = `{"message":"i` + n + `"}`
	case "claim":
		object = `{"message":"i` + n + `","side":"` + pick(r, "bot", "human") + `","handler":"` + pick(r, "b1", "b2", "human") + `"}`
	case "set_mode":
		object = pick(r, `{"mode":"observe"}`, `{"mode":"supervise"}`, `{"mode":"turbo"}`)
	case "set_labels":
		object = pick(r, `{}`, `{"labels":{"pool":"us"}}`)
	case "authority":
		object = `{"source":"` + pick(r, "s1", "s2") + `"}`
	case "recover":
		object = pick(r, `{}`, `{"worker":false}`)
	}
	if r.IntN(200) == 0 {
		object = pick(r, `{"token":"x"}`, `{"until":7}`, `[]`, `null`)
	}
	return object
}
