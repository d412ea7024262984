package machine_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/machine"
)

// shop is a small machine without a fault.
func shop() machine.Definition {
	return machine.Definition{
		Name: "shop@1", Initial: "OFF",
		States: []machine.State{
			{Name: "OFF", Class: machine.ClassIdle},
			{Name: "ON", Class: machine.ClassReady, Can: []string{machine.CanSend}},
			{Name: "SLOW", Class: machine.ClassLimited},
			{Name: "LOST", Class: machine.ClassDown},
		},
		Triggers: []string{"open", "close", "lose", "retry"},
		Edges: []machine.Edge{
			{On: machine.Names{"open"}, From: machine.Names{"OFF", "LOST"}, To: "UP", Main: true},
			{On: machine.Names{"close"}, From: machine.Names{"ON", "SLOW", "LOST"}, To: "OFF"},
			{On: machine.Names{"lose"}, From: machine.Names{"ON", "SLOW"}, To: "LOST"},
			{On: machine.Names{"retry"}, From: machine.Names{"LOST"}},
		},
		Choices:    []machine.Choice{{Name: "UP", To: "ON", Blocked: "SLOW"}},
		Conditions: []string{machine.RateLimited},
		Deadlines:  []machine.Deadline{{State: "LOST", After: machine.Duration(time.Minute), Trigger: "mark_stuck"}},
		Retry:      &machine.Retry{State: "LOST", Trigger: "retry", Tries: 3},
		Recover:    map[string]string{"ON": "LOST"},
	}
}

func TestASoundMachineCompiles(t *testing.T) {
	m, err := machine.Compile(shop())
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Lookup("OFF", "open"); c.Act != machine.MoveFree || c.To != "ON" || c.Blocked != "SLOW" {
		t.Errorf("OFF on open: %+v", c)
	}
	for _, pair := range [][2]string{{"OFF", "close"}, {"NOWHERE", "open"}, {"OFF", "nothing"}} {
		if c := m.Lookup(pair[0], pair[1]); c.Act != machine.Reject {
			t.Errorf("%v: want rejected, got %+v", pair, c)
		}
	}
	if _, stays, ok := m.Retry(); !ok || !stays {
		t.Errorf("retry: ok %v, stays %v; want both", ok, stays)
	}
	if n := len(m.Transitions()); n != 8 {
		t.Errorf("%d legal pairs, want 8", n)
	}
}

