package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConnectors(t *testing.T) {
	file := "connectors:\n" +
		"  - {kind: waha, secret: one}\n" +
		"  - kind: waha\n    name: waha-2\n    secret_file: " + secretFile(t, "two\n\n two-old \n") + "\n" +
		"    poll: {url: http://waha:3000, key: '${KEY}', every: 30s}\n" +
		"  - {kind: waha, name: w.3, secret_env: THREE, secrets: [three-old, '${FOUR}']}\n" +
		"  - {kind: waha, name: four, secret: ignored}\n" +
		"  - {kind: waha, name: five, secret: '${THREE}', poll: {url: 'https://x', key_env: KEY}}\n" +
		"  - {kind: waha, name: six-6}\n"
	environ := []string{"THREE=three", "FOUR=four", "KEY=poll-key", "MUSTER_CONNECTOR_FOUR_SECRET=stronger", "MUSTER_CONNECTOR_SIX_6_SECRET=six"}
	c, err := given(t, nil, environ, file)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name    string
		secrets []string
	}{
		{"waha", []string{"one"}}, {"waha-2", []string{"two", "two-old"}}, {"w.3", []string{"three", "three-old", "four"}},
		{"four", []string{"stronger"}}, {"five", []string{"three"}}, {"six-6", []string{"six"}},
	}
	if len(c.Connectors) != len(want) {
		t.Fatalf("there are %d connectors, want %d", len(c.Connectors), len(want))
	}
	for i, w := range want {
		if got := c.Connectors[i]; got.Kind != "waha" || got.Name != w.name || !slices.Equal(got.Secrets, w.secrets) {
			t.Errorf("connector %d is %+v, want %+v", i, got.Source, w)
		}
	}
	if p := c.Connectors[1].Poll; p == nil || p.URL != "http://waha:3000" || p.Key != "poll-key" || p.Every != 30*time.Second {
		t.Errorf("poll is %+v", p)
	}
	if p := c.Connectors[4].Poll; p == nil || p.Key != "poll-key" || p.Every != 5*time.Minute {
		t.Errorf("poll is %+v", p)
	}
	if !strings.HasSuffix(c.Connectors[1].Origin, "muster.yaml:3") {
		t.Errorf("the origin is %s", c.Connectors[1].Origin)
	}
}

func TestConnectorsOfAllKinds(t *testing.T) {
	file := "connectors:\n" +
		"  - {kind: evolution, secret: e, auth: jwt, utc_offset: '-03:00'}\n" +
		"  - {kind: cloud, secret: c, verify_token: v, waba_numbers: {1001: +1 555 010 0001, 1002: ['15550100002', 15550100003]}}\n"
	c, err := given(t, nil, nil, file)
	if err != nil {
		t.Fatal(err)
	}
	if e := c.Connectors[0]; e.Auth != "jwt" || e.UTCOffset != -3*time.Hour {
		t.Errorf("evolution is %+v", e.Source)
	}
	m := c.Connectors[1]
	if m.VerifyToken != "v" || !slices.Equal(m.WABANumbers["1001"], []string{"15550100001"}) || !slices.Equal(m.WABANumbers["1002"], []string{"15550100002", "15550100003"}) {
		t.Errorf("cloud is %+v", m.Source)
	}
}

