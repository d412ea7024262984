package lifecycle_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
)

// wecom is wecom@1 as it is specified. A cell is a letter for a target, "." for
// a legal trigger that stays, "-" for rejected; "e" after it: only with a newer
// epoch than the account's, "t": only with a live Tgt, else rejected.
const wecom = `
	trigger          U  L  G  S  R  D
	login_started    L  .  Le Le Le L
	login_succeeded  -  G  -  -  -  -
	login_failed     -  U  -  -  -  -
	sync_started     -  -  S  -  -  -
	sync_completed   -  -  -  R  -  -
	sync_advanced    -  -  -  -  .  -
	ticket_renewed   -  -  .  .  .  .
	connection_lost  -  D  D  D  D  .
	reconnected      -  -  -  -  -  St
	reconnect_failed -  -  -  -  -  .
	retry            -  -  -  -  -  .
	logout           .  U  U  U  U  U
	stop             .  U  U  U  U  U
`

var wecomStates = map[string]string{"U": "UNINIT", "L": "LOGGING", "G": "LOGGED", "S": "SYNCING", "R": "RUNNING", "D": "DISCONNECTED"}

// inState is a wecom account that has been brought to a state in epoch 5, with
// both tickets (or none) where a login has brought them.
func inState(t *testing.T, state string, tickets bool) *domain.Account {
	t.Helper()
	var d domain.Data
	if tickets {
		d = domain.Data{"sid_until": clock(24 * 3600), "tgt_until": clock(30 * 24 * 3600)}
	}
	way := []*domain.Trigger{say(0, "stop", of("wecom@1"), epoch(5)), say(1, "login_started", epoch(5)), say(2, "login_succeeded", epoch(5), with(d)),
		say(3, "sync_started", epoch(5)), say(4, "sync_completed", epoch(5)), say(5, "connection_lost", epoch(5))}
	a := told(t, way[:1+strings.Index("ULGSRD", state)]...)
	if a.State != wecomStates[state] {
		t.Fatalf("the way leads to %s, want %s", a.State, wecomStates[state])
	}
	return a
}

func TestWeCom1IsExactlyTheGrid(t *testing.T) {
	m := get(t, "wecom@1")
	table := rows(wecom)
	if got, want := len(m.Definition().Triggers), len(table)-1; got != want {
		t.Errorf("wecom@1 has %d triggers, want %d", got, want)
	}
	if got, want := len(m.Definition().States), len(wecomStates); got != want {
		t.Errorf("wecom@1 has %d states, want %d", got, want)
	}
	for _, f := range table[1:] {
		for i, cell := range f[1:] {
			state := table[0][1+i]
			for _, newer := range []bool{false, true} {
				for _, live := range []bool{false, true} {
					checkWeComCell(t, state, f[0], cell, newer, live)
				}
			}
		}
	}
}

// checkWeComCell judges one pair, in the account's epoch or a newer one, with
// live tickets or none.
func checkWeComCell(t *testing.T, state, trigger, cell string, newer, live bool) {
	t.Helper()
	target, note := cell[:1], cell[1:]
	outcome, to, reason := domain.Applied, wecomStates[target], ""
	switch {
	case target == ".":
		outcome, to = domain.Noop, wecomStates[state]
	case target == "-":
		outcome, to, reason = domain.Rejected, wecomStates[state], "no edge"
	case note == "e" && !newer:
		outcome, to, reason = domain.Rejected, wecomStates[state], "needs a newer epoch"
	case note == "t" && !live:
		outcome, to, reason = domain.Rejected, wecomStates[state], "tgt_expired"
	}
	n := int64(5)
	if newer {
		n = 6
	}
	_, v := tell(t, inState(t, state, live), say(10, trigger, epoch(n)))
	if v.Outcome != outcome || v.From != wecomStates[state] || v.To != to || v.Reason != reason {
		t.Errorf("%s on %s (newer epoch %v, tickets %v): want %s to %s, %q, got %s to %s, %q", wecomStates[state], trigger, newer, live,
			outcome, to, reason, v.Outcome, v.To, v.Reason)
	}
}

func TestWeCom1States(t *testing.T) {
	const want = `
		UNINIT       idle     ---
		LOGGING      starting ---
		LOGGED       starting ---
		SYNCING      starting ---
		RUNNING      ready    rsb
		DISCONNECTED down     ---`
	checkStates(t, get(t, "wecom@1"), want)
}

func checkStates(t *testing.T, m *machine.Machine, want string) {
	t.Helper()
	table := rows(want)
	if got := len(m.Definition().States); got != len(table) {
		t.Errorf("%s has %d states, want %d", m.Name(), got, len(table))
	}
	for _, f := range table {
		s, _ := m.State(f[0])
		read, send, bulk := m.Can(f[0])
		if can := flag(read, "r") + flag(send, "s") + flag(bulk, "b"); s.Class != f[1] || can != f[2] {
			t.Errorf("%s %s: want %v, got %s %s", m.Name(), f[0], f[1:], s.Class, can)
		}
	}
}

