package peer_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
)

func object(t *testing.T, body string) payload.Object {
	t.Helper()
	o, err := payload.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestBearer(t *testing.T) {
	s := &connector.Source{Secrets: []string{"other", "s3"}}
	for header, want := range map[string]error{
		"Bearer s3": nil, "bearer  s3": nil, "Bearer other": nil, "Bearer s4": peer.ErrWrong, "Bearer s33": peer.ErrWrong,
		"": peer.ErrMissing, "Bearer": peer.ErrMissing, "Bearer ": peer.ErrMissing, "Basic s3": peer.ErrMissing, "s3": peer.ErrMissing,
	} {
		if err := peer.Bearer(s, &connector.Request{Header: http.Header{"Authorization": {header}}}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", header, err, want)
		}
	}
}

func TestAccountsHaveTheSourcesName(t *testing.T) {
	s := &connector.Source{Name: "shop"}
	for native, want := range map[string]string{"15550100001": "shop:15550100001", "": "", "a\nb": "", strings.Repeat("x", 124): ""} {
		if id, ok := peer.Account(s, native); string(id) != want && ok || ok != (want != "") {
			t.Errorf("%q: %q, %v", native, id, ok)
		}
	}
}

func TestHashIsOfContentNotOfOrder(t *testing.T) {
	one := peer.Hash("x", object(t, `{"a":1,"b":{"c":2,"d":[3]}}`))
	if same := peer.Hash("x", object(t, `{ "b": {"d":[3],"c":2}, "a":1 }`)); same != one || len(one) != 32 {
		t.Errorf("%s and %s", one, same)
	}
	if other := peer.Hash("x", object(t, `{"a":1,"b":{"c":2,"d":[4]}}`)); other == one {
		t.Error("other content has the same hash")
	}
}

func TestIDsAndReasonsAreBounded(t *testing.T) {
	long := strings.Repeat("é", 400)
	o := object(t, `{"n":7000000000000000001,"t":"wamid.x","l":"`+long+`","o":{"in":"x"},"z":null}`)
	for name, want := range map[string]string{"n": "7000000000000000001", "t": "wamid.x", "l": "", "o": "", "z": "", "none": ""} {
		if got := peer.ID(o, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := peer.ID(o, "o", "in"); got != "x" {
		t.Errorf("inside an object: %q", got)
	}
	r := peer.Reason("401", long)
	if r.Code != "401" || len(r.Text) > 310 || !strings.HasPrefix(r.Text, "éé") {
		t.Errorf("reason %v", r)
	}
}

func TestUnmappedNamesWhatItIs(t *testing.T) {
	d := peer.Unmapped("event", "odd\n", map[string]any{"a": "b"})
	if d.Unmapped != `event "odd\n"` || d.Map != nil || d.Ignored || d.Sample["a"] != "b" {
		t.Errorf("%+v", d)
	}
	if d := peer.Unmapped("event without a name", "", nil); d.Unmapped != "event without a name" {
		t.Errorf("%+v", d)
	}
}

func TestTimesThatAreNotKnown(t *testing.T) {
	if a := peer.At(0); a.HasAt || a.At != 0 {
		t.Errorf("%+v", a)
	}
	if a := peer.At(5); !a.HasAt || a.At != 5 {
		t.Errorf("%+v", a)
	}
}
