package domain_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
)

func TestParseTriggerReadsEveryField(t *testing.T) {
	got, err := domain.ParseTrigger([]byte(` {"id":"e-1","account":"acct \"1\" 😀","trigger":"message_sent","key":"m-1","at":"2026-01-01T10:00:00.5+02:00","source":"waha-1",
		"epoch":3,"seq":9223372036854775807,"by":"user","reason":{"code":"515","text":"\u00e9\ud83d\ude00\n"},"data":{"reply_within":60,"deep":{"a":[1,2.5,"x",true,null]},"none":null},
		"expect":0,"machine":"whatsapp@2","mode":"observe","labels":{"pool":"eu","gone":null}} `))
	if err != nil {
		t.Fatal(err)
	}
	want := domain.Trigger{
		ID: "e-1", Account: `acct "1" 😀`, Name: "message_sent", Key: "m-1", At: time.Date(2026, 1, 1, 8, 0, 0, 5e8, time.UTC).UnixNano(), HasAt: true,
		Source: "waha-1", Epoch: 3, Seq: math.MaxInt64, By: domain.ByUser, Reason: domain.Reason{Code: "515", Text: "é😀\n"},
		Data:   domain.Data{"reply_within": int64(60), "deep": map[string]any{"a": []any{int64(1), 2.5, "x", true, nil}}},
		Expect: 0, Machine: "whatsapp@2", Mode: "observe", Labels: map[string]string{"pool": "eu"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("want %#v\n got %#v", want, got)
	}
}

func TestNullIsAbsent(t *testing.T) {
	got, err := domain.ParseTrigger([]byte(`{"id":null,"account":"a","trigger":"start","at":null,"epoch":null,"expect":null,"by":null,"reason":{"code":null},"data":null,"labels":null,"mode":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (domain.Trigger{Account: "a", Name: "start", Expect: domain.NoExpect}); !reflect.DeepEqual(got, want) {
		t.Errorf("want %#v\n got %#v", want, got)
	}
}

// refused are lines that are no triggers, and what the error must say.
var refused = []struct{ name, line, says string }{
	{"nothing", ``, "not JSON"},
	{"a list", `[]`, "want an object"},
	{"not JSON", `{"account":"a"`, "not JSON"},
	{"two objects", `{"account":"a","trigger":"start"}{}`, "follows the object"},
	{"single quotes", `{'account':'a'}`, "not JSON"},
	{"a comma too many", `{"account":"a","trigger":"start",}`, "not JSON"},
	{"bad escape", `{"account":"\x","trigger":"start"}`, "escape"},
	{"half a pair", `{"account":"\ud83d","trigger":"start"}`, "half of a pair"},
	{"bad UTF-8", "{\"account\":\"\xff\",\"trigger\":\"start\"}", "UTF-8"},
	{"raw newline", "{\"account\":\"a\nb\",\"trigger\":\"start\"}", "control character"},
	{"leading zero", `{"account":"a","trigger":"start","epoch":01}`, "number"},
	{"too deep", `{"account":"a","trigger":"start","data":` + strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40) + `}`, "deeper"},

	{"no account", `{"trigger":"start"}`, "account: is missing"},
	{"empty account", `{"account":"","trigger":"start"}`, "account: is missing"},
	{"long account", `{"account":"` + strings.Repeat("x", 129) + `","trigger":"start"}`, "account: has 129 bytes"},
	{"control character", `{"account":"a\u0007","trigger":"start"}`, "account: contains the control character U+0007"},
	{"C1 control character", `{"account":"a\u0085","trigger":"start"}`, "control character"},
	{"delete", `{"account":"a\u007f","trigger":"start"}`, "control character"},
	{"no trigger", `{"account":"a"}`, "trigger: is missing"},

	{"unknown field", `{"account":"a","trigger":"start","colour":1}`, `colour: is not a field`},
	{"wrong case", `{"Account":"a","trigger":"start"}`, "Account: is not a field of a trigger; did you mean account?"},
	{"repeated field", `{"account":"a","trigger":"start","at":"2026-01-01T10:00:00Z","at":"2026-01-01T10:00:00Z"}`, "at: is there twice"},
	{"repeated field after null", `{"account":"a","trigger":"start","seq":null,"seq":1}`, "seq: is there twice"},
	{"repeated inside", `{"account":"a","trigger":"start","data":{"x":1,"x":1}}`, "data.x: is there twice"},
	{"unknown in reason", `{"account":"a","trigger":"start","reason":{"cod":"1"}}`, "reason.cod"},

	{"number for text", `{"account":7,"trigger":"start"}`, "account: want a text, got a number"},
	{"text for number", `{"account":"a","trigger":"start","epoch":"3"}`, "epoch: want an integer from 0 to 9223372036854775807, got a text"},
	{"fraction", `{"account":"a","trigger":"start","seq":1.5}`, "seq: want an integer"},
	{"whole with a point", `{"account":"a","trigger":"start","seq":1.0}`, "seq: want an integer"},
	{"exponent", `{"account":"a","trigger":"start","seq":1e3}`, "seq: want an integer"},
	{"negative", `{"account":"a","trigger":"start","seq":-1}`, "negative"},
	{"too large", `{"account":"a","trigger":"start","seq":9223372036854775808}`, "seq: want an integer"},
	{"expect is no version", `{"account":"a","trigger":"start","expect":-1}`, "expect"},
	{"unix time", `{"account":"a","trigger":"start","at":1767607200}`, "at: want a time as RFC 3339"},
	{"no zone", `{"account":"a","trigger":"start","at":"2026-01-01T10:00:00"}`, "at: want a time as RFC 3339"},
	{"single digit", `{"account":"a","trigger":"start","at":"2026-01-01T1:00:00Z"}`, "at: want a time"},
	{"far year", `{"account":"a","trigger":"start","at":"9999-01-01T10:00:00Z"}`, "at: want a time between"},
	{"by whom", `{"account":"a","trigger":"start","by":"User"}`, "by: want user, us, remote or unknown"},
	{"reason as text", `{"account":"a","trigger":"start","reason":"x"}`, "reason: want an object, got a text"},
	{"reason code as number", `{"account":"a","trigger":"start","reason":{"code":515}}`, "reason.code: want a text"},
	{"data as list", `{"account":"a","trigger":"start","data":[1]}`, "data: want an object, got a list"},
	{"label as number", `{"account":"a","trigger":"start","labels":{"n":1}}`, "labels.n: want a text"},

	{"own trigger", `{"account":"a","trigger":"mark_stuck"}`, "Muster itself"},
	{"own trigger in its name", `{"account":"a","trigger":"settled","source":"muster"}`, "Muster itself"},
	{"own source", `{"account":"a","trigger":"start","source":"muster"}`, "source"},
	{"of an exported history", `{"account":"a","trigger":"start","recorded":"2026-01-01T10:00:00Z"}`, "recorded: is for the lines of an exported history"},
	{"no key", `{"account":"a","trigger":"claim","data":{"message":"m","side":"bot","handler":"h"}}`, "key: is missing"},
	{"adopt without a state", `{"account":"a","trigger":"adopt"}`, "data.state: is missing"},
	{"adopt null", `{"account":"a","trigger":"adopt","data":{"state":null}}`, "data.state: is missing"},
	{"claim without a handler", `{"account":"a","trigger":"claim","key":"c","data":{"message":"m","side":"bot"}}`, "data.handler: is missing"},
	{"claim without a side", `{"account":"a","trigger":"claim","key":"c","data":{"message":"m","handler":"h"}}`, "data.side: is missing"},
	{"wrong side", `{"account":"a","trigger":"claim","key":"c","data":{"message":"m","side":"both","handler":"h"}}`, "data.side: want bot or human"},
	{"customer_message without one", `{"account":"a","trigger":"customer_message","key":"c"}`, "data.message: is missing"},
	{"authority of nobody", `{"account":"a","trigger":"authority","by":"user"}`, "data.source: is missing"},
	{"mode of nothing", `{"account":"a","trigger":"set_mode"}`, "data.mode: is missing"},
	{"unknown mode", `{"account":"a","trigger":"set_mode","data":{"mode":"watch"}}`, "data.mode: want observe or supervise"},
	{"until as number", `{"account":"a","trigger":"rate_limited","data":{"until":5}}`, "data.until: want a time"},
	{"until as words", `{"account":"a","trigger":"banned","data":{"until":"tomorrow"}}`, "data.until: want a time"},
	{"sid_until", `{"account":"a","trigger":"login_succeeded","data":{"sid_until":"x"}}`, "data.sid_until"},
	{"next_seq", `{"account":"a","trigger":"sync_advanced","data":{"next_seq":-4}}`, "data.next_seq"},
	{"full", `{"account":"a","trigger":"sync_completed","data":{"full":"yes"}}`, "data.full: want true or false"},
	{"reply_within", `{"account":"a","trigger":"message_sent","key":"m","data":{"reply_within":1.5}}`, "data.reply_within"},
}

func TestWhatIsNoTrigger(t *testing.T) {
	for _, c := range refused {
		_, err := domain.ParseTrigger([]byte(c.line))
		var bad *domain.InvalidError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: want an error that says %q, got %v", c.name, c.says, err)
		}
	}
}

// A bad field does not hide the others: an answer can name the account.
func TestABadLineStillNamesItsAccount(t *testing.T) {
	got, err := domain.ParseTrigger([]byte(`{"epoch":"x","account":"a","at":"2026-01-01T10:00:00Z","trigger":"start","colour":1}`))
	if err == nil || !strings.Contains(err.Error(), "epoch") {
		t.Errorf("want the first fault, got %v", err)
	}
	if got.Account != "a" || got.Name != "start" || !got.HasAt {
		t.Errorf("got %+v", got)
	}
}

func TestSecretsAreRefused(t *testing.T) {
	for _, key := range strings.Fields(`apikey api_key token access_token refresh_token secret client_secret password authorization cookie qr qrcode qr_code
		pairing_code code_base64 tgt sid session_key sk1 gidtgt private_key credentials creds ApiKey TOKEN Sid`) {
		for _, line := range []string{`{"` + key + `":"x"}`, `{"deep":{"list":[{"` + key + `":1}]}}`} {
			_, err := domain.ParseTrigger([]byte(`{"account":"a","trigger":"start","data":` + line + `}`))
			if err == nil || !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), `"x"`) {
				t.Errorf("%s: want an error that names the key and not the value, got %v", line, err)
			}
		}
	}
	for _, key := range []string{"tokens", "sid_until", "tgt_until", "code", "qr_count", "my_token"} {
		if _, err := domain.ParseTrigger([]byte(`{"account":"a","trigger":"start","data":{"` + key + `":"2026-01-01T10:00:00Z"}}`)); err != nil {
			t.Errorf("%s: only whole keys are refused, got %v", key, err)
		}
	}
	_, err := domain.ParseTrigger([]byte(`{"account":"a","trigger":"start","data":{"token":1,"apikey":1,"sid":1}}`))
	if err == nil || !strings.Contains(err.Error(), "data.apikey") {
		t.Errorf("of several the first is named, got %v", err)
	}
}

func TestIDsOfAllKindsAreAccepted(t *testing.T) {
	for _, id := range []string{"a", "+15550100001", "15550100001@s.whatsapp.net", "wxid_ab", "a.b c*>", "😀", "名", strings.Repeat("x", 128), strings.Repeat("é", 64), " "} {
		if got, err := domain.ParseAccountID(id); err != nil || string(got) != id {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 129), "a\x00", "a\nb", "\x7f", "\u0080", "\xff", "a\xc3"} {
		if _, err := domain.ParseAccountID(id); err == nil {
			t.Errorf("%q: want an error", id)
		}
	}
}

// Msgpack gives other Go types than JSON; the trigger is the same.
func TestTriggerFromMapIsTheSame(t *testing.T) {
	fromMap, err := domain.TriggerFromMap(map[string]any{
		"id": "e", "account": "a", "trigger": "rate_limited", "at": time.Date(2026, 1, 1, 12, 0, 0, 5e8, time.FixedZone("", 7200)), "epoch": uint8(3), "seq": int16(4), "expect": uint64(7),
		"reason": map[any]any{"code": "1"}, "labels": map[string]any{"p": "x"}, "key": nil,
		"data": map[any]any{"until": time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC), "n": int8(-3), "f": float32(0.5), "list": []any{uint16(1), nil}, "none": nil, "big": uint64(1 << 63)},
	})
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, err := domain.ParseTrigger([]byte(`{"id":"e","account":"a","trigger":"rate_limited","at":"2026-01-01T10:00:00.5Z","epoch":3,"seq":4,"expect":7,"reason":{"code":"1"},"labels":{"p":"x"},
		"data":{"until":"2026-01-01T11:00:00Z","n":-3,"f":0.5,"list":[1,null],"big":9223372036854775808}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(fromMap, fromJSON) {
		t.Errorf("from a map %#v\nfrom JSON  %#v", fromMap, fromJSON)
	}
	for name, m := range map[string]map[string]any{
		"unknown field": {"account": "a", "trigger": "start", "x": 1},
		"bytes":         {"account": []byte("a"), "trigger": "start"},
		"bad UTF-8":     {"account": "a", "trigger": "start", "source": "\xff"},
		"uint64":        {"account": "a", "trigger": "start", "seq": uint64(1 << 63)},
		"float":         {"account": "a", "trigger": "start", "seq": 3.0},
		"NaN":           {"account": "a", "trigger": "start", "data": map[string]any{"x": math.NaN()}},
		"data bytes":    {"account": "a", "trigger": "start", "data": map[string]any{"x": []byte{1}}},
		"number keys":   {"account": "a", "trigger": "start", "data": map[any]any{1: 1}},
		"own source":    {"account": "a", "trigger": "start", "source": "muster"},
	} {
		var bad *domain.InvalidError
		if _, err := domain.TriggerFromMap(m); !errors.As(err, &bad) {
			t.Errorf("%s: want an InvalidError, got %v", name, err)
		}
	}
}

func TestAppendJSONIsReadBack(t *testing.T) {
	for _, want := range []domain.Trigger{
		{Account: "a", Name: "start", Expect: domain.NoExpect},
		{ID: "\"\\\x01é😀", Account: "a", Name: "message_sent", Key: "m\n", At: -1, HasAt: true, Source: "s", Epoch: 1, Seq: 2, By: domain.ByUs,
			Reason: domain.Reason{Text: "t"}, Expect: 0, Machine: "whatsapp@2", Mode: "observe", Labels: map[string]string{"b": "1", "a": "2"},
			Data: domain.Data{"f": 2.0, "e": 1e30, "n": int64(-5), "l": []any{nil, "x", map[string]any{"y": false}}}},
	} {
		line := want.AppendJSON(nil)
		if !json.Valid(line) {
			t.Errorf("not JSON: %s", line)
		}
		got, err := domain.ParseTrigger(line)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nwant %#v\n got %#v (%v)", line, want, got, err)
		}
	}
	kept := domain.Trigger{Account: "a", Name: "mark_stuck", Source: "muster", Expect: domain.NoExpect, Recorded: 1_767_261_600_000_000_001}
	if got, err := domain.ParseLine(kept.AppendJSON(nil)); err != nil || !reflect.DeepEqual(got, kept) {
		t.Errorf("%s\nwant %#v\n got %#v (%v)", kept.AppendJSON(nil), kept, got, err)
	}
	if b, err := json.Marshal(&domain.Trigger{Account: "a", Name: "start", Expect: domain.NoExpect}); err != nil || string(b) != `{"account":"a","trigger":"start"}` {
		t.Errorf("got %s (%v)", b, err)
	}
}

func FuzzParseTrigger(f *testing.F) {
	for _, c := range refused {
		f.Add([]byte(c.line))
	}
	f.Add([]byte(`{"id":"e","account":"a","trigger":"claim","key":"c","at":"2026-01-01T10:00:00Z","epoch":1,"data":{"message":"m","side":"bot","handler":"h","x":[1,2.5e3,{"y":null}]},"labels":{"a":"b"}}`))
	f.Add([]byte(`{"account":"\ud83d\ude00","trigger":"start","data":{"a":-0,"b":1E-7,"c":"\/"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := domain.ParseTrigger(line)
		if err != nil {
			var bad *domain.InvalidError
			if !errors.As(err, &bad) || bad.Reason == "" {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		if !json.Valid(line) {
			t.Fatalf("accepted, but encoding/json says it is not JSON: %q", line)
		}
		again, err := domain.ParseTrigger(got.AppendJSON(nil))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("written and read back it is another one (%v):\n%#v\n%#v", err, got, again)
		}
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
	})
}
