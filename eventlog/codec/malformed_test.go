package codec_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

// raw encodes keys and values in the order given.
func raw(t *testing.T, kv ...any) []byte {
	t.Helper()
	var b strings.Builder
	enc := msgpack.NewEncoder(&b)
	if err := enc.EncodeMapLen(len(kv) / 2); err != nil {
		t.Fatal(err)
	}
	for _, x := range kv {
		if err := enc.Encode(x); err != nil {
			t.Fatal(err)
		}
	}
	return []byte(b.String())
}

// least is the smallest record; with adds keys to it.
func least(with ...any) []any {
	return append([]any{"v", 1, "n", 1, "a", "x", "k", 1, "t", "start", "o", 1}, with...)
}

// ending replaces the last value, a number of one byte, by these bytes.
func ending(record []byte, last ...byte) []byte {
	return append(record[:len(record)-1], last...)
}

type depth int

// EncodeMsgpack writes lists within lists.
func (d depth) EncodeMsgpack(enc *msgpack.Encoder) error {
	for range d {
		if err := enc.EncodeArrayLen(1); err != nil {
			return err
		}
	}
	return enc.EncodeNil()
}

func TestWhatReadersTakeAndRefuse(t *testing.T) {
	good := map[string][]byte{
		"the least":               raw(t, least()...),
		"another order":           raw(t, "v", 1, "o", 1, "t", "start", "k", 1, "a", "x", "n", 1),
		"wide numbers":            raw(t, least("at", int64(-5), "w", uint64(math.MaxUint64), "ep", uint64(5))...),
		"a key nobody knows":      raw(t, least("zz", map[string]any{"a": []any{1, "b", []byte{1}}}, "zz", 2)...),
		"an unknown key in cs":    raw(t, least("cs", []any{map[string]any{"n": "stuck", "z": []any{1}}})...),
		"empty maps and lists":    raw(t, least("d", map[string]any{}, "cs", []any{}, "ce", []any{}, "lb", map[string]any{})...),
		"a float of 32 bits":      raw(t, least("d", map[string]any{"f": float32(0.5)})...),
		"data 32 levels deep":     raw(t, least("d", map[string]any{"x": depth(31)})...),
		"unknown, 32 levels deep": raw(t, least("zz", depth(31))...),
	}
	for name, record := range good {
		if err := readAll(t, record); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := map[string][]byte{
		"nothing":                 {},
		"no map":                  {0xa1, 'v'},
		"an empty map":            {0x80},
		"the version is second":   raw(t, "n", 1, "v", 1, "a", "x", "k", 1, "t", "start", "o", 1),
		"version 0":               raw(t, "v", 0, "n", 1, "a", "x", "k", 1, "t", "start", "o", 1),
		"no account":              raw(t, "v", 1, "n", 1, "k", 1, "t", "start", "o", 1),
		"an empty account":        raw(t, "v", 1, "n", 1, "a", "", "k", 1, "t", "start", "o", 1),
		"number 0":                raw(t, "v", 1, "n", 0, "a", "x", "k", 1, "t", "start", "o", 1),
		"kind 7":                  raw(t, "v", 1, "n", 1, "a", "x", "k", 7, "t", "start", "o", 1),
		"kind 257":                raw(t, "v", 1, "n", 1, "a", "x", "k", 257, "t", "start", "o", 1),
		"a duplicate":             raw(t, "v", 1, "n", 1, "a", "x", "k", 1, "t", "start", "o", 5),
		"a number as text":        raw(t, least("f", 5)...),
		"text as a number":        raw(t, least("at", "5")...),
		"nil as text":             raw(t, least("f", nil)...),
		"bytes as text":           raw(t, least("f", []byte("x"))...),
		"a float as a number":     raw(t, least("at", 5.0)...),
		"a negative number":       raw(t, least("w", -1)...),
		"a number beyond int64":   raw(t, least("at", uint64(math.MaxInt64+1))...),
		"effects beyond 32 bits":  raw(t, least("fx", uint64(1<<32))...),
		"a hash of 15 bytes":      raw(t, least("ph", make([]byte, 15))...),
		"a hash as text":          raw(t, least("ph", strings.Repeat("x", 16))...),
		"a repeated key":          raw(t, least("f", "A", "f", "B")...),
		"a repeated condition":    ending(raw(t, least("cs", 0)...), 0x91, 0x82, 0xa1, 'n', 0xa1, 'a', 0xa1, 'n', 0xa1, 'b'),
		"a repeated data key":     ending(raw(t, least("d", 0)...), 0x82, 0xa1, 'x', 1, 0xa1, 'x', 2),
		"a key that is a number":  raw(t, least(5, 5)...),
		"bytes in data":           raw(t, least("d", map[string]any{"b": []byte{1}})...),
		"not a number in data":    raw(t, least("d", map[string]any{"b": math.NaN()})...),
		"data 33 levels deep":     raw(t, least("d", map[string]any{"x": depth(32)})...),
		"unknown, 33 levels deep": raw(t, least("zz", depth(32))...),
		"a byte behind it":        append(raw(t, least()...), 0xc0),
		"a length without bytes":  ending(raw(t, least("f", 0)...), 0xdb, 0xff, 0xff, 0xff, 0xff),
		"a list without elements": ending(raw(t, least("cs", 0)...), 0xdd, 0xff, 0xff, 0xff, 0xff),
	}
	for name, record := range bad {
		if err := readAll(t, record); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s: got %v, want ErrMalformed", name, err)
		}
	}
}