// A heartbeat is legal everywhere, writes nothing and ends nothing.
func TestWeCom1Heartbeats(t *testing.T) {
	for letter, state := range wecomStates {
		a := inState(t, letter, false)
		before := conditions(a)
		d := judge.Decide(a, say(10, "heartbeat", epoch(5)), noon+10e9)
		if v := d.Verdict; d.Event != nil || d.Beat != noon+10e9 || v.Outcome != domain.Noop || v.Version != a.Version || v.From != state || v.To != state {
			t.Errorf("%s: want a noop at version %d and nothing appended, got %+v", state, a.Version, d)
		}
		if conditions(a) != before {
			t.Errorf("%s: conditions became %s", state, conditions(a))
		}
	}
	a := inState(t, "R", false) // since second 4
	for _, c := range []struct {
		about string
		beat  *domain.Trigger
		due   int
	}{
		{"none: from entering RUNNING", nil, 634},
		{"a beat", say(100, "heartbeat", epoch(5)), 730},
		{"an older beat, told later", say(50, "heartbeat", epoch(5)), 730},
		{"a beat of an older connection", say(200, "heartbeat", epoch(4)), 730},
		{"a beat without an epoch", say(210, "heartbeat"), 840},
		{"a beat of a newer connection", say(220, "heartbeat", epoch(6)), 850},
	} {
		if c.beat != nil {
			d := judge.Decide(a, c.beat, c.beat.At)
			a.Beat(c.beat, d.Beat)
		}
		d, ok := judge.Due(a)
		if !ok || d.Trigger.Name != "connection_lost" || d.Trigger.Reason.Code != "heartbeats_missed" || d.At != noon+int64(c.due)*1e9 {
			t.Errorf("%s: want heartbeats_missed at second %d, got %s (%s) at %d", c.about, c.due, d.Trigger.Name, d.Trigger.Reason.Code, (d.At-noon)/1e9)
		}
	}
	a, _ = tell(t, a, say(300, "sync_advanced", epoch(5)))
	if d, _ := judge.Due(a); d.At != noon+930e9 {
		t.Errorf("sync_advanced counts as a beat: want second 930, got %d", (d.At-noon)/1e9)
	}
}

