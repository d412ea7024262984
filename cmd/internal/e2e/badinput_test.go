package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/musterhq/muster/bus"
)

// object is a trigger's body as names and values in turn, so that a name can
// come twice. Values are texts, numbers, lists and objects.
type object []any

// asJSON writes a value as JSON; texts go out byte by byte, whatever they are.
func asJSON(v any) []byte {
	switch v := v.(type) {
	case object:
		return join('{', '}', len(v)/2, func(i int) []byte {
			return append(append(asJSON(v[2*i]), ':'), asJSON(v[2*i+1])...)
		})
	case []any:
		return join('[', ']', len(v), func(i int) []byte { return asJSON(v[i]) })
	case string:
		if !strings.ContainsAny(v, "\\\"\n") {
			return []byte(`"` + v + `"`)
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func join(open, end byte, n int, item func(int) []byte) []byte {
	b := []byte{open}
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item(i)...)
	}
	return append(b, end)
}

// asMsgpack writes a value as msgpack.
func asMsgpack(v any) []byte {
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	var put func(v any)
	put = func(v any) {
		var err error
		switch v := v.(type) {
		case object:
			err = enc.EncodeMapLen(len(v) / 2)
			for _, x := range v {
				put(x)
			}
		case []any:
			err = enc.EncodeArrayLen(len(v))
			for _, x := range v {
				put(x)
			}
		default:
			err = enc.Encode(v)
		}
		if err != nil {
			panic(err)
		}
	}
	put(v)
	return b.Bytes()
}

// badInput is a trigger that must be refused.
type badInput struct {
	name string
	body object
	want string // how the reason begins
}

// badInputs are bodies that are wrong in either form, sent to account x. The
// account "old" is there and has version 1.
var badInputs = []badInput{
	{"no account", object{"account", "", "trigger", "start"}, "account: is missing; every trigger is about an account"},
	{"129 bytes", object{"account", strings.Repeat("x", 129), "trigger", "start"}, "account: has 129 bytes; at most 128 are accepted"},
	{"a control character", object{"account", "a\nb", "trigger", "start"}, "account: contains the control character U+000A"},
	{"another account than the subject's", object{"account", "y", "trigger", "start"}, `the body is about account "y", but the subject is that of "x"`},
	{"no trigger", object{"account", "x"}, "trigger: is missing; say what happened"},
	{"an unknown trigger", object{"account", "x", "trigger", "qr_recieved"}, `trigger: "qr_recieved" is not known; did you mean qr_received?`},
	{"a trigger in capitals", object{"account", "x", "trigger", "START"}, `trigger: "START" is not known; did you mean start?`},
	{"an unknown machine", object{"account", "x", "trigger", "start", "machine", "whatsap@2"}, `machine: "whatsap@2" is not known; did you mean whatsapp@2?`},
	{"a message's machine", object{"account", "x", "trigger", "start", "machine", "message@2"}, "machine: message@2 is a table for a message; an account needs one for a session"},
	{"an unknown mode", object{"account", "x", "trigger", "start", "mode", "watch"}, `mode: want observe or supervise, got "watch"`},
	{"an unknown field", object{"account", "x", "trigger", "start", "epok", 1}, "epok: is not a field of a trigger; did you mean epoch?"},
	{"a field in capitals", object{"account", "x", "trigger", "start", "Source", "a"}, "Source: is not a field of a trigger; did you mean source?"},
	{"a field twice", object{"account", "x", "trigger", "start", "trigger", "stop"}, "trigger: is there twice"},
	{"a field of the data twice", object{"account", "x", "trigger", "start", "data", object{"a", 1, "a", 2}}, "data.a: is there twice"},
	{"a number for an account", object{"account", 5, "trigger", "start"}, "account: want a text, got a number"},
	{"a text for a number", object{"account", "x", "trigger", "start", "epoch", "3"}, "epoch: want an integer from 0 to 9223372036854775807, got a text"},
	{"a negative number", object{"account", "x", "trigger", "start", "seq", -1}, "seq: want an integer from 0 to 9223372036854775807, got a negative one"},
	{"a fraction", object{"account", "x", "trigger", "start", "seq", 1.5}, "seq: want an integer from 0 to 9223372036854775807, got a "},
	{"too large a number", object{"account", "x", "trigger", "start", "expect", uint64(1 << 63)}, "expect: want an integer from 0 to 9223372036854775807, got a "},
	{"no time", object{"account", "x", "trigger", "start", "at", "yesterday"}, "at: want a time as RFC 3339 text, such as 2026-01-01T10:00:00Z, got"},
	{"a list for data", object{"account", "x", "trigger", "start", "data", []any{1}}, "data: want an object, got a list"},
	{"a number for a label", object{"account", "x", "trigger", "start", "labels", object{"a", 1}}, "labels.a: want a text, got a number"},
	{"a text for a reason", object{"account", "x", "trigger", "start", "reason", "515"}, "reason: want an object, got a text"},
	{"an unknown initiator", object{"account", "x", "trigger", "start", "by", "me"}, `by: want user, us, remote or unknown, got "me"`},
	{"a secret", object{"account", "x", "trigger", "start", "data", object{"API_Key", "k"}}, "data.API_Key: is a secret by its name; strip it"},
	{"a secret deep inside", object{"account", "x", "trigger", "start", "data", object{"list", []any{object{"tgt", "k"}}}}, "data.list.tgt: is a secret by its name; strip it"},
	{"no key", object{"account", "x", "trigger", "message_sent"}, "key: is missing; message_sent needs the id of the message"},
	{"a claim of nothing", object{"account", "x", "trigger", "claim", "key", "c", "data", object{"side", "bot", "handler", "h"}}, "data.message: is missing"},
	{"a claim by an unknown side", object{"account", "x", "trigger", "claim", "key", "c", "data", object{"message", "m", "side", "cat", "handler", "h"}}, `data.side: want bot or human, got "cat"`},
	{"a trigger of Muster's own", object{"account", "x", "trigger", "mark_stuck"}, "trigger: mark_stuck is given by Muster itself"},
	{"Muster's own source", object{"account", "x", "trigger", "start", "source", "muster"}, "source: the name muster is Muster's own; give your connector another one"},
}

// TestBadInputOnTheBus sends what is no trigger over NATS, as JSON and as
// msgpack, and as a line of a file with the program. All say the same, and
// nothing is appended.
func TestBadInputOnTheBus(t *testing.T) {
	t.Parallel()
	p := serve(t, "--data", t.TempDir())
	nc := p.connect()
	if r := ask(t, nc, "old", bus.TypeJSON, asJSON(object{"account", "old", "trigger", "start"})); r.Outcome != "applied" {
		t.Fatalf("%+v", r)
	}
	before := sequences(t, nc)
	forms := map[string]func(any) []byte{bus.TypeJSON: asJSON, bus.TypeMsgpack: asMsgpack}
	for form, write := range forms {
		for _, bad := range badInputs {
			r := ask(t, nc, "x", form, write(bad.body))
			if r.code != "400" || r.Outcome != "invalid" || r.Version != 0 || !strings.HasPrefix(r.Reason, bad.want) {
				t.Errorf("%s as %s: %+v, want a reason that begins with %q", bad.name, form, r, bad.want)
			}
		}
	}
	for _, bad := range []struct {
		name, token, form string
		body              []byte
		code, want        string
	}{
		{"129 bytes in the subject", strings.Repeat("x", 129), "", []byte(`{"trigger":"start"}`), "400", "account: has 129 bytes; at most 128 are accepted"},
		{"a control character in the subject", "a=0Ab", "", []byte(`{"trigger":"start"}`), "400", "account: contains the control character U+000A"},
		{"no UTF-8 in the subject", "a=FFb", "", []byte(`{"trigger":"start"}`), "400", "account: is not valid UTF-8"},
		{"no escape in the subject", "a=ZZ", "", []byte(`{"trigger":"start"}`), "400", "=ZZ"},
		{"no body", "x", "", nil, "400", `the body is empty; it is an object such as {"trigger":"start"}`},
		{"another content type", "x", "text/plain", []byte("start"), "415", `content type "text/plain" is not known; send application/json or application/msgpack`},
		{"no JSON", "x", bus.TypeJSON, []byte("start"), "400", "not JSON: want an object, {…}, at byte 1"},
		{"half an object", "x", bus.TypeJSON, []byte(`{"account":"x","trig`), "400", "not JSON: "},
		{"two objects", "x", bus.TypeJSON, []byte(`{"trigger":"start"}{"trigger":"stop"}`), "400", "not JSON: "},
		{"a list", "x", bus.TypeJSON, []byte(`[{"trigger":"start"}]`), "400", "not JSON: want an object, {…}, at byte 1"},
		{"no UTF-8 in JSON", "x", bus.TypeJSON, []byte("{\"account\":\"x\xff\",\"trigger\":\"start\"}"), "400", "not JSON: a text is not valid UTF-8 at byte "},
		{"a thousand levels", "x", bus.TypeJSON, []byte(`{"trigger":"start","data":{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}}`), "400", "nested deeper than"},
		{"half a map", "x", bus.TypeMsgpack, asMsgpack(object{"account", "x", "trigger", "start"})[:20], "400", "not msgpack: the bytes end"},
		{"more than a map", "x", bus.TypeMsgpack, append(asMsgpack(object{"trigger", "start"}), 0xc0), "400", "not msgpack: something follows the map"},
		{"a code that msgpack does not use", "x", bus.TypeMsgpack, []byte{0x81, 0xa7, 't', 'r', 'i', 'g', 'g', 'e', 'r', 0xc1}, "400", "not msgpack: "},
		{"JSON that is called msgpack", "x", bus.TypeMsgpack, []byte(`{"trigger":"start"}`), "400", "not msgpack: want a map at byte 1"},
		{"no UTF-8 in msgpack", "x", bus.TypeMsgpack, asMsgpack(object{"account", "x\xff", "trigger", "start"}), "400", "is not valid UTF-8"},
	} {
		r := ask(t, nc, bad.token, bad.form, bad.body)
		if r.code != bad.code || r.Outcome != "invalid" || !strings.Contains(r.Reason, bad.want) {
			t.Errorf("%s: %+v, want the code %s and %q in the reason", bad.name, r, bad.code, bad.want)
		}
	}
	if r := ask(t, nc, "old", bus.TypeJSON, asJSON(object{"trigger", "stop", "expect", 7})); r.code != "" || r.Outcome != "conflict" || r.Version != 1 ||
		r.Reason != "version 7 was expected, the account is at 1" {
		t.Errorf("a wrong version: %+v", r)
	}
	badLines(t, p)
	if after := sequences(t, nc); !maps.Equal(after, before) {
		t.Errorf("bad input was appended: the streams end at %v, and ended at %v", after, before)
	}
	if r := ask(t, nc, "old", bus.TypeMsgpack, asMsgpack(object{"trigger", "stop", "expect", 1})); r.Outcome != "applied" || r.Version != 2 {
		t.Errorf("a good trigger after all the bad ones: %+v", r)
	}
}

// badLines sends the same bodies as a file, to the program.
func badLines(t *testing.T, p *proc) {
	t.Helper()
	var file strings.Builder
	want := 0
	for _, bad := range badInputs {
		if strings.HasPrefix(bad.want, "the body is about") { // a line has no subject
			continue
		}
		want++
		file.Write(append(asJSON(bad.body), '\n'))
	}
	out, stderr, code := muster(t, file.String(), "send", "--file", "-", "--keep-going", "--server", "nats://"+p.nats)
	if code != 2 || strings.Count(out, `"outcome":"invalid"`) != want || strings.Count(out, "\n") != want {
		t.Errorf("a file of bad lines: exit %d, %s%s", code, out, stderr)
	}
	line := 0
	for _, bad := range badInputs {
		if strings.HasPrefix(bad.want, "the body is about") {
			continue
		}
		line++
		if say := fmt.Sprintf("muster: -:%d: %s", line, bad.want); !strings.Contains(stderr, say) {
			t.Errorf("%s: %q is missing in\n%s", bad.name, say, stderr)
		}
	}
}

// answered is the answer to a command.
type answered struct {
	reply
	code string // of the micro error; "" = none
}

// ask sends a body in a form ("": not named) to an account's token.
func ask(t *testing.T, nc *nats.Conn, token, form string, body []byte) (a answered) {
	t.Helper()
	m := &nats.Msg{Subject: "muster.cmd." + token, Data: body, Header: nats.Header{}}
	if form != "" {
		m.Header.Set("Content-Type", form)
	}
	r, err := nc.RequestMsg(m, 10*time.Second)
	if err != nil {
		t.Fatalf("ask %s: %v", m.Subject, err)
	}
	a.code = r.Header.Get("Nats-Service-Error-Code")
	if form == bus.TypeMsgpack {
		dec := msgpack.NewDecoder(bytes.NewReader(r.Data))
		dec.SetCustomStructTag("json")
		var fields map[string]any
		if err := dec.Decode(&fields); err != nil {
			t.Fatalf("the answer is no msgpack: %v: %q", err, r.Data)
		}
		if r.Data, err = json.Marshal(fields); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(r.Data, &a.reply); err != nil {
		t.Fatalf("the answer is no verdict: %v: %q", err, r.Data)
	}
	return a
}

// sequences are the last sequences of the log's streams.
func sequences(t *testing.T, nc *nats.Conn) map[string]uint64 {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	list := js.ListStreams(t.Context(), jetstream.WithStreamListSubject("muster.ev.>"))
	for info := range list.Info() {
		out[info.Config.Name] = info.State.LastSeq
	}
	if err := list.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%d streams: %v", len(out), err)
	}
	return out
}

// TestAPayloadThatIsTooLarge sends more than a message can hold, in every way
// that there is.
func TestAPayloadThatIsTooLarge(t *testing.T) {
	t.Parallel()
	p := serve(t, "--data", t.TempDir())
	nc := p.connect()
	before := sequences(t, nc)
	line := func(size int) string {
		return `{"account":"big","trigger":"start","data":{"pad":"` + strings.Repeat("x", size-55) + `"}}`
	}
	for _, c := range []struct {
		size int
		want string
	}{
		{2 << 20, "-:1: the message has 2097"},
		{1<<20 - 60, "the log takes 1048320 at most; send less data"}, // as a message it fits; its record, which says more, does not
	} {
		out, stderr, code := muster(t, line(c.size), "send", "--file", "-", "--server", "nats://"+p.nats)
		if code != 2 || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "at most") {
			t.Errorf("%d bytes: exit %d, %q, %s", c.size, code, out, stderr)
		}
	}
	conn, err := net.Dial("tcp", p.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	in := bufio.NewReader(conn)
	if _, err := in.ReadString('\n'); err != nil { // INFO
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "CONNECT {\"verbose\":false}\r\nPUB muster.cmd.big %d\r\n", 2<<20)
	if said, err := in.ReadString('\n'); err != nil || !strings.Contains(said, "Maximum Payload") {
		t.Errorf("a client that does not look at the limit is told %q (%v)", said, err)
	}
	if after := sequences(t, nc); !maps.Equal(after, before) {
		t.Errorf("too much was appended: the streams end at %v, and ended at %v", after, before)
	}
}