// Each fault is one change to a sound machine, and is reported by its name.
func TestEachFaultHasItsName(t *testing.T) {
	edge := func(on, from, to string) machine.Edge {
		return machine.Edge{On: machine.Names{on}, From: machine.Names{from}, To: to}
	}
	faults := []struct {
		want  machine.FaultName
		where string // must stand in the sentence
		spoil func(d *machine.Definition)
	}{
		{machine.BadName, "shop", func(d *machine.Definition) { d.Name = "shop" }},
		{machine.BadName, "On", func(d *machine.Definition) { d.States[1].Name = "On" }},
		{machine.BadName, "Open!", func(d *machine.Definition) { d.Triggers = append(d.Triggers, "Open!") }},
		{machine.UnknownFamily, "zoo", func(d *machine.Definition) { d.Family = "zoo" }},
		{machine.NoStates, "at least one", func(d *machine.Definition) { d.States = nil }},
		{machine.TooMany, "at most", func(d *machine.Definition) { d.Triggers = make([]string, 600) }},
		{machine.DuplicateState, "ON", func(d *machine.Definition) { d.States = append(d.States, d.States[1]) }},
		{machine.UnknownState, "AWAY", func(d *machine.Definition) { d.Initial = "AWAY" }},
		{machine.UnknownState, "AWAY", func(d *machine.Definition) { d.Edges[2].To = "AWAY" }},
		{machine.UnknownState, "AWAY", func(d *machine.Definition) { d.Edges[2].From = machine.Names{"AWAY"} }},
		{machine.UnknownState, "AWAY", func(d *machine.Definition) { d.Choices[0].Blocked = "AWAY" }},
		{machine.UnknownState, "AWAY", func(d *machine.Definition) { d.Edges[2].To, d.Edges[2].ToAny = "", []string{"AWAY"} }},
		{machine.UnknownClass, "busy", func(d *machine.Definition) { d.States[0].Class = "busy" }},
		{machine.UnknownCan, "fly", func(d *machine.Definition) { d.States[1].Can = []string{"fly"} }},
		{machine.DuplicateTrigger, "open", func(d *machine.Definition) { d.Triggers = append(d.Triggers, "open") }},
		{machine.UnknownTrigger, "knock", func(d *machine.Definition) { d.Edges[0].On = machine.Names{"open", "knock"} }},
		{machine.ReservedTrigger, "heartbeat", func(d *machine.Definition) {
			d.Triggers = append(d.Triggers, "heartbeat")
			d.Edges = append(d.Edges, edge("heartbeat", "ON", ""))
		}},
		{machine.UnusedTrigger, "knock", func(d *machine.Definition) { d.Triggers = append(d.Triggers, "knock") }},
		{machine.TwoEdges, "ON on lose", func(d *machine.Definition) { d.Edges = append(d.Edges, edge("lose", "ON", "OFF")) }},
		{machine.BadEdge, "both to and to_any", func(d *machine.Definition) { d.Edges[2].ToAny = []string{"OFF"} }},
		{machine.BadEdge, "no trigger or no state", func(d *machine.Definition) { d.Edges = append(d.Edges, machine.Edge{To: "ON"}) }},
		{machine.BadEdge, "else", func(d *machine.Definition) { d.Edges[2].When = machine.WhenNewerEpoch }},
		{machine.UnknownGuard, "full_moon", func(d *machine.Definition) { d.Edges[2].When, d.Edges[2].Else = "full_moon", "noop" }},
		{machine.UnknownCondition, "sleepy", func(d *machine.Definition) { d.Conditions = []string{"sleepy"} }},
		{machine.BadChoice, "ON", func(d *machine.Definition) { d.Choices[0].Name = "ON" }},
		{machine.BadDeadline, "no time", func(d *machine.Definition) { d.Deadlines[0].After = 0 }},
		{machine.BadDeadline, "AWAY", func(d *machine.Definition) { d.Deadlines[0].State = "AWAY" }},
		{machine.BadDeadline, "retry", func(d *machine.Definition) { d.Deadlines[0].Trigger = "retry" }},
		{machine.BadDeadline, "watch", func(d *machine.Definition) { d.Deadlines[0].Mode = "watch" }},
		{machine.BadDeadline, "stop", func(d *machine.Definition) { d.Deadlines[0].Desired = "stop" }},
		{machine.BadDeadline, "two deadlines", func(d *machine.Definition) { d.Deadlines = append(d.Deadlines, d.Deadlines[0]) }},
		{machine.BadRetry, "AWAY", func(d *machine.Definition) { d.Retry.State = "AWAY" }},
		{machine.BadRetry, "lose", func(d *machine.Definition) { d.Retry.Trigger = "lose" }},
		{machine.BadRetry, "0 tries", func(d *machine.Definition) { d.Retry.Tries = 0 }},
		{machine.BadRecovery, "AWAY", func(d *machine.Definition) { d.Recover["ON"] = "AWAY" }},
		{machine.BadRecovery, "itself", func(d *machine.Definition) { d.Recover["ON"] = "ON" }},
		{machine.Unreachable, "LOST", func(d *machine.Definition) { d.Edges[2].To, d.Recover = "OFF", nil }},
		{machine.NoWayOut, "LOST", func(d *machine.Definition) {
			d.Edges[0].From, d.Edges[1].From = machine.Names{"OFF"}, machine.Names{"ON", "SLOW"}
		}},
	}
	seen := map[machine.FaultName]bool{}
	for _, f := range faults {
		seen[f.want] = true
		d := shop()
		f.spoil(&d)
		_, err := machine.Compile(d)
		var got machine.Faults
		if !errors.As(err, &got) {
			t.Errorf("%s (%s): want a fault, got %v", f.want, f.where, err)
			continue
		}
		found := false
		for _, one := range got {
			found = found || one.Name == f.want && strings.Contains(one.Text, f.where)
		}
		if !found {
			t.Errorf("want %s with %q, got:\n%v", f.want, f.where, err)
		}
	}
	if len(seen) != 22 {
		t.Errorf("%d kinds of faults are tried, there are 22", len(seen))
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	d := shop()
	d.Initial, d.Conditions, d.Retry.Tries = "AWAY", []string{"sleepy"}, 0
	_, err := machine.Compile(d)
	for _, want := range []string{"unknown_state", "unknown_condition", "bad_retry"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in: %v", want, err)
		}
	}
}

// A definition that is written and read back gives the same table.
func TestDefinitionsSurviveJSON(t *testing.T) {
	for _, d := range append(lifecycle.Builtin(), shop()) {
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var back machine.Definition
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%s: %v", d.Name, err)
		}
		want, got := machine.MustCompile(d), machine.MustCompile(back)
		if !reflect.DeepEqual(want.Transitions(), got.Transitions()) {
			t.Errorf("%s: the table is another one after JSON", d.Name)
		}
		for _, s := range d.States {
			if !reflect.DeepEqual(want.Deadlines(s.Name), got.Deadlines(s.Name)) {
				t.Errorf("%s: the deadlines of %s differ after JSON", d.Name, s.Name)
			}
		}
	}
}

func TestNamesMayBeOneText(t *testing.T) {
	var e machine.Edge
	if err := json.Unmarshal([]byte(`{"on":"open","from":["OFF","ON"]}`), &e); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(e.On, machine.Names{"open"}) || len(e.From) != 2 {
		t.Errorf("got %+v", e)
	}
	if err := json.Unmarshal([]byte(`{"on":5}`), &e); err == nil {
		t.Error("a number as a name: want an error")
	}
	var d machine.Deadline
	if err := json.Unmarshal([]byte(`{"after":"soon"}`), &d); err == nil {
		t.Error("after soon: want an error")
	}
}