func TestConnectorFaultsAreSentences(t *testing.T) {
	two := secretFile(t, "\n")
	tests := map[string]struct{ entries, want string }{
		"no list":        {"connectors: waha\n", "muster.yaml:1: connectors is a list; write each entry as `- kind: waha`"},
		"no mapping":     {"connectors:\n  - waha\n", "muster.yaml:2: connectors[0]: an entry is a list of `name: value` lines, such as `kind: waha`"},
		"unknown key":    {"connectors:\n  - {kind: waha, secrt: s}\n", `connectors[0]: there is no setting "secrt"; did you mean "secret"?`},
		"unknown of it":  {"connectors:\n  - {kind: waha, secret: s, poll: {uri: x}}\n", `there is no setting "poll.uri"; did you mean "poll.url"?`},
		"no kind":        {"connectors:\n  - {secret: s}\n", "connectors[0]: kind is missing; it is one of "},
		"unknown kind":   {"connectors:\n  - {kind: wahaha, secret: s}\n", `connectors[0]: there is no kind "wahaha"; it is one of `},
		"no secret":      {"connectors:\n  - {kind: waha}\n", "it has no secret; give secret, secret_file, secret_env, or the variable MUSTER_CONNECTOR_WAHA_SECRET"},
		"two secrets":    {"connectors:\n  - {kind: waha, secret: a, secret_env: b}\n", "more than one of secret, secret_file and secret_env is given; give one (and further ones as secrets)"},
		"empty file":     {"connectors:\n  - {kind: waha, secret_file: " + two + "}\n", "secret_file " + two + " is empty"},
		"no file":        {"connectors:\n  - {kind: waha, secret_file: /nosuch/s}\n", "secret_file cannot be read: open /nosuch/s: no such file or directory"},
		"no variable":    {"connectors:\n  - {kind: waha, secret: '${NOSUCH}'}\n", "secret is to come from the variable NOSUCH, which is not set"},
		"two of a name":  {"connectors:\n  - {kind: waha, secret: a}\n  - {kind: evolution, name: waha, secret: b}\n", `connectors[1]: name "waha" is that of waha, too; the accounts of both would have the same ids, so choose another one`},
		"bad name":       {"connectors:\n  - {kind: waha, name: a/b, secret: a}\n", `name is "a/b"; it has 1 to 32 letters, digits, dots, dashes and underscores`},
		"Muster's name":  {"connectors:\n  - {kind: waha, name: muster, secret: a}\n", `name is "muster", which is Muster's own; choose another one`},
		"name of event":  {"connectors:\n  - {kind: evolution, name: connection-update, secret: a}\n", "appends to its address as the name of an event; choose another one"},
		"means nothing":  {"connectors:\n  - {kind: waha, secret: a, verify_token: v}\n", "verify_token means nothing to waha; leave it out"},
		"auth":           {"connectors:\n  - {kind: evolution, secret: a, auth: basic}\n", `auth is "basic"; it is one of header, jwt, body_apikey`},
		"utc_offset":     {"connectors:\n  - {kind: evolution, secret: a, utc_offset: 3h}\n", `utc_offset is "3h"; write it as +03:00 or -05:30`},
		"waba_numbers":   {"connectors:\n  - {kind: cloud, secret: a, waba_numbers: {1: none}}\n", `waba_numbers: "none" of business account "1" has no digits; write a phone number`},
		"poll.url":       {"connectors:\n  - {kind: waha, secret: a, poll: {url: waha}}\n", "poll.url is no address; write it like http://waha:3000"},
		"poll.every":     {"connectors:\n  - {kind: waha, secret: a, poll: {url: http://w, every: 5}}\n", `poll.every is "5"; give a time of 1s or more with its unit, such as 30s or 5m`},
		"poll.key twice": {"connectors:\n  - {kind: waha, secret: a, poll: {url: http://w, key: a, key_env: b}}\n", "more than one of poll.key, poll.key_file and poll.key_env is given; give one"},
		"wrong type":     {"connectors:\n  - {kind: waha, secret: [a-secret-in-a-list]}\n", "cannot unmarshal !!seq into string"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := given(t, nil, nil, tt.entries)
			var faults *Error
			if !errors.As(err, &faults) {
				t.Fatalf("err = %v, want an *Error", err)
			}
			if !slices.ContainsFunc(faults.Faults, func(f string) bool { return strings.Contains(f, tt.want) }) {
				t.Errorf("faults are %q, want one with %q", faults.Faults, tt.want)
			}
			if strings.Contains(err.Error(), "a-secret-in-a-list") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

// TestSecretsAreNotPrinted: neither form of the configuration shows one, and what
// is printed can be read back where the secrets stand elsewhere.
func TestSecretsAreNotPrinted(t *testing.T) {
	path := secretFile(t, "hidden-1\n")
	file := "connectors:\n" +
		"  - {kind: waha, secret_file: " + path + ", secrets: [hidden-2], poll: {url: 'http://u:hidden-3@waha:3000', key: hidden-4}}\n" +
		"  - {kind: cloud, name: meta, secret: hidden-5, verify_token: hidden-6, waba_numbers: {'1001': '15550100001'}}\n"
	environ := []string{"MUSTER_CONNECTOR_META_SECRET=hidden-7"}
	c, err := given(t, nil, environ, file)
	if err != nil {
		t.Fatal(err)
	}
	values, err := json.Marshal(c.All())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{c.YAML(), string(values)} {
		if strings.Contains(text, "hidden-") {
			t.Errorf("a secret is shown in %s", text)
		}
		for _, shown := range []string{path, "1001", "verify_token", "poll.key", "muster.yaml:2"} {
			if !strings.Contains(text, shown) {
				t.Errorf("%s is not shown in %s", shown, text)
			}
		}
	}
	back, err := given(t, nil, environ, c.YAML())
	if err != nil {
		t.Fatalf("%v in\n%s", err, c.YAML())
	}
	if len(back.Connectors) != 2 || !slices.Equal(back.Connectors[0].Secrets, []string{"hidden-1"}) || !slices.Equal(back.Connectors[1].WABANumbers["1001"], []string{"15550100001"}) {
		t.Errorf("it reads back as %+v", back.Connectors)
	}
}
