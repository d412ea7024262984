package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the golden files anew")

// given loads the configuration from flags, variables and a file's text.
func given(t *testing.T, args, environ []string, file string) (Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(fs)
	if file != "" {
		path := filepath.Join(t.TempDir(), "muster.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return load(fs, environ)
}

func TestDefaults(t *testing.T) {
	c, err := given(t, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if c.Data != "./muster-data" || c.HTTP != "127.0.0.1:8080" || c.NATSListen != "127.0.0.1:4222" || c.NATSURL != "" ||
		c.Sync != "group" || c.Partitions != 4 || c.RecoverAfter != 30*time.Second || c.SnapshotEvery != 100000 ||
		c.SnapshotPeriod != 5*time.Minute || c.LogLevel != "info" || c.LogFormat != "text" || !c.LogTransitions {
		t.Errorf("defaults are %+v", c)
	}
	if !c.Embedded() || c.Changed("data") {
		t.Errorf("Embedded() = %v, Changed(data) = %v; want true, false", c.Embedded(), c.Changed("data"))
	}
}

func TestPrecedence(t *testing.T) {
	file := "data: /from/file\nhttp: 127.0.0.1:1\npartitions: 2\nrecover-after: 45s\nlog-transitions: false\n"
	environ := []string{"MUSTER_HTTP=127.0.0.1:2", "MUSTER_PARTITIONS=3", "MUSTER_PORT=tcp://10.0.0.1:80", "HOME=/root"}
	c, err := given(t, []string{"--partitions", "8"}, environ, file)
	if err != nil {
		t.Fatal(err)
	}
	if c.Data != "/from/file" || c.HTTP != "127.0.0.1:2" || c.Partitions != 8 || c.RecoverAfter != 45*time.Second || c.LogTransitions {
		t.Errorf("got %+v", c)
	}
	for key, want := range map[string]string{
		"http": "MUSTER_HTTP", "partitions": "--partitions", "sync": "default",
	} {
		if got := c.Origins[key]; got != want {
			t.Errorf("%s comes from %q, want %q", key, got, want)
		}
	}
	if got := c.Origins["data"]; !strings.HasSuffix(got, "muster.yaml") {
		t.Errorf("data comes from %q, want the file", got)
	}
}

func TestTheEnvironmentNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(path, []byte("partitions: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := given(t, nil, []string{"MUSTER_CONFIG=" + path}, "")
	if err != nil || c.Partitions != 7 {
		t.Errorf("partitions = %d, err = %v; want 7", c.Partitions, err)
	}
}

func TestFaultsAreSentences(t *testing.T) {
	tests := map[string]struct {
		args, env []string
		file      string
		want      string // the end of one of the sentences
	}{
		"unknown key": {file: "data: x\nparitions: 2\n", want: `muster.yaml:2: there is no setting "paritions"; did you mean "partitions"?`},
		"no mapping":  {file: "- a\n", want: "muster.yaml:1: a configuration file is a list of `name: value` lines"},
		"bad number":  {file: "partitions: many\n", want: "muster.yaml: many is not a whole number"},
		"bad number in env": {env: []string{"MUSTER_PARTITIONS=4.5"},
			want: "partitions from MUSTER_PARTITIONS: 4.5 is not a whole number"},
		"bad duration":   {file: "recover-after: 30\n", want: "30 is not a duration; give a number with its unit, such as 30s or 5m"},
		"bad bool":       {env: []string{"MUSTER_LOG_TRANSITIONS=perhaps"}, want: "log-transitions from MUSTER_LOG_TRANSITIONS: perhaps is neither true nor false"},
		"no address":     {args: []string{"--http", "8080"}, want: `http is "8080"; write it as host:port, like 127.0.0.1:8080`},
		"open address":   {args: []string{"--http", "0.0.0.0:8080"}, want: "http is 0.0.0.0:8080, which other machines can reach; set a password (MUSTER_PASSWORD or --password-file), or listen on 127.0.0.1:8080"},
		"all addresses":  {args: []string{"--nats-listen", ":4222"}, want: "nats-listen is :4222, which other machines can reach; set a password (MUSTER_PASSWORD or --password-file), or listen on 127.0.0.1:4222"},
		"one port twice": {args: []string{"--http", "127.0.0.1:4222"}, want: "http and nats-listen are both 127.0.0.1:4222; give them different ports"},
		"sync":           {args: []string{"--sync", "never"}, want: `sync mode "never": it is group, always or interval`},
		"sync outside": {args: []string{"--nats-url", "nats://h:4222", "--sync", "always"},
			want: "sync is for the embedded server; with nats-url the server's own sync_interval decides"},
		"url":              {args: []string{"--nats-url", "h:4222"}, want: `nats-url is "h:4222"; write it like nats://host:4222`},
		"partitions":       {args: []string{"--partitions", "0"}, want: "partitions is 0; from 1 to 100 are possible"},
		"recover-after":    {args: []string{"--recover-after", "1ms"}, want: "recover-after is 1ms; from 1s to 24h are possible"},
		"snapshot-every":   {args: []string{"--snapshot-every", "1"}, want: "snapshot-every is 1; at least 100 events must lie between two snapshots"},
		"log-level":        {args: []string{"--log-level", "loud"}, want: `log-level is "loud"; it must be one of debug, info, warn, error`},
		"no data":          {args: []string{"--data", ""}, want: "data is empty; name the folder that holds the history"},
		"no such file":     {args: []string{"--config", "/nosuch/m.yaml"}, want: "open /nosuch/m.yaml: no such file or directory"},
		"no password file": {args: []string{"--password-file", "/nosuch/t"}, want: "the password file cannot be read: open /nosuch/t: no such file or directory"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := given(t, tt.args, tt.env, tt.file)
			var faults *Error
			if !errors.As(err, &faults) {
				t.Fatalf("err = %v, want an *Error", err)
			}
			for _, f := range faults.Faults {
				if strings.HasSuffix(f, tt.want) {
					return
				}
			}
			t.Errorf("faults are %q, want one that ends in %q", faults.Faults, tt.want)
		})
	}
}

func TestEveryFaultIsNamedAtOnce(t *testing.T) {
	_, err := given(t, []string{"--sync", "x", "--partitions", "0", "--log-format", "xml"}, nil, "")
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("err = %v, want three lines", err)
	}
}

func TestAPasswordOpensAddresses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := given(t, []string{"--http", "0.0.0.0:8080", "--password-file", path}, nil, "")
	if err != nil || c.Password != "s3cret" {
		t.Fatalf("password = %q, err = %v; want s3cret", c.Password, err)
	}
	if _, err := given(t, []string{"--password-file", path}, []string{"MUSTER_PASSWORD=other"}, ""); err == nil {
		t.Error("two passwords were taken, want an error")
	}
	if shown := c.YAML(); strings.Contains(shown, "s3cret") {
		t.Errorf("the password is shown:\n%s", shown)
	}
}

func TestExampleFileIsCurrent(t *testing.T) {
	const golden = "testdata/muster.yaml"
	if *update {
		if err := os.WriteFile(golden, []byte(Example()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := Example(); got != string(want) {
		t.Errorf("%s is not current: go test ./cmd/internal/config -update\n%s", golden, got)
	}
	c, err := given(t, nil, nil, string(want))
	if err != nil {
		t.Fatal(err)
	}
	def := Default()
	for i, v := range c.Values() {
		if d := def.Values()[i]; v.Value != d.Value {
			t.Errorf("%s is %v in the example, %v by default", v.Key, v.Value, d.Value)
		}
	}
}

func TestPrintedConfigurationReadsBack(t *testing.T) {
	args := []string{"--data", "/srv/a b", "--partitions", "8", "--recover-after", "90s", "--log-transitions=false"}
	c, err := given(t, args, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	back, err := given(t, nil, nil, c.YAML())
	if err != nil {
		t.Fatalf("%v in\n%s", err, c.YAML())
	}
	for i, v := range back.Values() {
		if want := c.Values()[i].Value; v.Value != want {
			t.Errorf("%s reads back as %v, want %v", v.Key, v.Value, want)
		}
	}
}
