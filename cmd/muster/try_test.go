package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// onboarding is a trace of one account from its first start to RUNNING, with a
// line that is too late, one that is not legal and one that is no trigger.
const onboarding = `{"account":"acct-1","trigger":"start","by":"user","at":"2026-01-01T10:00:00Z"}
{"account":"acct-1","trigger":"qr_received","source":"waha-1","epoch":1,"seq":1,"at":"2026-01-01T10:00:05Z"}

{"account":"acct-1","trigger":"qr_scanned","source":"waha-1","epoch":1,"seq":2,"at":"2026-01-01T10:00:30Z"}
{"account":"acct-1","trigger":"sync_completed","source":"waha-1","epoch":1,"seq":3,"at":"2026-01-01T10:00:40Z"}
{"account":"acct-1","trigger":"qr_scanned","source":"waha-1","epoch":1,"seq":2,"at":"2026-01-01T10:00:41Z"}
{"account":"acct-1","trigger":"qr_scannd","at":"2026-01-01T10:00:42Z"}
`

func TestTry(t *testing.T) {
	path := file(t, "trace.jsonl", onboarding)
	r := muster(t, "try", path)
	r.want(t, 0, "")
	r.golden(t, "try.golden")
	r = muster(t, "try", path, "-o", "json")
	r.want(t, 0, "")
	r.golden(t, "try.json")
	if again := musterWith(t, onboarding, "try", "-", "-o", "json"); again.out != r.out {
		t.Error("stdin gives another answer than the file")
	}
	if r := muster(t, "try", path, "-o", "jsonl"); strings.Count(r.out, "\n") != 6 || !strings.HasPrefix(r.out, `{"line":1,"account":"acct-1",`) {
		t.Errorf("as JSON lines:\n%s", r.out)
	}
}

func TestTryUntil(t *testing.T) {
	trace := `{"account":"a","trigger":"start","at":"2026-01-01T10:00:00Z"}`
	var res struct {
		Accounts map[string]struct {
			Machine    string
			Mode       string
			Conditions []struct{ Name string }
		}
	}
	for until, stuck := range map[string]bool{"2026-01-01T10:04:59Z": false, "2026-01-01T10:05:00Z": true} {
		r := musterWith(t, trace, "try", "-", "--until", until, "-o", "json", "--machine", "whatsapp@1", "--mode", "supervise")
		r.want(t, 0, "")
		if err := json.Unmarshal([]byte(r.out), &res); err != nil {
			t.Fatal(err)
		}
		a := res.Accounts["a"]
		if got := len(a.Conditions) == 1 && a.Conditions[0].Name == "stuck"; got != stuck || a.Machine != "whatsapp@1" || a.Mode != "supervise" {
			t.Errorf("until %s: %+v, want stuck = %v", until, a, stuck)
		}
	}
}

func TestTryWithAMachineOfOnesOwn(t *testing.T) {
	path := file(t, "shop.yaml", tinyMachine)
	dir := strings.TrimSuffix(path, "/shop.yaml")
	r := musterWith(t, `{"account":"a","trigger":"start","at":"2026-01-01T10:00:00Z"}`, "try", "-", "--machines", dir, "--machine", "shop@1")
	r.want(t, 0, "")
	if !strings.Contains(r.out, "SHUT  OPEN") {
		t.Errorf("not judged by shop@1:\n%s", r.out)
	}
}

func TestTryWrongUse(t *testing.T) {
	for args, want := range map[string]string{
		"try":                       "muster: muster try takes FILE; 0 given (see muster try --help)\n",
		"try /nosuch":               "muster: open /nosuch: no such file or directory\n",
		"try - --until noon":        "muster: --until is \"noon\"; it is a time such as 2026-01-01T10:00:00Z\n",
		"try - --mode watch":        "muster: --mode is \"watch\"; it is observe or supervise\n",
		"try - --machine whatsap@1": "muster: --machine: machine \"whatsap@1\" is not known; did you mean whatsapp@1?\n",
		"try - --machine whatsapp@1 --machine whatsapp@2": "muster: --machine: machines whatsapp@1 and whatsapp@2 are both for a session; give one\n",
		"try - --machines /nosuch":                        "muster: read machine files: /nosuch is no folder that can be read; name one that holds *.yaml files (--machines): open /nosuch: no such file or directory\n",
	} {
		r := muster(t, strings.Fields(args)...)
		if r.code != 2 || r.err != want {
			t.Errorf("%s: exit %d, stderr %q, want exit 2 and %q", args, r.code, r.err, want)
		}
	}
}

func TestTryAnEmptyTrace(t *testing.T) {
	r := musterWith(t, "\n\n", "try", "-", "-o", "json")
	r.want(t, 0, "")
	var res struct {
		Accounts map[string]any
		Verdicts []any
		Digest   string
	}
	if err := json.Unmarshal([]byte(r.out), &res); err != nil || res.Accounts == nil || res.Verdicts == nil || !strings.HasPrefix(res.Digest, "sha256:") {
		t.Errorf("(%v) %s", err, r.out)
	}
}
