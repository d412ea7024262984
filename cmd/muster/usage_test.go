package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestWrongUsageIsASentenceAndExit2(t *testing.T) {
	tests := []struct {
		args string
		want string // the whole of stderr
	}{
		{"acounts", `muster: muster has no command "acounts"; did you mean "accounts"? (see muster --help)`},
		{"frobnicate", `muster: muster has no command "frobnicate" (see muster --help)`},
		{"accounts lst", `muster: muster accounts has no command "lst"; did you mean "list"? (see muster accounts --help)`},
		{"accounts get", `muster: muster accounts get takes ID; 0 given (see muster accounts get --help)`},
		{"stats now", `muster: muster stats takes no argument; 1 given (see muster stats --help)`},
		{"stats --sever x", `muster: muster stats has no flag --sever; did you mean --server? (see muster stats --help)`},
		{"stats -o xml", `muster: invalid argument "xml" for "-o, --output" flag: there is no format "xml"; it is table, json or jsonl (see muster stats --help)`},
		{"stats -o yaml", `muster: muster stats prints no yaml; choose table, json or jsonl`},
		{"stats --wait-for 3", `muster: invalid argument "3" for "--wait-for" flag: a position is written {"PARTITION":SEQUENCE}, e.g. {"0":123}: json: cannot unmarshal number into Go value of type api.AsOf (see muster stats --help)`},
		{"accounts list --limit 0", `muster: --limit is 0; from 1 to 1000 are possible`},
		{"accounts list --limit 1001", `muster: --limit is 1001; from 1 to 1000 are possible`},
		{"accounts list --class running", `muster: --class is "running"; it is one of idle, starting, human, ready, limited, down, recovering, stopped`},
		{"accounts list --desired walk", `muster: --desired is "walk"; it is one of run, stop`},
		{"send", `muster: name a trigger, e.g. muster send --account acct-1 start, or a trace with --file`},
		{"send start", `muster: name the account: --account ID`},
		{"send --account a start stop", `muster: one trigger at a time, not 2: start stop`},
		{"send --account a --keep-going start", `muster: --keep-going is for --file`},
		{"send --file x start", `muster: --file sends what is in the file; leave out "start"`},
		{"send --file x --account a", `muster: --file sends what is in the file; leave out --account`},
		{"send --file /nosuch/trace.jsonl", `muster: open /nosuch/trace.jsonl: no such file or directory`},
		{"send --account a --epoch abc start", `muster: --epoch is "abc"; it is a whole number (see muster send --help)`},
		{"send --account a --seq 9223372036854775808 start", `muster: --seq is "9223372036854775808"; it is a whole number (see muster send --help)`},
		{"send --account a --label pool start", `muster: --label is "pool"; it is written name=value (see muster send --help)`},
		{"config print --snapshot-interval 5", `muster: --snapshot-interval is "5"; it is a time such as 500ms, 30s or 5m (see muster config print --help)`},
		{"config print --partitions 0", `muster: partitions is 0; from 1 to 100 are possible`},
		{"machines diagram whatsapp@1 --format png", `muster: --format is "png"; it is mermaid or dot`},
		{"machines check", `muster: name the files to check, e.g. muster machines check shop.yaml`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			r := muster(t, strings.Fields(tt.args)...)
			if r.code != 2 || r.err != tt.want+"\n" || r.out != "" {
				t.Errorf("exit %d, stdout %q, stderr\n%s\nwant exit 2 and\n%s", r.code, r.out, r.err, tt.want)
			}
		})
	}
}

func TestExitCodesAreDocumented(t *testing.T) {
	r := muster(t, "help", "exit-codes")
	r.want(t, 0, "")
	r.golden(t, "exit-codes.golden")
}

func TestHelpOfEveryCommand(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s has no description", cmd.CommandPath())
		}
		if strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the description %q ends in a dot; the others do not", cmd.CommandPath(), cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(streams{}))
	muster(t).want(t, 0, "")
	muster(t, "accounts").want(t, 0, "")
}

func TestNobodyThereIsExit6(t *testing.T) {
	for _, args := range []string{"stats", "digest", "accounts get a", "accounts list", "send --account a start"} {
		r := muster(t, append(strings.Fields(args), "--server", "nats://127.0.0.1:1")...)
		r.want(t, 6, "is `muster serve` running there? --server or MUSTER_SERVER names another address")
	}
}

func TestTheEnvironmentNamesTheServer(t *testing.T) {
	t.Setenv("MUSTER_SERVER", "nats://127.0.0.1:2")
	muster(t, "stats").want(t, 6, "nats://127.0.0.1:2")
}

