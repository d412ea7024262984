package connectortest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/play"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

// toyCase is a sequence whose expectations hold.
const toyCase = `{
  "about": "A toy comes up, loses its connection by beginning again, and says some things twice.",
  "connector": "toy", "secret": "toy-secret-1",
  "requests": [
    {"received_at": "2026-01-05T10:00:00Z", "method": "POST", "path": "/hooks/toy/event", "headers": {"Authorization": "Bearer toy-secret-1"}, "body": [{"id": "1", "account": "a", "triggers": ["ready"]}]},
    {"received_at": "2026-01-05T10:00:01Z", "method": "POST", "path": "/hooks/toy", "headers": {"Authorization": "Bearer toy-secret-1"}, "body": [{"id": "1", "account": "a", "triggers": ["ready"]}, {"boring": true}]},
    {"received_at": "2026-01-05T10:00:02Z", "method": "POST", "path": "/hooks/toy/toy", "headers": {"Authorization": "Bearer toy-secret-1"}, "raw": "[{\"id\": \"2\", \"account\": \"a\", \"triggers\": [\"begin\"]}]"},
    {"received_at": "2026-01-05T10:00:03Z", "method": "OPTIONS", "path": "/hooks/toy", "headers": {}},
    {"received_at": "2026-01-05T10:00:04Z", "method": "POST", "path": "/hooks/toy", "headers": {"Authorization": "Bearer guess"}, "body": []},
    {"received_at": "2026-01-05T10:00:05Z", "method": "POST", "path": "/hooks/toy", "headers": {"Authorization": "Bearer toy-secret-1"}, "raw": "["},
    {"received_at": "2026-01-05T10:00:06Z", "method": "POST", "path": "/hooks/toy", "headers": {"Authorization": "Bearer toy-secret-1"}, "body": [{"unknown": "fly"}, {"account": "b", "triggers": ["known"]}]},
    {"received_at": "2026-01-05T10:00:07Z", "method": "POST", "path": "/hooks/toy", "headers": {}, "raw_pad": {"head": "[", "pad": " ", "times": 4194304, "tail": ""}},
    {"received_at": "2026-01-05T10:00:08Z", "method": "PUT", "path": "/hooks/toy", "headers": {}},
    {"received_at": "2026-01-05T10:00:09Z", "method": "POST", "path": "/hooks/other", "headers": {}},
    {"received_at": "2026-01-05T10:00:10Z", "method": "POST", "path": "/hooks/toy/a/b", "headers": {}}
  ],
  "expect": {
    "accounts": {"toy:a": {"state": "RECONNECTING", "conditions": [{"name": "stuck"}], "attention": ["stuck"], "trail": ["RUNNING", "DISCONNECTED", "RECONNECTING"]}},
    "http": [200, 200, 200, 200, 401, 400, 200, 413, 405, 404, 404],
    "bodies": {"0": "", "3": "hello"},
    "response_headers": {"3": {"Toy": "yes"}, "8": {"Allow": "POST, OPTIONS"}},
    "no_new_events": [1, 3, 4, 5, 6, 7, 8, 9, 10],
    "unmapped": 1, "ignored": 2, "until": "2026-01-05T10:05:02Z",
    "secrets_absent": ["toy-secret-1"]
  }
}`

func TestPlay(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "toy.json"), []byte(toyCase), 0o600); err != nil {
		t.Fatal(err)
	}
	connectortest.Play(t, connectortest.Toy{}, dir)
}

