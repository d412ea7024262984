package dispatch

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// FuzzRead: no request makes the endpoint panic, and a trigger that is handed
// on is always about the subject's account.
func FuzzRead(f *testing.F) {
	f.Add("a", "", []byte(`{"trigger":"start"}`))
	f.Add("a=2Eb", "application/json", []byte(`{"trigger":"start","account":"a.b"}`))
	f.Add("a", "application/msgpack", []byte("\x81\xa7trigger\xa5start"))
	f.Add("a", "application/x-msgpack", []byte("\xde\x00\x01\xa7trigger\xa5start"))
	f.Add("a", "", []byte("\xdf\xff\xff\xff\xff"))
	f.Add("=2", "text/plain; x=\"", []byte("{"))
	f.Fuzz(func(t *testing.T, token, contentType string, data []byte) {
		in := incoming{subject: "muster.cmd." + token, data: data}
		if contentType != "" {
			in.header = nats.Header{"Content-Type": {contentType}}
		}
		got, _, bad := read(&in)
		if bad != nil {
			if bad.reason == "" || bad.code == 0 {
				t.Fatalf("refused without a reason: %+v", bad)
			}
			return
		}
		if eventlog.Token(string(got.Account)) != token {
			t.Fatalf("subject of %q, trigger of %q", token, got.Account)
		}
		if _, err := domain.ParseAccountID(string(got.Account)); err != nil {
			t.Fatalf("bad account handed on: %v", err)
		}
	})
}
