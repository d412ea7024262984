package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tinyMachine = `name: shop@1
initial: SHUT
states:
  - {name: SHUT, class: idle}
  - {name: OPEN, class: ready}
triggers: [start, stop]
edges:
  - {on: start, from: SHUT, to: OPEN}
  - {on: stop, from: OPEN, to: SHUT}
`

func TestMachinesList(t *testing.T) {
	r := muster(t, "machines", "list", "-o", "json")
	r.want(t, 0, "")
	var rows []machineRow
	if err := json.Unmarshal([]byte(r.out), &rows); err != nil {
		t.Fatal(err)
	}
	found := map[string]machineRow{}
	for _, row := range rows {
		found[row.Name] = row
	}
	if w := found["whatsapp@1"]; w.States != 10 || w.Triggers != 11 || w.Edges != 25 || w.Default || w.Origin != "built-in" {
		t.Errorf("whatsapp@1 is %+v, want 10 states, 11 triggers, 25 edges", w)
	}
	if w := found["whatsapp@2"]; !w.Default || w.Initial != "IDLE" {
		t.Errorf("whatsapp@2 is %+v, want the default", w)
	}
	if r := muster(t, "machines", "list"); r.code != 0 || !strings.Contains(r.out, "whatsapp@2 (default)") {
		t.Errorf("as a table: %+v", r)
	}
}

func TestMachinesOfAFolder(t *testing.T) {
	path := file(t, "shop.yaml", tinyMachine)
	r := muster(t, "machines", "list", "--machines", filepath.Dir(path), "-o", "jsonl")
	r.want(t, 0, "")
	if !strings.Contains(r.out, `"name":"shop@1"`) || !strings.Contains(r.out, path) {
		t.Errorf("shop@1 is not listed: %s", r.out)
	}
	r = muster(t, "machines", "show", "shop@1", "--machines", filepath.Dir(path))
	r.want(t, 0, "")
	copied := file(t, "copy.yaml", r.out)
	muster(t, "machines", "check", copied).want(t, 0, "")
	muster(t, "machines", "list", "--machines", "/nosuch").want(t, 2, "read machine files: /nosuch is no folder that can be read; name one that holds *.yaml files (--machines): open /nosuch: no such file or directory")
}

func TestMachinesShowReadsBack(t *testing.T) {
	for _, name := range []string{"whatsapp@1", "whatsapp@2"} {
		r := muster(t, "machines", "show", name, "-o", "yaml")
		r.want(t, 0, "")
		muster(t, "machines", "check", file(t, "m.yaml", r.out)).want(t, 0, "")
		r = muster(t, "machines", "show", name, "-o", "json")
		var def struct{ Name string }
		if err := json.Unmarshal([]byte(r.out), &def); err != nil || def.Name != name {
			t.Errorf("%s as JSON: %v, name %q", name, err, def.Name)
		}
	}
	muster(t, "machines", "show", "whatsap@2").want(t, 3, `there is no machine "whatsap@2"; did you mean "whatsapp@2"?`)
}

func TestMachinesDiagram(t *testing.T) {
	r := muster(t, "machines", "diagram", "whatsapp@1")
	r.want(t, 0, "")
	if !strings.Contains(r.out, "stateDiagram-v2") || !strings.Contains(r.out, "QR_REQUIRED --> SYNCING: qr_scanned") {
		t.Errorf("not a Mermaid diagram:\n%s", r.out)
	}
	r = muster(t, "machines", "diagram", "whatsapp@1", "--format", "dot")
	r.want(t, 0, "")
	if !strings.HasPrefix(r.out, "digraph") {
		t.Errorf("not a DOT diagram:\n%s", r.out)
	}
}

func TestMachinesCheckNamesTheLine(t *testing.T) {
	good := file(t, "good.yaml", tinyMachine)
	bad := file(t, "bad.yaml", strings.Replace(tinyMachine, "to: OPEN}", "to: AJAR}", 1))
	r := muster(t, "machines", "check", good, bad)
	r.want(t, 2, "")
	want := good + ": ok, machine shop@1\n" +
		bad + `:8: unknown_state: an edge on start leads to "AJAR", which is neither a state nor a choice` + "\n"
	if !strings.HasPrefix(r.out, want[:strings.Index(want, ":8:")]) || !strings.Contains(r.out, ":8: unknown_state: an edge on start leads to \"AJAR\"") {
		t.Errorf("got\n%s\nwant\n%s", r.out, want)
	}
	r = muster(t, "machines", "check", bad, "-o", "json")
	var results []checked
	if err := json.Unmarshal([]byte(r.out), &results); err != nil || len(results) != 1 || results[0].OK || results[0].Faults[0].Line == 0 {
		t.Errorf("(%v) %s", err, r.out)
	}
	if _, err := os.Stat("/nosuch.yaml"); err == nil {
		t.Fatal("/nosuch.yaml exists")
	}
	muster(t, "machines", "check", "/nosuch.yaml").want(t, 2, "read machine file: open /nosuch.yaml: no such file or directory")
}
