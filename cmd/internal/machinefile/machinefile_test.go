package machinefile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
)

// small is a machine file without a fault.
const small = `name: shop@1
about: a till that is open or shut
initial: SHUT
states:
  - {name: SHUT, class: idle}
  - {name: OPEN, class: ready, can: [read, send]}
  - {name: LOST, class: down}
triggers: [start, stop, lost, found]
edges:
  - {on: start, from: SHUT, to: OPEN, main: true}
  - {on: stop, from: [OPEN, LOST], to: SHUT}
  - {on: lost, from: OPEN, to: LOST}
  - {on: found, from: LOST, to: OPEN}
conditions: [rate_limited]
deadlines:
  - {state: LOST, after: 10m, trigger: mark_stuck}
retry: {state: LOST, trigger: found, tries: 5}
recover:
  OPEN: LOST
`

func TestASmallMachine(t *testing.T) {
	m, err := Parse("shop.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if m.Name() != "shop@1" || m.Initial() != "SHUT" || m.Class("OPEN") != machine.ClassReady {
		t.Errorf("read %s, initial %s, OPEN is %s", m.Name(), m.Initial(), m.Class("OPEN"))
	}
	if c := m.Lookup("LOST", "stop"); c.Act != machine.Move || c.To != "SHUT" {
		t.Errorf("LOST on stop gives %+v, want a move to SHUT", c)
	}
	if c := m.Lookup("SHUT", "stop"); c.Act != machine.Reject {
		t.Errorf("SHUT on stop gives %+v, want a rejection", c)
	}
}

