package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What --fast writes is a trace that try judges, the same for the same seed.
func TestSimulateWritesATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.jsonl")
	args := []string{"simulate", "--fast", "--accounts", "12", "--seed", "5", "--for", "40m", "--start", "2026-03-01T08:00:00Z"}
	r := muster(t, append(args, "--out", path)...)
	r.want(t, 0, "triggers of 12 accounts written to "+path)
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if again := muster(t, args...); again.out != string(written) {
		t.Error("the same seed gives another trace on stdout")
	}
	if !strings.HasPrefix(string(written), `{"account":"sim-`) || !strings.Contains(string(written), `"at":"2026-03-01T08:`) {
		t.Errorf("the trace begins %.200s", written)
	}
	judged := muster(t, "try", path, "-o", "json")
	judged.want(t, 0, "")
	for _, want := range []string{`"state": "RUNNING"`, `"invalid": 0`} {
		if !strings.Contains(judged.out, want) {
			t.Errorf("try does not say %s", want)
		}
	}
	if r := muster(t, "simulate", "--fast", "--accounts", "3", "--count", "7"); strings.Count(r.out, "\n") != 7 {
		t.Errorf("--count 7 gives %d lines", strings.Count(r.out, "\n"))
	}
}

func TestSimulateUsage(t *testing.T) {
	for args, want := range map[string]string{
		"simulate --accounts 0":             "accounts is 0; from 1 to 10000000 are possible",
		"simulate --profile wild":           `there is no profile "wild"; it is one of calm, messages, onboarding, realistic, storm`,
		"simulate --machine shop@1":         `accounts of "shop@1" cannot be played`,
		"simulate --rate -1":                "--rate, --for and --count are not negative",
		"simulate --out x":                  "--out, --start and --count are for --fast",
		"simulate --fast --rate 5":          "--rate is for a server",
		"simulate --fast --start yesterday": `--start is "yesterday"`,
		"simulate --fast --out /nosuch/x":   "/nosuch/x",
		"demo --rate 0":                     "--rate is 0",
		"demo --data testdata":              "--data testdata is not empty",
		"demo --http nowhere":               `"nowhere" is no address`,
	} {
		muster(t, strings.Fields(args)...).want(t, 2, want)
	}
	muster(t, "simulate", "--server", "nats://127.0.0.1:1").want(t, 6, "is `muster serve` running there?")
}
