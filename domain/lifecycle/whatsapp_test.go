package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
)

// strict is whatsapp@1 as it is specified: from, trigger, to. Every pair that is
// not here is rejected.
const strict = `
	IDLE         start             CONNECTING
	CONNECTING   qr_received       QR_REQUIRED
	CONNECTING   connection_lost   DISCONNECTED
	CONNECTING   stop              STOPPED
	QR_REQUIRED  qr_scanned        SYNCING
	QR_REQUIRED  stop              STOPPED
	SYNCING      sync_completed    RUNNING
	SYNCING      connection_lost   DISCONNECTED
	RUNNING      rate_limited      DEGRADED
	RUNNING      connection_lost   DISCONNECTED
	RUNNING      logout            LOGGED_OUT
	RUNNING      stop              STOPPED
	DEGRADED     connection_ready  RUNNING
	DEGRADED     connection_lost   DISCONNECTED
	DEGRADED     stop              STOPPED
	DISCONNECTED start             RECONNECTING
	DISCONNECTED logout            LOGGED_OUT
	DISCONNECTED stop              STOPPED
	RECONNECTING reconnect_success RUNNING
	RECONNECTING reconnect_failed  DISCONNECTED
	RECONNECTING qr_received       QR_REQUIRED
	RECONNECTING stop              STOPPED
	LOGGED_OUT   start             CONNECTING
	LOGGED_OUT   stop              STOPPED
	STOPPED      start             CONNECTING
`

var states = strings.Fields("IDLE CONNECTING QR_REQUIRED SYNCING RUNNING DEGRADED DISCONNECTED RECONNECTING LOGGED_OUT STOPPED")

// grid is whatsapp@2 as it is specified. A cell is a letter for a target (R! for
// the choice RUNNING or DEGRADED), "." for a legal trigger that stays, "-" for
// rejected; a digit names the note of the cell.
const grid = `
	trigger             I  C  Q  S  R  D   X  N  L   P
	start               C  .  C  .  .1 .1  N  .  C   C
	qr_received         Q  Q  .  Q  Q  Q   Q  Q  Q2  Q2
	qr_scanned          -  S  S  .  .  .   -  S  .   -
	qr_expired          -  P  P  -  -  -   .  P  -   .
	pair_failed         -  P  P  P  -  -   .  P  -   .
	handshake_restart   -  .  .  .  .  .   -  .  -   -
	sync_completed      -  .  .  R! .  .   .  .  -   -
	connection_ready    -3 R! R! R! .  R!  R! R! R!2 R!2
	reconnect_success   -  R! -  R! .  R!4 R! R! -   -
	reconnect_failed    -  X  -  X  X  X   .  X  -   .
	connection_lost     -  X  X  X  X  X   .  X  .   .
	connection_replaced -  X  X  X  X  X   .  X  .   .
	banned              -  X  X  X  X  X   .  X  .   .
	connect_refused     -  X  X  X  X  X   .  X  .   .
	rate_limited        -  .  -  .  D6 .   .  .  -   -
	restricted          -  .  .  .  .  .   .  .  .   .
	restriction_lifted  -  .  .  .  .  R!4 .  .  .   .
	probe_failed        -  .  -  .  D  .   .  .  -   -
	probe_ok            -  .  -  .  .  R!4 .  .  -   -
	logout              -  L  L  L  L  L   L  L  .   L
	stop                P  P  P  P  P  P   P  P  P   .
	user_action_needed  .  .  .  .  .  .   .  .  .   .
	adopt               @5 -  -  -  -  -   -  -  -   -
`

var letters = map[string]string{"I": "IDLE", "C": "CONNECTING", "Q": "QR_REQUIRED", "S": "SYNCING", "R": "RUNNING", "D": "DEGRADED", "X": "DISCONNECTED", "N": "RECONNECTING", "L": "LOGGED_OUT", "P": "STOPPED"}

func get(t *testing.T, name string) *machine.Machine {
	t.Helper()
	m, ok := lifecycle.Registry().Get(name)
	if !ok {
		t.Fatalf("machine %s is not there", name)
	}
	return m
}

func rows(text string) [][]string {
	var out [][]string
	for _, line := range strings.Split(text, "\n") {
		if f := strings.Fields(line); len(f) > 0 {
			out = append(out, f)
		}
	}
	return out
}