func TestEveryFaultNamesItsLine(t *testing.T) {
	tests := []struct {
		name     string
		old, new string // what is changed in the small machine
		want     string // one of the lines of the message
	}{
		{"empty", small, "", "m.yaml: bad_yaml: the file is empty"},
		{"no mapping", small, "- a\n", "m.yaml:1: bad_yaml: a machine file is a list of fields such as `name: shop@1`"},
		{"broken", "about: a till", "about: a: till", "m.yaml:2: bad_yaml: mapping values are not allowed in this context"},
		{"two documents", "recover:", "---\nrecover:", "m.yaml: bad_yaml: a file holds one machine; there is a second document in it"},
		{"key twice", "about: a", "name: x@1\nabout: a", `m.yaml:2: bad_value: mapping key "name" already defined at line 1`},
		{"field of a machine", "about:", "abuot:", `m.yaml:2: unknown_field: there is no field "abuot" in a machine`},
		{"field of a state", "{name: SHUT, class: idle}", "{name: SHUT, class: idle, color: red}", `m.yaml:5: unknown_field: there is no field "color" in a state`},
		{"field of an edge", "to: LOST}", "goto: LOST}", `m.yaml:12: unknown_field: there is no field "goto" in an edge`},
		{"wrong type", "tries: 5", "tries: many", "m.yaml:17: bad_value: cannot unmarshal !!str `many` into int"},
		{"span", "after: 10m", "after: soon", `m.yaml:16: bad_value: "soon" is no time span; write it like 90s or 5m`},
		{"span without unit", "after: 10m", "after: 600", `m.yaml:16: bad_value: "600" is no time span; write it like 90s or 5m`},
		{"machine's name", "name: shop@1", "name: Shop", `m.yaml:1: bad_name: machine name "Shop"`},
		{"state's name", "{name: LOST, class: down}", "{name: Lost, class: down}", `m.yaml:7: bad_name: state name "Lost"`},
		{"trigger's name", "[start, stop,", "[start, Stop,", `m.yaml:8: bad_name: trigger name "Stop"`},
		{"family", "about:", "family: cats\nabout:", `m.yaml:2: unknown_family: family "cats"`},
		{"initial", "initial: SHUT", "initial: CLOSED", `m.yaml:3: unknown_state: initial state "CLOSED" is not among the states`},
		{"class", "class: idle", "class: lazy", `m.yaml:5: unknown_class: state SHUT has class "lazy"`},
		{"capability", "can: [read, send]", "can: [read, sing]", `m.yaml:6: unknown_capability: state OPEN can "sing"`},
		{"state twice", "  - {name: LOST, class: down}", "  - {name: LOST, class: down}\n  - {name: OPEN, class: down}", "m.yaml:8: duplicate_state: state OPEN is there twice"},
		{"trigger twice", "lost, found]", "lost, found,\n  lost]", "m.yaml:9: duplicate_trigger: trigger lost is there twice"},
		{"reserved trigger", "lost, found]", "lost, found, heartbeat]", "m.yaml:8: reserved_trigger: trigger heartbeat"},
		{"unused trigger", "lost, found]", "lost, found, idle]", "m.yaml:8: unused_trigger: no edge is on trigger idle"},
		{"unknown trigger", "on: lost,", "on: mislaid,", `m.yaml:12: unknown_trigger: an edge is on "mislaid", which is not among the triggers`},
		{"unknown from", "from: [OPEN, LOST]", "from: [OPEN, GONE]", `m.yaml:11: unknown_state: an edge on stop is from "GONE", which is not among the states`},
		{"unknown to", "to: LOST}", "to: GONE}", `m.yaml:12: unknown_state: an edge on lost leads to "GONE"`},
		{"two edges", "  - {on: found,", "  - {on: lost, from: OPEN, to: SHUT}\n  - {on: found,", "m.yaml:13: two_edges: two edges from OPEN on lost"},
		{"guard", "on: lost, from: OPEN, to: LOST", "on: lost, from: OPEN, to: LOST, when: rain, else: noop", `m.yaml:12: unknown_guard: an edge on lost holds when "rain"`},
		{"guard without else", "on: lost, from: OPEN, to: LOST", "on: lost, from: OPEN, to: LOST, when: later", "m.yaml:12: bad_edge: an edge on lost: else is"},
		{"condition", "[rate_limited]", "[rate_limited, sleepy]", `m.yaml:14: unknown_condition: condition "sleepy" is not known`},
		{"choice", "conditions:", "choices:\n  - {name: OPEN, to: OPEN, blocked: LOST}\nconditions:", `m.yaml:15: bad_choice: choice "OPEN"`},
		{"deadline's state", "state: LOST, after", "state: GONE, after", `m.yaml:16: bad_deadline: a deadline is in state "GONE"`},
		{"deadline's trigger", "trigger: mark_stuck", "trigger: start", `m.yaml:16: bad_deadline: the deadline in LOST gives "start"`},
		{"retry", "retry: {state: LOST, trigger: found, tries: 5}", "retry: {state: LOST, trigger: start, tries: 0}", "m.yaml:17: bad_retry: retry makes 0 tries"},
		{"recover", "OPEN: LOST\n", "OPEN: GONE\n", `m.yaml:19: bad_recovery: recover OPEN: GONE names "GONE"`},
		{"unreachable", "class: down}\ntriggers: [start, stop, lost, found]\nedges:\n",
			"class: down}\n  - {name: ATTIC, class: idle}\ntriggers: [start, stop, lost, found]\nedges:\n  - {on: found, from: ATTIC, to: OPEN}\n",
			"m.yaml:8: unreachable_state: state ATTIC cannot be reached from SHUT"},
		{"no way out", "  - {name: LOST, class: down}", "  - {name: LOST, class: down}\n  - {name: END, class: stopped}", "m.yaml:8: no_way_out: no edge leads out of state END"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Count(small, tt.old) != 1 {
				t.Fatalf("%q stands %d times in the small machine", tt.old, strings.Count(small, tt.old))
			}
			_, err := Parse("m.yaml", []byte(strings.Replace(small, tt.old, tt.new, 1)))
			var faults *Error
			if !errors.As(err, &faults) {
				t.Fatalf("err = %v, want an *Error", err)
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if strings.HasPrefix(line, tt.want) {
					return
				}
			}
			t.Errorf("got\n%v\nwant a line that begins\n%s", err, tt.want)
		})
	}
}

func TestEqualFaultsHaveTheirOwnLines(t *testing.T) {
	text := strings.Replace(small, "to: LOST}", "to: GONE}", 1)
	text = strings.Replace(text, "from: LOST, to: OPEN}", "from: LOST, to: GONE}", 1)
	_, err := Parse("m.yaml", []byte(text))
	for _, want := range []string{"m.yaml:12: unknown_state", "m.yaml:13: unknown_state"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwants %q", err, want)
		}
	}
}

func TestAFileThatIsTooLarge(t *testing.T) {
	_, err := Parse("m.yaml", []byte(small+strings.Repeat("# more\n", maxSize/7)))
	if want := "m.yaml: too_large: a machine file has at most 1048576 bytes"; err == nil || err.Error() != want {
		t.Errorf("err = %v, want %s", err, want)
	}
}

// TestBuiltInMachinesRoundTrip prints every built-in machine, reads it back and
// compares the two tables cell by cell.
func TestBuiltInMachinesRoundTrip(t *testing.T) {
	for _, m := range lifecycle.Registry().List() {
		t.Run(m.Name(), func(t *testing.T) {
			text, err := Print(m.Definition())
			if err != nil {
				t.Fatal(err)
			}
			back, err := Parse(m.Name(), text)
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			same(t, m, back)
			again, err := Print(back.Definition())
			if err != nil || !bytes.Equal(text, again) {
				t.Errorf("printed again it differs (%v):\n%s", err, again)
			}
		})
	}
}

