package httpapi

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/musterhq/muster/cmd/internal/httpapi/live"
)

// FuzzPosition reads positions in both of their forms: what is taken is the same
// when it is written and read again, in either form.
func FuzzPosition(f *testing.F) {
	for _, text := range []string{"", "0:1", "0:12,1:7", `{"0":12,"1":7}`, `{"0":-1}`, `{"-1":1}`, `{"99999":1}`, "{", "{}x", "0:1,0:1", "63:9223372036854775807", "+1:2", "0:01"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var p position
		if p.UnmarshalText([]byte(text)) != nil {
			return
		}
		asJSON, err := json.Marshal(p.asOf)
		if err != nil {
			t.Fatalf("%q is read as %v, which is no JSON: %v", text, p.asOf, err)
		}
		for _, again := range []string{live.Position(p.asOf).String(), string(asJSON)} {
			var q position
			if again == "null" {
				continue
			}
			if err := q.UnmarshalText([]byte(again)); err != nil || !maps.Equal(q.asOf, p.asOf) {
				t.Fatalf("%q is read as %v; written as %q that is read as %v (%v)", text, p.asOf, again, q.asOf, err)
			}
		}
	})
}