func TestWhatsApp1IsExactlyTheStrictTable(t *testing.T) {
	m := get(t, "whatsapp@1")
	want := map[[2]string]string{}
	triggers := map[string]bool{}
	for _, f := range rows(strict) {
		want[[2]string{f[0], f[1]}] = f[2]
		triggers[f[1]] = true
	}
	if len(want) != 25 || len(triggers) != 11 {
		t.Fatalf("the test's table has %d edges and %d triggers, want 25 and 11", len(want), len(triggers))
	}
	if got := m.Definition().Triggers; len(got) != 11 {
		t.Errorf("whatsapp@1 has %d triggers, want 11: %v", len(got), got)
	}
	// Triggers of the other machine are rejected, too.
	for _, f := range rows(grid)[1:] {
		triggers[f[0]] = true
	}
	for _, from := range states {
		for trigger := range triggers {
			c := m.Lookup(from, trigger)
			to, edge := want[[2]string{from, trigger}]
			switch {
			case edge && (c.Act != machine.Move || c.To != to || c.When != ""):
				t.Errorf("%s on %s: want a move to %s, got %+v", from, trigger, to, c)
			case !edge && c.Act != machine.Reject:
				t.Errorf("%s on %s: want rejected, got %+v", from, trigger, c)
			}
		}
	}
}

func TestWhatsApp2IsExactlyTheGrid(t *testing.T) {
	m := get(t, "whatsapp@2")
	table := rows(grid)
	head := table[0][1:]
	if got, want := len(m.Definition().Triggers), len(table)-1; got != want {
		t.Errorf("whatsapp@2 has %d triggers, want %d", got, want)
	}
	for _, f := range table[1:] {
		for i, cell := range f[1:] {
			checkCell(t, m, letters[head[i]], f[0], cell)
		}
	}
}

func checkCell(t *testing.T, m *machine.Machine, from, trigger, cell string) {
	t.Helper()
	want := machine.Cell{}
	what := strings.TrimRight(cell, "123456")
	note := strings.TrimPrefix(cell, what)
	switch what {
	case "-":
	case ".":
		want.Act = machine.Stay
	case "R!":
		want.Act, want.To, want.Blocked = machine.MoveFree, "RUNNING", "DEGRADED"
	case "@":
		want.Act = machine.MoveTold
	default:
		want.Act, want.To = machine.Move, letters[what]
	}
	switch note {
	case "1": // with a newer epoch its process came back
		want.Act, want.To, want.When, want.Else = machine.Move, "RECONNECTING", machine.WhenNewerEpoch, machine.ElseNoop
	case "2": // a logout and a stop are sticky
		want.When, want.Else = machine.WhenNewerEpoch, machine.ElseStale
	case "4": // only when nothing blocks any more
		want.When, want.Else = machine.WhenUnblocked, machine.ElseNoop
	case "6": // a limit that has ended already limits nothing
		want.When, want.Else = machine.WhenBlocked, machine.ElseNoop
	}
	got := m.Lookup(from, trigger)
	if got.Act != want.Act || got.To != want.To || got.Blocked != want.Blocked || got.When != want.When || got.Else != want.Else {
		t.Errorf("%s on %s (%s): want %+v, got %+v", from, trigger, cell, want, got)
	}
}

func TestStatesHaveTheirClassesAndCapabilities(t *testing.T) {
	const want = `
		IDLE         idle       ---  stable
		CONNECTING   starting   ---  -
		QR_REQUIRED  human      ---  -
		SYNCING      starting   ---  -
		RUNNING      ready      rsb  stable
		DEGRADED     limited    r--  stable
		DISCONNECTED down       ---  stable
		RECONNECTING recovering ---  -
		LOGGED_OUT   human      ---  stable
		STOPPED      stopped    ---  stable`
	for _, name := range []string{"whatsapp@1", "whatsapp@2"} {
		m := get(t, name)
		table := rows(want)
		if got := len(m.Definition().States); got != len(table) {
			t.Errorf("%s has %d states, want %d", name, got, len(table))
		}
		for _, f := range table {
			s, _ := m.State(f[0])
			read, send, bulk := m.Can(f[0])
			can := flag(read, "r") + flag(send, "s") + flag(bulk, "b")
			stable := "-"
			if s.Stable {
				stable = "stable"
			}
			if s.Class != f[1] || can != f[2] || stable != f[3] {
				t.Errorf("%s %s: want %v, got %s %s %s", name, f[0], f[1:], s.Class, can, stable)
			}
		}
	}
}

func flag(on bool, letter string) string {
	if on {
		return letter
	}
	return "-"
}

func TestLookupAllocatesNothing(t *testing.T) {
	m := get(t, lifecycle.Default)
	var sink machine.Cell
	n := testing.AllocsPerRun(1000, func() {
		sink = m.Lookup("DISCONNECTED", "connection_ready")
		sink = m.Lookup("DISCONNECTED", "no_such_trigger")
	})
	if n != 0 {
		t.Errorf("a look-up allocates %v times (%v)", n, sink.Act)
	}
}

func BenchmarkLookup(b *testing.B) {
	m, _ := lifecycle.Registry().Get(lifecycle.Default)
	b.ReportAllocs()
	for b.Loop() {
		if m.Lookup("DISCONNECTED", "connection_ready").Act != machine.MoveFree {
			b.Fatal("wrong cell")
		}
	}
}