// What the triggers do to the tickets: what each row has is the state, the
// trigger at a second, the ends that it brings (seconds after noon, - = none),
// and the ends known afterwards (0 = unknown) with the conditions that stand.
// Before it both tickets are known: sid until 1000, tgt until 2000.
func TestWeCom1Tickets(t *testing.T) {
	const table = `
		G login_started:newer 100  -    -    1000 2000 -
		L login_succeeded     100  5000 6000 5000 6000 -
		L login_succeeded     100  -    6000 0    6000 -
		L login_succeeded     100  5000 -    5000 0    -
		L login_succeeded     100  -    -    0    0    -
		R ticket_renewed      100  5000 -    5000 2000 -
		R ticket_renewed      100  -    6000 1000 6000 -
		R ticket_renewed      1000 5000 -    5000 2000 -
		S ticket_renewed      100  5000 6000 5000 6000 -
		G ticket_renewed      100  5000 6000 5000 6000 -
		D ticket_renewed      100  5000 6000 5000 6000 -
		D reconnected         100  5000 -    5000 2000 -
		D reconnected         100  -    -    1000 2000 -
		D reconnected         2000 5000 -    5000 2000 -
		R connection_lost     100  -    -    1000 2000 -
		R connection_lost     2000 -    -    1000 2000 -
		R connection_lost     2001 -    -    1000 2000 login_needed
		R logout              100  -    -    0    0    -
		R stop                100  -    -    0    0    -
		L stop                100  -    -    0    0    -
		D logout              100  -    -    0    0    -`
	for _, f := range rows(table) {
		t.Run(strings.Join(f, " "), func(t *testing.T) {
			// A login brings the tickets; one that stands before the state LOGGING is told by a login started anew.
			way := []*domain.Trigger{say(0, "login_started", of("wecom@1"), epoch(5)),
				say(1, "login_succeeded", epoch(5), with(domain.Data{"sid_until": clock(1000), "tgt_until": clock(2000)}))}
			switch f[0] {
			case "L":
				way = append(way, say(2, "login_started", epoch(6)))
			case "S", "R", "D":
				way = append(way, say(2, "sync_started"), say(3, "sync_completed"), say(4, "connection_lost"))[:3+strings.Index("SRD", f[0])]
			}
			a := told(t, way...)
			if a.State != wecomStates[f[0]] {
				t.Fatalf("the way leads to %s", a.State)
			}
			name, newer := strings.CutSuffix(f[1], ":newer")
			d := domain.Data{}
			for i, field := range []string{"sid_until", "tgt_until"} {
				if f[3+i] != "-" {
					d[field] = clock(number(t, f[3+i]))
				}
			}
			trigger := say(number(t, f[2]), name, with(d))
			if newer {
				trigger.Epoch = 7
			}
			a, v := tell(t, a, trigger)
			if v.Outcome != domain.Applied && v.Outcome != domain.Noop {
				t.Fatalf("%s: %s", v.Outcome, v.Reason)
			}
			var x domain.Extra
			if a.Extra != nil {
				x = *a.Extra
			}
			if got := []string{ends(x.SidUntil), ends(x.TgtUntil), flag(conditions(a) != "", conditions(a))}; got[0] != f[5] || got[1] != f[6] || got[2] != f[7] {
				t.Errorf("want sid, tgt, conditions %v, got %v", f[5:], got)
			}
		})
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ends(until int64) string {
	if until == 0 {
		return "0"
	}
	return strconv.FormatInt((until-noon)/1e9, 10)
}

// What the triggers do to the cursor, which stands at 10; the last sync was at
// second 4. Columns: state, trigger, at, next_seq, full, outcome, cursor
// afterwards, and whether full_resync stands (it stood before: "was").
func TestWeCom1Cursor(t *testing.T) {
	const table = `
		R sync_advanced  100    11 -    -   noop     11 -
		R sync_advanced  100    10 -    -   noop     10 -
		R sync_advanced  100    9  -    -   stale    10 -
		R sync_advanced  100    9  full -   noop     9  full_resync
		R sync_advanced  100    11 full -   noop     11 full_resync
		R sync_advanced  100    -  -    -   noop     10 -
		R sync_advanced  100    11 -    was noop     11 -
		R sync_advanced  100    9  -    was stale    10 full_resync
		R sync_advanced  604804 11 -    -   noop     11 -
		R sync_advanced  604805 11 -    -   noop     11 full_resync
		S sync_advanced  100    9  -    -   stale    10 -
		S sync_advanced  100    11 -    -   rejected 10 -
		D sync_advanced  100    9  -    -   stale    10 -
		S sync_completed 100    11 -    -   applied  11 -
		S sync_completed 100    9  -    -   applied  9  full_resync
		S sync_completed 100    11 full -   applied  11 full_resync
		S sync_completed 100    11 -    was applied  11 full_resync
		S sync_completed 604804 11 -    -   applied  11 -
		S sync_completed 604805 11 -    -   applied  11 full_resync
		S sync_completed 100    -  -    -   applied  10 -
		R logout         100    -  -    -   applied  10 -`
	for _, f := range rows(table) {
		t.Run(strings.Join(f, " "), func(t *testing.T) {
			tickets := domain.Data{"sid_until": clock(2e6), "tgt_until": clock(3e6)}
			first := domain.Data{"next_seq": int64(10)}
			if f[5] == "was" {
				first["full"] = true
			}
			way := []*domain.Trigger{say(0, "login_started", of("wecom@1")), say(1, "login_succeeded", with(tickets)), say(2, "sync_started"),
				say(4, "sync_completed", with(first)), say(5, "connection_lost"), say(6, "reconnected")}
			a := told(t, way[:map[string]int{"R": 4, "D": 5, "S": 6}[f[0]]]...)
			d := domain.Data{}
			if f[3] != "-" {
				d["next_seq"] = int64(number(t, f[3]))
			}
			if f[4] == "full" {
				d["full"] = true
			}
			a, v := tell(t, a, say(number(t, f[2]), f[1], with(d)))
			stands := conditions(a)
			if stands == "" {
				stands = "-"
			}
			if v.Outcome.String() != f[6] || !a.Extra.HasCursor || a.Extra.Cursor != int64(number(t, f[7])) || stands != f[8] {
				t.Errorf("want %v, got %s (%s), cursor %d, %s", f[6:], v.Outcome, v.Reason, a.Extra.Cursor, stands)
			}
		})
	}
}

// The first sync of all needs no rebuilding, unless it says so.
func TestWeCom1FirstSync(t *testing.T) {
	for full, want := range map[bool]string{false: "", true: "full_resync"} {
		a := inState(t, "S", true)
		if a, _ = tell(t, a, say(10, "sync_completed", with(domain.Data{"next_seq": int64(3), "full": full}))); conditions(a) != want {
			t.Errorf("full %v: want %q, got %q", full, want, conditions(a))
		}
	}
}

// login_started by a user counts as a start by a user; by others it does not.
func TestWeCom1LoginStartedByAUserIsAStart(t *testing.T) {
	for who, want := range map[domain.Initiator]string{domain.ByUser: domain.DesiredRun, domain.ByUs: domain.DesiredStop, domain.ByRemote: domain.DesiredStop, domain.ByUnknown: domain.DesiredStop} {
		a := told(t, say(0, "stop", of("wecom@1"), by(domain.ByUser)), say(1, "login_started", by(who)))
		if a.Desired != want {
			t.Errorf("by %s: desired is %s, want %s", who, a.Desired, want)
		}
	}
}