// same compares what a judge can see of two machines.
func same(t *testing.T, a, b *machine.Machine) {
	t.Helper()
	da, db := a.Definition(), b.Definition()
	if da.Name != db.Name || da.Family != db.Family || da.Initial != db.Initial || len(da.States) != len(db.States) ||
		!reflect.DeepEqual(da.Triggers, db.Triggers) || da.Beats != db.Beats || da.Tickets != db.Tickets || da.Authority != db.Authority {
		t.Fatalf("%+v\nreads back as\n%+v", da, db)
	}
	if fmt.Sprint(da.Retry) != fmt.Sprint(db.Retry) && !reflect.DeepEqual(da.Retry, db.Retry) {
		t.Errorf("retry %+v reads back as %+v", da.Retry, db.Retry)
	}
	for i, s := range da.States {
		if !reflect.DeepEqual(s, db.States[i]) {
			t.Errorf("state %+v reads back as %+v", s, db.States[i])
		}
		if x, y := a.Deadlines(s.Name), b.Deadlines(s.Name); !reflect.DeepEqual(x, y) {
			t.Errorf("deadlines of %s: %+v read back as %+v", s.Name, x, y)
		}
		x, okx := a.Recover(s.Name)
		if y, oky := b.Recover(s.Name); x != y || okx != oky {
			t.Errorf("recovery of %s: %s reads back as %s", s.Name, x, y)
		}
		for _, tr := range da.Triggers {
			if x, y := a.Lookup(s.Name, tr), b.Lookup(s.Name, tr); !reflect.DeepEqual(x, y) {
				t.Errorf("%s on %s: %+v reads back as %+v", s.Name, tr, x, y)
			}
		}
	}
	for _, c := range machine.Conditions() {
		if a.Has(c.Name) != b.Has(c.Name) {
			t.Errorf("condition %s: %v reads back as %v", c.Name, a.Has(c.Name), b.Has(c.Name))
		}
	}
}

func TestLoadDir(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LoadDir(dir); err == nil || !strings.Contains(err.Error(), "holds no *.yaml file") {
		t.Errorf("an empty folder gives %v", err)
	}
	write("b.yaml", small)
	write("a.yml", strings.Replace(small, "shop@1", "shop@2", 1))
	write("notes.txt", "not a machine")
	files, err := LoadDir(dir)
	if err != nil || len(files) != 2 || files[0].Machine.Name() != "shop@2" || files[1].Machine.Name() != "shop@1" {
		t.Fatalf("files = %v, err = %v; want shop@2 and shop@1", files, err)
	}
	reg := lifecycle.Registry()
	if err := Register(reg, files); err != nil {
		t.Fatal(err)
	}
	if _, ok := reg.Get("shop@1"); !ok {
		t.Error("shop@1 is not registered")
	}
	write("c.yaml", small)
	files, err = LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Register(lifecycle.Registry(), files); err == nil || !strings.Contains(err.Error(), "c.yaml: machine shop@1 is there already") {
		t.Errorf("the same name twice gives %v", err)
	}
	write("d.yaml", "name: 1\n")
	write("e.yaml", "[")
	if _, err := LoadDir(dir); err == nil || !strings.Contains(err.Error(), "d.yaml") || !strings.Contains(err.Error(), "e.yaml") {
		t.Errorf("two bad files give %v, want both named", err)
	}
}

// FuzzParse holds: reading never panics, a fault's line lies in the file, and a
// machine that was read prints and reads back as itself.
func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	for _, m := range lifecycle.Registry().List() {
		text, err := Print(m.Definition())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("name: a@1\ninitial: A\nstates: [{name: A, class: idle, final: true}]\ntriggers: [t]\nedges: [{on: t, from: A}]\nbeats: 90s\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse("fuzz.yaml", text)
		if err != nil {
			var faults *Error
			if !errors.As(err, &faults) || len(faults.Faults) == 0 {
				t.Fatalf("err = %v, want an *Error with faults", err)
			}
			for _, f := range faults.Faults {
				if f.Line < 0 || f.Line > bytes.Count(text, []byte("\n"))+1 {
					t.Errorf("line %d is not in the file: %s", f.Line, f.Text)
				}
			}
			return
		}
		printed, err := Print(m.Definition())
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse("printed.yaml", printed)
		if err != nil {
			t.Fatalf("%v in\n%s", err, printed)
		}
		again, err := Print(back.Definition())
		if err != nil || !bytes.Equal(printed, again) {
			t.Fatalf("(%v)\n%s\nreads back as\n%s", err, printed, again)
		}
	})
}
