package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

// fromJSON writes a JSON text as msgpack: integers as integers, other numbers
// as float64.
func fromJSON(t testing.TB, text string) []byte {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.SetSortMapKeys(true)
	enc.UseCompactInts(true)
	if err := enc.Encode(numbers(t, v)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func numbers(t testing.TB, v any) any {
	t.Helper()
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return f
	case []any:
		for i := range v {
			v[i] = numbers(t, v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(t, v[k])
		}
	}
	return v
}

var triggerTexts = []string{
	`{"account":"acct-1","trigger":"start"}`,
	`{"id":"i-1","account":"acct-1","trigger":"message_sent","key":"m-1","at":"2026-01-01T10:00:00.123456789Z","source":"waha-1","epoch":3,"seq":17,
	  "by":"user","reason":{"code":"515","text":"restart required"},"data":{},"expect":5,"machine":"whatsapp@2","mode":"observe","labels":{"pool":"eu"}}`,
	`{"account":"+15550100001","trigger":"restricted","at":"2026-01-01T10:00:00+02:00","data":{"scope":"groups","until":"2026-01-01T11:00:00Z"}}`,
	`{"account":"🙂","trigger":"start","data":{"a":[1,-1,2.5,1e3,true,false,null,"x",[],{}],"b":{"c":{"d":null,"e":9223372036854775807}}}}`,
	`{"account":"acct-1","trigger":"start","data":{"big":18446744073709551615}}`,
	`{"account":"acct-1","trigger":"start","id":null,"data":null,"labels":{},"epoch":0}`,
}

func TestTriggerIsTheSameInJSONAndMsgpack(t *testing.T) {
	for _, text := range triggerTexts {
		want, err := domain.ParseTrigger([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := codec.TriggerFromMsgpack(fromJSON(t, text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nmsgpack %+v\n   JSON %+v", text, got, want)
		}
	}
}

func TestBadTriggersAreRefusedAlike(t *testing.T) {
	for text, field := range map[string]string{
		`{"trigger":"start"}`:                                          "account",
		`{"account":"a"}`:                                              "trigger",
		`{"account":5,"trigger":"start"}`:                              "account",
		`{"account":"a","trigger":"start","epoch":"3"}`:                "epoch",
		`{"account":"a","trigger":"start","epoch":1.5}`:                "epoch",
		`{"account":"a","trigger":"start","seq":-1}`:                   "seq",
		`{"account":"a","trigger":"start","at":5}`:                     "at",
		`{"account":"a","trigger":"start","at":"yesterday"}`:           "at",
		`{"account":"a","trigger":"start","acount":"b"}`:               "acount",
		`{"account":"a","trigger":"start","data":{"x":{"token":"t"}}}`: "data.x.token",
		`{"account":"a","trigger":"start","reason":{"kode":"1"}}`:      "reason.kode",
		`{"account":"a","trigger":"start","labels":{"pool":1}}`:        "labels.pool",
		`{"account":"a","trigger":"start","by":"me"}`:                  "by",
		`{"account":"a","trigger":"start","source":"muster"}`:          "source",
		`{"account":"a","trigger":"mark_stuck"}`:                       "trigger",
	} {
		_, err := domain.ParseTrigger([]byte(text))
		var inJSON *domain.InvalidError
		if !errors.As(err, &inJSON) || inJSON.Field != field {
			t.Errorf("%s: JSON gives %v, want an InvalidError for %q", text, err, field)
			continue
		}
		_, err = codec.TriggerFromMsgpack(fromJSON(t, text))
		var inMsgpack *domain.InvalidError
		if !errors.As(err, &inMsgpack) || *inMsgpack != *inJSON {
			t.Errorf("%s: msgpack gives %v, want %v", text, err, inJSON)
		}
	}
}

func TestTriggerMsgpackIsStrict(t *testing.T) {
	start := []any{"account", "acct-1", "trigger", "start"}
	with := func(kv ...any) []byte { return raw(t, append(start[:4:4], kv...)...) }
	deep := any("x")
	for range 31 {
		deep = []any{deep}
	}
	tests := []struct {
		name  string
		body  []byte
		field string
		says  string
	}{
		{"nothing", nil, "", "not msgpack"},
		{"JSON", []byte(`{"account":"a"}`), "", "not msgpack: want a map at byte 1"},
		{"a list", []byte{0x91, 0xc0}, "", "not msgpack: want a map at byte 1"},
		{"cut off", with("id", "abc")[:20], "", "not msgpack: the bytes end at byte"},
		{"a byte behind it", append(with(), 0xc0), "", "something follows the map"},
		{"a field twice", with("id", "a", "id", "b"), "id", "is there twice"},
		{"a data key twice", ending(with("data", 0), 0x81, 0xa1, 'd', 0x82, 0xa1, 'x', 1, 0xa1, 'x', 2), "data.d.x", "is there twice"},
		{"a number as a field", with(5, 5), "", "not msgpack: no text at byte"},
		{"a number as a data key", ending(with("data", 0), 0x81, 1, 1), "", "not msgpack: no text at byte"},
		{"bytes as text", with("id", []byte("abc")), "id", "got bytes"},
		{"bytes in data", with("data", map[string]any{"x": []byte("abc")}), "data.x", "got bytes"},
		{"no number", with("data", map[string]any{"x": math.NaN()}), "data.x", "not finite"},
		{"infinite", with("data", map[string]any{"x": math.Inf(-1)}), "data.x", "not finite"},
		{"an epoch beyond int64", with("epoch", uint64(math.MaxInt64+1)), "epoch", "want an integer"},
		{"a whole float as a number", with("epoch", 5.0), "epoch", "want an integer"},
		{"text that is not UTF-8", with("key", "\xff"), "key", "not valid UTF-8"},
		{"a data key that is not UTF-8", with("data", map[string]any{"\xff": 1}), "data", "not valid UTF-8"},
		{"too deep", with("data", map[string]any{"x": deep}), "data.x", "nested deeper than 32 levels"},
		{"an unknown extension", ending(with("at", 0), 0xd4, 5, 0), "", "an extension that is not a time"},
		{"a time of 16 bytes", ending(with("at", 0), append([]byte{0xd8, 0xff}, make([]byte, 16)...)...), "", "an extension that is not a time"},
		{"two billion nanoseconds", ending(with("at", 0), 0xd7, 0xff, 0xff, 0xff, 0xff, 0xfc, 0, 0, 0, 0), "", "an extension that is not a time"},
		{"a length without bytes", ending(with("id", 0), 0xdb, 0xff, 0xff, 0xff, 0xff), "", "the bytes end"},
		{"a list without elements", ending(with("data", 0), 0xdd, 0xff, 0xff, 0xff, 0xff), "", "the bytes end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := codec.TriggerFromMsgpack(tt.body)
			var invalid *domain.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != tt.field || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("got %v, want an InvalidError for field %q that says %q", err, tt.field, tt.says)
			}
			if len(tt.body) > 22 && got.Account != "acct-1" {
				t.Errorf("the account was readable, got %q", got.Account)
			}
		})
	}
}

func TestTriggerTimesMayBeTimestamps(t *testing.T) {
	for _, at := range []time.Time{
		time.Unix(1767261600, 0), time.Unix(1767261600, 123456789), time.Unix(1<<34, 5), time.Unix(-86400, 999999999),
	} {
		if at.Year() > 2200 {
			at = at.AddDate(-400, 0, 0)
		}
		body := raw(t, "account", "acct-1", "trigger", "restricted", "at", at, "data", map[string]any{"until": at.Add(time.Hour)})
		got, err := codec.TriggerFromMsgpack(body)
		if err != nil {
			t.Errorf("%v: %v", at, err)
			continue
		}
		if got.At != at.UnixNano() || got.Data["until"] != at.Add(time.Hour).UTC().Format(time.RFC3339Nano) {
			t.Errorf("%v: got %d and until %v", at, got.At, got.Data["until"])
		}
	}
}

// anyTrigger makes any trigger that a Go client may send.
func anyTrigger(t *rapid.T) domain.Trigger {
	text := rapid.StringN(0, 20, 100)
	tr := domain.Trigger{
		ID: text.Draw(t, "id"), Account: domain.AccountID(rapid.StringMatching(`[a-z0-9+@.]{1,30}`).Draw(t, "account")),
		Name: rapid.SampledFrom([]string{"start", "stop", "qr_received", "logout", "connection_ready"}).Draw(t, "name"),
		Key:  text.Draw(t, "key"), Source: rapid.SampledFrom([]string{"", "waha-1", "cli"}).Draw(t, "source"),
		Epoch: rapid.Int64Min(0).Draw(t, "epoch"), Seq: rapid.Int64Min(0).Draw(t, "seq"),
		By:     rapid.SampledFrom([]domain.Initiator{"", domain.ByUser, domain.ByUs, domain.ByRemote, domain.ByUnknown}).Draw(t, "by"),
		Reason: domain.Reason{Code: text.Draw(t, "code"), Text: text.Draw(t, "text")},
		Expect: rapid.Int64Min(-1).Draw(t, "expect"), Machine: text.Draw(t, "machine"),
		Mode: rapid.SampledFrom([]string{"", domain.ModeObserve, domain.ModeSupervise}).Draw(t, "mode"),
	}
	if rapid.Bool().Draw(t, "has at") {
		tr.At, tr.HasAt = rapid.Int64Range(-8e18, 7e18).Draw(t, "at"), true
	}
	if m := rapid.MapOfN(text, text, 0, 3).Draw(t, "labels"); len(m) > 0 {
		tr.Labels = m
	}
	if m := rapid.MapOfN(rapid.StringMatching(`x_[a-z]{1,5}`), noNull(3), 0, 4).Draw(t, "data"); len(m) > 0 {
		tr.Data = m
	}
	return tr
}

// noNull makes values of data whose maps have no null, since null means absent.
func noNull(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		v := anyValue(0).Filter(func(v any) bool { return v != nil }).Draw(t, "value")
		if depth == 0 {
			return v
		}
		switch rapid.IntRange(0, 2).Draw(t, "shape") {
		case 1:
			return []any{v, noNull(depth-1).Draw(t, "element")}
		case 2:
			return map[string]any{"x_" + rapid.String().Draw(t, "key"): noNull(depth-1).Draw(t, "member")}
		}
		return v
	})
}

func TestAnyTriggerSurvivesMsgpack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyTrigger(t)
		b, err := codec.AppendTrigger([]byte("before"), &want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := codec.TriggerFromMsgpack(bytes.TrimPrefix(b, []byte("before")))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
		}
	})
}