func TestVersion(t *testing.T) {
	r := muster(t, "version")
	r.want(t, 0, "")
	if !strings.HasPrefix(r.out, "muster ") || strings.Count(r.out, "\n") != 1 {
		t.Errorf("stdout is %q", r.out)
	}
	r = muster(t, "version", "-o", "json")
	var info struct{ Version, Go, Platform string }
	if err := json.Unmarshal([]byte(r.out), &info); err != nil || info.Version == "" || info.Go == "" || info.Platform == "" {
		t.Errorf("stdout is %q (%v)", r.out, err)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := muster(t, "completion", shell)
		r.want(t, 0, "")
		if len(r.out) < 1000 {
			t.Errorf("completion for %s is %q", shell, r.out)
		}
	}
}

func TestCompletionOfWords(t *testing.T) {
	for args, want := range map[string]string{
		"send --account a qr":       "qr_scanned\n",
		"send --machine ":           "whatsapp@1\n",
		"machines show ":            "whatsapp@2\n",
		"stats -o ":                 "jsonl\n",
		"accounts list --class ":    "limited\n",
		"accounts list --condition": "rate_limited\n",
	} {
		words := append([]string{"__complete"}, strings.Fields(args)...)
		if strings.HasSuffix(args, " ") {
			words = append(words, "")
		}
		if args == "accounts list --condition" {
			words = append(words, "ra")
		}
		r := muster(t, words...)
		if r.code != 0 || !strings.Contains(r.out, want) {
			t.Errorf("%s: %q, want %q in it", args, r.out, want)
		}
		if strings.Contains(r.out, "mark_stuck") {
			t.Errorf("%s offers Muster's own triggers", args)
		}
	}
}

func TestConfigPrint(t *testing.T) {
	t.Setenv("MUSTER_PARTITIONS", "8")
	t.Setenv("MUSTER_PASSWORD", "s3cret")
	path := file(t, "muster.yaml", "sync: always\n")
	r := muster(t, "config", "print", "--config", path, "--log-level", "debug")
	r.want(t, 0, "")
	for _, line := range []string{
		"partitions: 8                            # MUSTER_PARTITIONS",
		"sync: always                             # " + path,
		"log-level: debug                         # --log-level",
		"# password: (set) from MUSTER_PASSWORD",
	} {
		if !strings.Contains(r.out, line+"\n") {
			t.Errorf("%q is missing in\n%s", line, r.out)
		}
	}
	if strings.Contains(r.out, "s3cret") {
		t.Error("the password is printed")
	}
	r = muster(t, "config", "print", "-o", "json")
	var values []struct{ Key, Origin, Env string }
	if err := json.Unmarshal([]byte(r.out), &values); err != nil || len(values) < 10 || values[0].Key != "data" {
		t.Errorf("(%v) %s", err, r.out)
	}
}

func TestCheck(t *testing.T) {
	status, body := http.StatusOK, `{"status":"ready"}`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer srv.Close()
	defer http.DefaultClient.CloseIdleConnections()

	r := muster(t, "check", "--http", srv.URL)
	r.want(t, 0, "")
	if r.out != "ready\n" {
		t.Errorf("stdout is %q", r.out)
	}
	if r := muster(t, "check", "--http", strings.TrimPrefix(srv.URL, "http://")); r.code != 0 {
		t.Errorf("without a scheme: %+v", r)
	}
	if r := muster(t, "check", "--http", srv.URL, "-o", "jsonl"); r.out != `{"ready":true,"status":200,"answer":{"status":"ready"}}`+"\n" {
		t.Errorf("stdout is %q", r.out)
	}
	status, body = http.StatusServiceUnavailable, `{"status":"not ready","reason":"replaying partition 1"}`
	muster(t, "check", "--http", srv.URL).want(t, 5, "is not ready: replaying partition 1")
	body = "busy"
	muster(t, "check", "--http", srv.URL).want(t, 5, "is not ready: 503 Service Unavailable: busy")
	muster(t, "check", "--http", "127.0.0.1:1").want(t, 6, "connection refused")
	muster(t, "check", "--http", "http://[").want(t, 2, "--http: ")
}

func TestProbeAddress(t *testing.T) {
	for listen, want := range map[string]string{
		"":               "http://127.0.0.1:8080",
		"0.0.0.0:8080":   "http://127.0.0.1:8080",
		"[::]:8080":      "http://127.0.0.1:8080",
		":9090":          "http://127.0.0.1:9090",
		"127.0.0.2:80":   "http://127.0.0.2:80",
		"localhost:8080": "http://localhost:8080",
	} {
		if got := probeAddress(listen); got != want {
			t.Errorf("probeAddress(%q) = %q, want %q", listen, got, want)
		}
	}
}
