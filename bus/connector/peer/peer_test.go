package peer_test

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/peer"
)

func TestSecretsAreComparedWhole(t *testing.T) {
	secrets := []string{"old", "new"}
	for given, want := range map[string]bool{"old": true, "new": true, "ne": false, "newer": false, "": false, "oldnew": false} {
		if got := peer.Same(secrets, given); got != want {
			t.Errorf("%q: %v, want %v", given, got, want)
		}
	}
}

func TestBearer(t *testing.T) {
	for _, c := range []struct {
		header string
		want   error
	}{
		{"Bearer s3", nil}, {"bearer  s3", nil}, {"Bearer s4", peer.ErrWrong}, {"Bearer s33", peer.ErrWrong},
		{"", peer.ErrMissing}, {"Bearer", peer.ErrMissing}, {"Bearer ", peer.ErrMissing}, {"Basic s3", peer.ErrMissing}, {"s3", peer.ErrMissing},
	} {
		r := &connector.Request{Header: http.Header{"Authorization": {c.header}}}
		if err := peer.Bearer([]string{"other", "s3"}, r); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.header, err, c.want)
		}
	}
}

func TestMAC(t *testing.T) {
	// printf 'payload' | openssl dgst -sha256 -hmac key
	const good = "5d98b45c90a207fa998ce639fea6f02ecc8cc3f36fef81d694fb856b4d0a28ca"
	for _, c := range []struct {
		given, body string
		want        error
	}{
		{good, "payload", nil}, {strings.ToUpper(good), "payload", nil}, {good, "payloaD", peer.ErrWrong},
		{good[:62], "payload", peer.ErrWrong}, {"zz", "payload", peer.ErrWrong}, {"", "payload", peer.ErrMissing},
	} {
		if err := peer.MAC(sha256.New, []string{"other", "key"}, c.given, []byte(c.body)); !errors.Is(err, c.want) {
			t.Errorf("%q over %q: %v, want %v", c.given, c.body, err, c.want)
		}
	}
}

func TestReadRefusesWhatIsNoObject(t *testing.T) {
	for body, want := range map[string]string{
		"": "empty", "  ": "empty", `{"a":`: "cut off", `{"a":"secret`: "cut off", "a=b": "byte 1", "[1]": "not an object", "7": "not an object", "null": "not an object",
		`{} {}`: "something follows", `{}]`: "something follows", "{\"a\":\"\xff\"}": "UTF-8", `{"a" 1}`: "byte 6",
	} {
		_, err := peer.Read([]byte(body))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want a word about %q", body, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error quotes the body: %v", body, err)
		}
	}
}

func TestFieldsOfOtherTypesReadAsNothing(t *testing.T) {
	o, err := peer.Read([]byte(`{"n":7000000000000000001,"t":"12","f":1.5,"b":true,"o":{"x":"y"},"l":[{"a":1},2],"z":null,"long":"` + strings.Repeat("x", 600) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Text("n"); got != "7000000000000000001" {
		t.Errorf("a large number reads as %s", got)
	}
	n, ok := o.Int("t")
	if n != 12 || !ok {
		t.Errorf("a number as text reads as %d, %v", n, ok)
	}
	if _, ok := o.Int("f"); ok || o.Text("o") != "" || o.Text("b") != "" || o.Object("t") != nil || o.Has("z") || o.ID("long") != "" || o.Bool("t") {
		t.Error("a field of another type was read")
	}
	list, ok := o.Objects("l")
	if !ok || len(list) != 2 || list[0].Text("a") != "1" || list[1].Has("a") {
		t.Errorf("the list reads as %v, %v", list, ok)
	}
	if _, ok := o.Objects("o"); ok {
		t.Error("an object was read as a list")
	}
}

func TestTimes(t *testing.T) {
	want := time.Date(2026, 1, 7, 14, 0, 0, 0, time.UTC).UnixNano()
	for text, known := range map[string]bool{
		`1767794400`: true, `"1767794400"`: true, `"2026-01-07T14:00:00+0000"`: true, `"2026-01-07T15:00:00+01:00"`: true, `"2026-01-07T14:00:00Z"`: true,
		`"January 7, 2026"`: false, `0`: false, `-5`: false, `9223372036854775807`: false, `"0001-01-01T00:00:00Z"`: false, `true`: false, `null`: false,
	} {
		o, err := peer.Read([]byte(`{"at":` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := o.Instant("at"); ok != known || known && got != want {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
}

func TestHashIsOfContentNotOfOrder(t *testing.T) {
	hash := func(body string) string {
		o, err := peer.Read([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return peer.Hash("x", o)
	}
	one := hash(`{"a":1,"b":{"c":2,"d":[3]}}`)
	if same := hash(`{ "b": {"d":[3],"c":2}, "a":1 }`); same != one || len(one) != 32 {
		t.Errorf("%s and %s", one, same)
	}
	if other := hash(`{"a":1,"b":{"c":2,"d":[4]}}`); other == one {
		t.Error("other content has the same hash")
	}
}

func TestSamplesKeepWhatIsNamed(t *testing.T) {
	o, err := peer.Read([]byte(`{"event":"odd","token":"s3cret","n":5,"o":{"deep":"s3cret"},"long":"` + strings.Repeat("é", 200) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	kept := peer.Sample(o, "event", "n", "o", "long", "none")
	if len(kept) != 3 || kept["event"] != "odd" || kept["n"] != "5" || len(kept["long"].(string)) > 210 {
		t.Errorf("kept %v", kept)
	}
	d := peer.Unmapped("event", o.Text("event"), kept)
	if d.Unmapped != `event "odd"` || d.Map != nil || d.Ignored {
		t.Errorf("%+v", d)
	}
}