// readAll reads a record in every way and fails the test when they disagree.
func readAll(t *testing.T, record []byte) error {
	t.Helper()
	_, err := codec.Decode(record)
	for _, read := range readers() {
		var e domain.Event
		err2 := read(record, &e)
		if (err == nil) != (err2 == nil) || errors.Is(err, codec.ErrMalformed) != errors.Is(err2, codec.ErrMalformed) {
			t.Errorf("Decode says %v, Reader says %v, of %x", err, err2, record)
		}
	}
	return err
}

func TestEveryTruncationIsRefused(t *testing.T) {
	for name, e := range samples() {
		record, err := codec.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		for n := range record {
			if err := readAll(t, record[:n:n]); err == nil {
				t.Fatalf("%s: the first %d of %d bytes are taken for a record", name, n, len(record))
			}
		}
	}
}

func TestNewerRecordVersionSaysWhatToDo(t *testing.T) {
	record := raw(t, "v", 2, "n", []any{"other", "types"})
	err := readAll(t, record)
	if !errors.Is(err, codec.ErrRecordVersion) || errors.Is(err, codec.ErrMalformed) {
		t.Fatalf("got %v, want ErrRecordVersion", err)
	}
	var ve *codec.VersionError
	if !errors.As(err, &ve) || ve.Got != 2 {
		t.Errorf("got %#v, want a VersionError with 2", ve)
	}
	if want := "record version 2 was written by a newer Muster; upgrade"; !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
}

func TestEncodeRefusesWhatCannotBeRead(t *testing.T) {
	deep := map[string]any{}
	for range 33 {
		deep = map[string]any{"x": deep}
	}
	for name, change := range map[string]func(*domain.Event){
		"no account":         func(e *domain.Event) { e.Account = "" },
		"version 0":          func(e *domain.Event) { e.Version = 0 },
		"no kind":            func(e *domain.Event) { e.Kind = 0 },
		"no trigger":         func(e *domain.Event) { e.Trigger = "" },
		"never appended":     func(e *domain.Event) { e.Outcome = domain.Duplicate },
		"an int":             func(e *domain.Event) { e.Data = domain.Data{"x": 1} },
		"Data within Data":   func(e *domain.Event) { e.Data = domain.Data{"x": domain.Data{}} },
		"an infinite number": func(e *domain.Event) { e.Data = domain.Data{"x": []any{math.Inf(1)}} },
		"too deep":           func(e *domain.Event) { e.Data = deep },
	} {
		e := sessionSample()
		change(&e)
		got, err := codec.AppendRecord([]byte("before"), &e)
		if !errors.Is(err, codec.ErrUnencodable) || string(got) != "before" {
			t.Errorf("%s: got %q, %v; want ErrUnencodable and nothing appended", name, got, err)
		}
	}
}
