package bus

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/musterhq/muster/domain"
)

func TestReplyJSON(t *testing.T) {
	r := Reply{
		Verdict: domain.Verdict{
			Account: "a\"\\\n\x01\x7f🤖\xffz", Key: "k", Trigger: "claim", Outcome: domain.Rejected, From: "BOT", To: "BOT", Version: 7,
			Source: "is not told", Reason: "ended",
		},
		Partition: 3, Seq: 123,
	}
	const want = `{"account":"a\"\\\u000a\u0001\u007f🤖\ufffdz","key":"k","trigger":"claim","outcome":"rejected","from":"BOT","to":"BOT",` +
		`"version":7,"reason":"ended","as_of":{"3":123}}`
	if got := string(r.AppendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, v := range []any{r, &r} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, []byte(want)) {
			t.Errorf("json.Marshal of a %T gives %s", v, b)
		}
	}
	var back Reply
	if err := json.Unmarshal([]byte(want), &back); err != nil || back.Reason != "ended" || back.Seq != 123 {
		t.Errorf("json.Unmarshal gives %+v, %v", back, err)
	}
	r.Partition = -1
	if got := string(r.AppendJSON([]byte("x"))); !strings.HasPrefix(got, `x{"account"`) || !strings.HasSuffix(got, `"as_of":{}}`) {
		t.Errorf("got %s", got)
	}
}

// replies are verdicts with texts and numbers at the borders of their msgpack forms.
func replies() []Reply {
	var rs []Reply
	for _, n := range []int{0, 1, 31, 32, 255, 256, 65535, 65536} {
		rs = append(rs, Reply{Verdict: domain.Verdict{Account: "a", Outcome: domain.Applied, Reason: strings.Repeat("é", n/2) + strings.Repeat("x", n%2)}})
	}
	for _, v := range []uint64{0, 127, 128, math.MaxUint32, math.MaxUint32 + 1, math.MaxUint64} {
		rs = append(rs, Reply{Verdict: domain.Verdict{Account: "a", Outcome: domain.Noop, Version: v}, Partition: 99, Seq: v})
	}
	rs = append(rs, Reply{Verdict: domain.Verdict{Outcome: domain.Duplicate, Earlier: domain.Rejected}, Partition: 1})
	return append(rs, Reply{Verdict: domain.Verdict{Outcome: domain.Invalid}, Partition: -1})
}

func TestReplyThereAndBack(t *testing.T) {
	for _, r := range replies() {
		packed := r.AppendMsgpack(nil)
		for _, b := range [][]byte{packed, r.AppendJSON(nil)} {
			got, err := ParseReply(b)
			if err != nil {
				t.Fatalf("%.60q: %v", b, err)
			}
			if got != r {
				t.Errorf("got %+v, want %+v", got, r)
			}
		}
		if got, ok := unpackFast(packed); !ok || got != r {
			t.Errorf("the fast way gives %+v, %v", got, ok)
		}
		// What any other decoder makes of it.
		var fields map[string]any
		if err := msgpack.Unmarshal(packed, &fields); err != nil {
			t.Fatal(err)
		}
		names := 9
		if r.Earlier != 0 {
			names = 10
		}
		if len(fields) != names || fields["earlier"] != nil && fields["earlier"] != r.Earlier.String() || fields["reason"] != r.Reason || fields["outcome"] != r.Outcome.String() {
			t.Errorf("msgpack holds %v", fields)
		}
	}
}

func TestParseReplyErrors(t *testing.T) {
	for _, text := range []string{"", "{", `{"outcome":"maybe"}`, `{"outcome":"noop","as_of":{"x":1}}`, `{"outcome":"noop","as_of":{"-1":1}}`, "\x81", "\xde", "\x81\xa1a"} {
		if r, err := ParseReply([]byte(text)); err == nil {
			t.Errorf("%q gives %+v", text, r)
		}
	}
	r, err := ParseReply([]byte(`{"outcome":"noop","from_the_future":[1]}`))
	if err != nil || r.Outcome != domain.Noop {
		t.Errorf("an unknown name: %+v, %v", r, err)
	}
}

func TestSubjects(t *testing.T) {
	tests := []struct{ got, want string }{
		{CommandSubject("a.b"), "muster.cmd.a=2Eb"},
		{InboxSubject("a.b"), "muster.in.a=2Eb"},
		{FeedSubject("a.b"), "muster.feed.a=2Eb"},
		{QuerySubject("accounts.get"), "muster.q.accounts.get"},
		{OwnerSubject(3, "a=2Eb"), "muster.own.03.a=2Eb"},
		{OwnerSubjects(12), "muster.own.12.*"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
	if a, err := AccountOf("muster.own.03.a=2Eb"); err != nil || a != "a.b" {
		t.Errorf("account %q, %v", a, err)
	}
}

func TestSemver(t *testing.T) {
	for in, want := range map[string]string{
		"1.2.3": "1.2.3", "v1.2.3": "1.2.3", "v0.1.0-3-gabcdef": "0.1.0-3-gabcdef", "": "0.0.0-dev", "devel": "0.0.0-dev", "1.2": "0.0.0-dev",
	} {
		if got := semver(in); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

// FuzzParseReply: the fast way gives what the general one gives, or nothing.
func FuzzParseReply(f *testing.F) {
	for _, r := range replies() {
		if len(r.Reason) < 300 {
			f.Add(r.AppendMsgpack(nil))
			f.Add(r.AppendJSON(nil))
		}
	}
	f.Add([]byte("\x81\xa5as_of\x82\xa11\x01\xa12\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fast, ok := unpackFast(b)
		if _, err := ParseReply(b); err != nil && ok {
			t.Fatal("only the fast way reads it")
		}
		if !ok {
			return
		}
		var w wireReply
		if err := unpackReply(b, &w); err != nil {
			t.Fatalf("the general way: %v", err)
		}
		if slow, err := w.reply(); err != nil || slow != fast {
			t.Fatalf("fast %+v, general %+v, %v", fast, slow, err)
		}
	})
}
