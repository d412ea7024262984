package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// Keys that are good for nothing else.
const (
	alertKey  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	alertKey2 = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

func TestAlerts(t *testing.T) {
	file := "alerts:\n  debounce: 90s\n  remind: 4h\n  endpoints:\n" +
		"    - {name: ops, url: https://ops.example/hook, secret: " + alertKey + ", secrets: ['${NEXT}'], kinds: [banned], labels: {pool: eu}, min: 5}\n" +
		"    - {name: local, url: 'http://127.0.0.1:9000/', secret_file: " + secretFile(t, alertKey+"\n") + "}\n" +
		"    - {name: env, url: 'http://ops.example/', secret_env: NEXT, insecure: true}\n"
	c, err := given(t, nil, []string{"NEXT=" + alertKey2}, file)
	if err != nil {
		t.Fatal(err)
	}
	a := c.Alerts
	if a.Debounce != 90*time.Second || a.Remind != 4*time.Hour || a.Gather != 0 || len(a.Endpoints) != 3 {
		t.Fatalf("alerts are %+v", a)
	}
	if e := a.Endpoints[0]; e.Name != "ops" || len(e.Secrets) != 2 || !slices.Equal(e.Kinds, []string{"banned"}) || e.Labels["pool"] != "eu" || e.Min != 5 {
		t.Errorf("the first endpoint is %+v", e)
	}
	if err := a.CheckKinds([]string{"banned"}); err != nil {
		t.Error(err)
	}
	if err := a.CheckKinds([]string{"ban", "stuck"}); err == nil || !strings.Contains(err.Error(), `no kind of attention "banned"`) {
		t.Errorf("an unknown kind: %v", err)
	}
	for _, shown := range []string{c.YAML(), Example()} {
		if strings.Contains(shown, "MfKQ9r8") || strings.Contains(shown, "C2FVsBQ") {
			t.Errorf("a secret shows in\n%s", shown)
		}
	}
	if !strings.Contains(c.YAML(), "debounce: 1m30s") || !strings.Contains(c.YAML(), "# secret of ops: (set)") {
		t.Errorf("the alerts are not printed:\n%s", c.YAML())
	}
	if c, err = given(t, nil, nil, "alerts: {debounce: 0s, endpoints: []}\n"); err != nil || c.Alerts.Debounce >= 0 {
		t.Errorf("no debounce is %v, %v; want one below 0", c.Alerts.Debounce, err)
	}
}

func TestAlertsThatCannotBe(t *testing.T) {
	good := "name: ops, url: 'https://ops.example/', secret: " + alertKey
	for name, c := range map[string]struct{ file, want string }{
		"a list":             {"alerts: [1]", "endpoints below it"},
		"an unknown setting": {"alerts: {endpoint: []}", `did you mean "alerts.endpoints"?`},
		"a bad time":         {"alerts: {debounce: soon}", `debounce is "soon"`},
		"a long gather":      {"alerts: {gather: 5m}", "up to 1m"},
		"a word":             {"alerts: {endpoints: [ops]}", "alerts.endpoints[0]: an endpoint is a list"},
		"a typing error":     {"alerts: {endpoints: [{" + good + ", kind: x}]}", `did you mean "kinds"?`},
		"no secret":          {"alerts: {endpoints: [{name: ops, url: 'https://ops.example/'}]}", "it has no secret"},
		"not base64":         {"alerts: {endpoints: [{name: ops, url: 'https://ops.example/', secret: whsec_topsecret!}]}", "not base64"},
		"plain http":         {"alerts: {endpoints: [{name: ops, url: 'http://ops.example/', secret: " + alertKey + "}]}", "use https"},
		"twice":              {"alerts: {endpoints: [{" + good + "}, {" + good + "}]}", "that of another endpoint"},
		"two ways":           {"alerts: {endpoints: [{" + good + ", secret_env: X}]}", "more than one of"},
		"a wrong type":       {"alerts: {endpoints: [{" + good + ", min: many}]}", "alerts.endpoints[0]"},
	} {
		_, err := given(t, nil, []string{"X=" + alertKey2}, c.file+"\n")
		var faults *Error
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "topsecret") || strings.Contains(err.Error(), "MfKQ9r8") {
			t.Errorf("%s: the error holds a secret: %v", name, err)
		}
	}
}