// TestCompareFindsWhatDiffers alters one expectation at a time.
func TestCompareFindsWhatDiffers(t *testing.T) {
	got := played(t)
	for change, fault := range map[string]string{
		`"http": [200`:                   `http: want [201,`,
		`"state": "RECONNECTING"`:        `toy:a: state: want "RUNNING", got "RECONNECTING"`,
		`[{"name": "stuck"}]`:            `toy:a: conditions that are not stated`,
		`"attention": ["stuck"]`:         `toy:a: attention: want []`,
		`"trail": ["RUNNING", `:          `toy:a: trail: want ["DISCONNECTED","RECONNECTING"]`,
		`"0": ""`:                        `body of answer 0: want "x", got ""`,
		`{"Toy": "yes"}`:                 `header toy of answer 3: want "no", got "yes"`,
		`"no_new_events": [1, `:          `no_new_events: want [3,`,
		`"unmapped": 1`:                  `unmapped: want 2, got 1`,
		`"ignored": 2`:                   `ignored: want 3, got 2`,
		`"accounts": {`:                  `accounts: want ["toy:a","toy:x"], got ["toy:a"]`,
		`"secrets_absent": ["toy-secret`: `the secret "toy:a" is in plain text`,
	} {
		to := map[string]string{
			`"http": [200`: `"http": [201`, `"state": "RECONNECTING"`: `"state": "RUNNING"`, `[{"name": "stuck"}]`: `[]`,
			`"attention": ["stuck"]`: `"attention": []`, `"trail": ["RUNNING", `: `"trail": [`, `"0": ""`: `"0": "x"`,
			`{"Toy": "yes"}`: `{"toy": "no"}`, `"no_new_events": [1, `: `"no_new_events": [`, `"unmapped": 1`: `"unmapped": 2`, `"ignored": 2`: `"ignored": 3`,
			`"accounts": {`: `"accounts": {"toy:x": {}, `, `"secrets_absent": ["toy-secret`: `"secrets_absent": ["toy:a", "toy-secret`,
		}[change]
		text := strings.Replace(toyCase, change, to, 1)
		if text == toyCase {
			t.Fatalf("%s is not in the sequence", change)
		}
		c, err := play.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		faults := connectortest.Compare(c, got)
		if len(faults) == 0 || !strings.Contains(strings.Join(faults, "\n"), fault) {
			t.Errorf("%s: found %q, want %q", to, faults, fault)
		}
	}
}

func played(t *testing.T) *play.Result {
	t.Helper()
	c, err := play.Parse([]byte(toyCase))
	if err != nil {
		t.Fatal(err)
	}
	got, err := play.Run(t.Context(), c, connectortest.Toy{}, domain.NewJudge(lifecycle.Registry()))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestEverySequenceCanBeRead: the recorded ones are all there and well-formed.
func TestEverySequenceCanBeRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.json")
	if err != nil || len(files) != 37 {
		t.Fatalf("%d sequences are there (%v), want 37", len(files), err)
	}
	for _, file := range files {
		if c := connectortest.Load(t, file); c.Connector != filepath.Base(filepath.Dir(file)) || len(c.Expect.HTTP) != len(c.Requests) {
			t.Errorf("%s is of %q and states %d answers to %d requests", file, c.Connector, len(c.Expect.HTTP), len(c.Requests))
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	request := `{"received_at": "2026-01-05T10:00:00Z", "method": "POST", "path": "/hooks/toy"`
	for text, want := range map[string]string{
		`[]`: "it is no recorded sequence: ",
		`{"connector": "toy", "requests": [` + request + `}]} {}`: "something follows its object",
		`{"connector": "toy"}`:                                                                                                         "it needs a connector and requests",
		`{"connector": "toy", "colour": 1}`:                                                                                            `unknown field "colour"`,
		`{"connector": "toy", "requests": [{"method": "POST", "path": "/"}]}`:                                                          "request 0: received_at is missing",
		`{"connector": "toy", "requests": [{"received_at": "2026-01-05T10:00:00Z"}]}`:                                                  "request 0: it needs a method",
		`{"connector": "toy", "requests": [` + request + `, "raw": "", "body": 1}]}`:                                                   "request 0: it has more than one of body, raw and raw_pad",
		`{"connector": "toy", "requests": [` + request + `, "raw_pad": {"pad": "ab", "times": 99999999}}]}`:                            "request 0: its body would be larger",
		`{"connector": "toy", "requests": [` + request + `}, {"received_at": "2026-01-05T09:59:59Z", "method": "POST", "path": "/"}]}`: "request 1: it is received before the one in front of it",
	} {
		if _, err := play.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestResultIsPrintedWhole: the JSON form has the fields that programs read.
func TestResultIsPrintedWhole(t *testing.T) {
	text, err := json.Marshal(played(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"http":[200,`, `"bodies":{"0":""`, `"3":{"Content-Type"`, `"toy:a":{"id":"toy:a","machine":"whatsapp@2"`, `"trail":["RUNNING","DISCONNECTED","RECONNECTING"]`, `"no_new_events":[1,3,`, `"unmapped":1,"ignored":2`, `"events":[{"account":"toy:a","partition":0,"version":1,"seq":1,"at":"2026-01-05T10:00:00Z"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
}
