package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/play"
)

// TestConnectorsPlay plays every recorded sequence on the command line and reads
// what it prints as a program would.
func TestConnectorsPlay(t *testing.T) {
	files, err := filepath.Glob("../../bus/connector/connectortest/testdata/*/*.json")
	if err != nil || len(files) < 37 {
		t.Fatalf("%d sequences found (%v), want 37", len(files), err)
	}
	for _, file := range files {
		r := muster(t, "connectors", "play", file, "-o", "json")
		r.want(t, 0, "")
		var printed map[string]json.RawMessage
		if err := json.Unmarshal([]byte(r.out), &printed); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, key := range []string{"http", "bodies", "response_headers", "accounts", "no_new_events", "unmapped", "ignored", "events"} {
			if printed[key] == nil {
				t.Errorf("%s: %s is not printed", file, key)
			}
		}
		var got play.Result
		if err := json.Unmarshal([]byte(r.out), &got); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		c := connectortest.Load(t, file)
		for _, fault := range connectortest.Compare(c, &got) {
			t.Errorf("%s: %s", file, fault)
		}
		for _, secret := range c.Expect.SecretsAbsent {
			if form := connectortest.LeaksIn(printed["events"], secret); form != "" {
				t.Errorf("%s: %q is among the events as %s", file, secret, form)
			}
		}
	}
}

func TestConnectorsPlaySheet(t *testing.T) {
	r := muster(t, "connectors", "play", "../../bus/connector/connectortest/testdata/gewechat/02-offline-first-and-bad-key.json")
	r.want(t, 0, "")
	r.golden(t, "connectorsplay.golden")
	if strings.Contains(r.out, "gewe-url-key-1") {
		t.Error("the key in the address is shown")
	}
}

func TestConnectorsPlayFaults(t *testing.T) {
	unknown := `{"connector":"wahaha","requests":[{"received_at":"2026-01-01T00:00:00Z","method":"POST","path":"/hooks/wahaha"}]}`
	for stdin, want := range map[string]string{
		`{`:     "it is no recorded sequence",
		unknown: `-: there is no connector "wahaha"; it is one of cloud, cloudevents, evolution`,
		strings.ReplaceAll(unknown, `"wahaha","requests"`, `"evolution","config":{"utc_offset":"x"},"requests"`): `config: utc_offset is "x"`,
	} {
		stdin = strings.ReplaceAll(stdin, "/hooks/wahaha", "/hooks/evolution")
		musterWith(t, stdin, "connectors", "play", "-").want(t, 2, want)
	}
	muster(t, "connectors", "play", "/nosuch").want(t, 2, "no such file")
}

func TestConnectorsTestDryRun(t *testing.T) {
	config := file(t, "muster.yaml", "connectors:\n"+
		"  - {kind: waha, name: w-1, secret: a-secret-of-waha}\n  - {kind: evolution, secret: e, auth: body_apikey}\n  - {kind: gewechat, secret: a-key-in-the-address}\n")
	body := `{"id":"1","event":"session.status","session":"s","payload":{"status":"SCAN_QR_CODE"}}`
	r := musterWith(t, body, "connectors", "test", "w-1", "--config", config, "--dry-run", "--header", "X-Webhook-Request-Id: 7", "-o", "json")
	r.want(t, 0, "")
	var got play.Result
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.HTTP, []int{200}) || got.Accounts["w-1:s"].State != "QR_REQUIRED" || strings.Contains(r.out, "a-secret") {
		t.Errorf("it prints %s", r.out)
	}
	r = musterWith(t, `{"TypeName":"Weather","Wxid":"a"}`, "connectors", "test", "gewechat", "--config", config, "--dry-run")
	r.want(t, 0, "")
	if !strings.Contains(r.out, "0 events, 1 unmapped") || strings.Contains(r.out, "a-key") {
		t.Errorf("it prints %s", r.out)
	}
	musterWith(t, "[]", "connectors", "test", "evolution", "--config", config, "--dry-run").want(t, 2, "the key goes into the body, and that is no JSON object")
	musterWith(t, "{", "connectors", "test", "w-1", "--config", config, "--dry-run").want(t, 2, "the server answered 400 Bad Request")
	musterWith(t, "{}", "connectors", "test", "w-1", "--config", config, "--dry-run", "--header", "x").want(t, 2, `--header is "x"; write it as "Name: value"`)
	musterWith(t, "{}", "connectors", "test", "nobody", "--config", config).want(t, 3, `no connector "nobody" is configured; --config names the file of serve`)
	r = musterWith(t, "{}", "connectors", "test", "gewechat", "--config", config, "--http", "127.0.0.1:1")
	r.want(t, 6, "cannot reach http://127.0.0.1:1/hooks/gewechat: ")
	if strings.Contains(r.err, "a-key") {
		t.Errorf("the key in the address is shown: %s", r.err)
	}
}
