package payload_test

import (
	"crypto/sha256"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector/payload"
)

func TestParseTakesOneObjectAndNothingElse(t *testing.T) {
	for _, bad := range []string{"", " ", "null", "[]", "1", `"x"`, `{`, `{"a":}`, `{"a":1} {"b":2}`, `{"a":1}x`, strings.Repeat(`{"a":`, 20000), "\x00"} {
		if _, err := payload.Parse([]byte(bad)); err != payload.ErrNotObject {
			t.Errorf("Parse(%.20q) = %v, want ErrNotObject", bad, err)
		}
	}
	o, err := payload.Parse([]byte(" {\"a\":1,\"a\":2, \"b\":{\"c\":\"\\ud800\"}} \n"))
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := o.Int("a"); n != 2 || !ok {
		t.Errorf("of a name that stands twice: %d %v, want 2", n, ok)
	}
	if s, ok := o.Text("b", "c"); s != "\uFFFD" || !ok {
		t.Errorf("half a pair: %q %v", s, ok)
	}
}

func TestWholeNumbers(t *testing.T) {
	for in, want := range map[string]struct {
		n  int64
		ok bool
	}{
		`401`: {401, true}, `"401"`: {401, true}, `401.0`: {401, true}, `4.01e2`: {401, true}, `-1`: {-1, true}, `"-1"`: {-1, true},
		`1767607200000`: {1767607200000, true}, `9223372036854775807`: {9223372036854775807, true},
		`9223372036854775808`: {}, `1e400`: {}, `1.5`: {}, `"x"`: {}, `""`: {}, `null`: {}, `true`: {}, `[1]`: {}, `{}`: {}, `"NaN"`: {}, `"Inf"`: {},
		`1e30`: {}, `" 1"`: {},
	} {
		o, err := payload.Parse([]byte(`{"v":` + in + `}`))
		if err != nil {
			t.Fatal(in, err)
		}
		if n, ok := o.Int("v"); ok != want.ok || ok && n != want.n {
			t.Errorf("Int(%s) = %d %v, want %d %v", in, n, ok, want.n, want.ok)
		}
	}
}

func TestTimesInSecondsAndMilliseconds(t *testing.T) {
	const second = int64(1767607200)
	for in, want := range map[string]int64{
		`1767607200`: second * 1e9, `"1767607200"`: second * 1e9, `1767607200000`: second * 1e9, `1767607200015`: second*1e9 + 15e6,
		`0`: 0, `-1`: 0, `12`: 0, `99999999999999999`: 0, `1767607200000000000`: 0, `"soon"`: 0, `null`: 0,
	} {
		o, _ := payload.Parse([]byte(`{"v":` + in + `}`))
		if ns, ok := payload.Unix(o["v"]); ns != want || ok != (want != 0) {
			t.Errorf("Unix(%s) = %d %v, want %d", in, ns, ok, want)
		}
	}
	for in, want := range map[string]int64{
		"2026-01-05T10:00:00Z": second * 1e9, "2026-01-05T12:00:00.5+02:00": second*1e9 + 5e8, "2026-01-05": 0, "": 0, "0001-01-01T00:00:00Z": 0, "9999-01-01T00:00:00Z": 0,
	} {
		if ns, ok := payload.RFC3339(in); ns != want || ok != (want != 0) {
			t.Errorf("RFC3339(%s) = %d %v, want %d", in, ns, ok, want)
		}
	}
}

func TestCodesAreKeptAsWritten(t *testing.T) {
	o, _ := payload.Parse([]byte(`{"a":401,"b":"401","c":401.0,"d":"gone","e":null,"f":"","g":{},"h":0}`))
	for name, want := range map[string]string{"a": "401", "b": "401", "c": "401", "d": "gone", "e": "", "f": "", "g": "", "h": "0"} {
		if s, ok := o.Code(name); s != want || ok != (want != "") {
			t.Errorf("Code(%s) = %q %v, want %q", name, s, ok, want)
		}
	}
}

func TestPersons(t *testing.T) {
	for id, want := range map[string]bool{
		"15550100077@c.us": true, "15550100077@s.whatsapp.net": true, "1000@lid": true, "1000:7@lid": true,
		"120363000@g.us": false, "status@broadcast": false, "123@broadcast": false, "120363@newsletter": false, "@c.us": false, "": false, "15550100077": false,
	} {
		if got := payload.Person(id); got != want {
			t.Errorf("Person(%q) = %v", id, got)
		}
	}
}

func TestPickKeepsOnlyWhatIsNamedAndSmall(t *testing.T) {
	o, _ := payload.Parse([]byte(`{"event":"x","session":"` + strings.Repeat("ä", 100) + `","body":"secret","n":7,"deep":{"body":"secret"},"list":["secret"],"f":true}`))
	got := o.Pick("event", "session", "n", "deep", "list", "f", "none")
	want := map[string]any{"event": "x", "session": strings.Repeat("ä", 32) + "…", "n": "7", "f": true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestProofs(t *testing.T) {
	// printf body | openssl dgst -sha256 -hmac key
	const proof = "515aae133b435d4000956731f68ae5cf5eb85d4f0dc6a546d2bfcd3595ec1ae1"
	for _, good := range []string{proof, strings.ToUpper(proof)} {
		if key, ok := payload.Signed(sha256.New, []string{"old", "key"}, []byte("body"), good); !ok || key != "key" {
			t.Errorf("the signature %s is not taken", good)
		}
	}
	if _, ok := payload.Signed(sha256.New, []string{"key"}, []byte("body"), proof[:32]); ok {
		t.Error("half a signature is none")
	}
	if _, ok := payload.Signed(sha256.New, []string{"key"}, []byte("Body"), proof); ok {
		t.Error("another body has another signature")
	}
	for _, bad := range []string{"", "zz", "00"} {
		if _, ok := payload.Signed(sha256.New, []string{"key", ""}, []byte("body"), bad); ok {
			t.Errorf("%q is no signature", bad)
		}
	}
	if !payload.Secret([]string{"old", "new"}, "old") || !payload.Secret([]string{"old", "new"}, "new") {
		t.Error("both secrets are good")
	}
	if payload.Secret([]string{"old", ""}, "") || payload.Secret(nil, "") || payload.Secret([]string{"old"}, "ol") {
		t.Error("an empty or shorter secret is not good")
	}
	for in, want := range map[string]string{"Bearer tok": "tok", "bearer  tok ": "tok", "Basic tok": "", "tok": "", "": "", "Bearer": ""} {
		h := http.Header{}
		h.Set("Authorization", in)
		if got := payload.Bearer(h); got != want {
			t.Errorf("Bearer(%q) = %q", in, got)
		}
	}
}