func TestAppendTriggerRefusesWhatIsNoData(t *testing.T) {
	tr := domain.Trigger{Account: "acct-1", Name: "start", Expect: domain.NoExpect, Data: domain.Data{"x": struct{}{}}}
	got, err := codec.AppendTrigger([]byte("before"), &tr)
	if !errors.Is(err, codec.ErrUnencodable) || string(got) != "before" || !strings.Contains(err.Error(), `data "x"`) {
		t.Errorf("got %q, %v; want ErrUnencodable naming the field", got, err)
	}
}

// FuzzTriggerFromMsgpack looks for bytes that crash the reader, that are
// accepted though msgpack/v5 cannot read them, or whose trigger is another one
// when it is written and read again.
func FuzzTriggerFromMsgpack(f *testing.F) {
	for _, text := range triggerTexts {
		f.Add(fromJSON(f, text))
	}
	f.Add(marshal(f, map[string]any{"account": "a", "trigger": "start", "at": time.Unix(1767261600, 5)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := codec.TriggerFromMsgpack(b[:len(b):len(b)])
		if err != nil {
			var invalid *domain.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("not an InvalidError: %v", err)
			}
			return
		}
		var generic map[string]any
		if err := msgpack.Unmarshal(b, &generic); err != nil {
			t.Fatalf("msgpack/v5 cannot read it: %v", err)
		}
		again, err := codec.AppendTrigger(nil, &tr)
		if err != nil {
			t.Fatal(err)
		}
		back, err := codec.TriggerFromMsgpack(again)
		if err != nil || !reflect.DeepEqual(back, tr) {
			t.Fatalf("written and read again (%v)\n got %+v\nwant %+v", err, back, tr)
		}
	})
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func BenchmarkTriggerFromMsgpack(b *testing.B) {
	body := fromJSON(b, triggerTexts[1])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := codec.TriggerFromMsgpack(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendTrigger(b *testing.B) {
	tr, err := domain.ParseTrigger([]byte(triggerTexts[1]))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		if buf, err = codec.AppendTrigger(buf[:0], &tr); err != nil {
			b.Fatal(err)
		}
	}
}
