package codec_test

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

func TestReaderGivesWhatDecodeGives(t *testing.T) {
	all := readers()
	for range 2 { // the second round meets scratch and interned names
		for name, want := range samples() {
			record, err := codec.Encode(&want)
			if err != nil {
				t.Fatal(err)
			}
			for mode, read := range all {
				e := domain.Event{Account: "left over", Version: 9, Labels: map[string]string{"x": "y"}}
				if err := read(record, &e); err != nil {
					t.Fatalf("%s %s: %v", name, mode, err)
				}
				if !reflect.DeepEqual(e, want) {
					t.Errorf("%s %s:\n got %+v\nwant %+v", name, mode, e, want)
				}
			}
		}
	}
}

// Evolve keeps strings of the event, so what Fold gives must survive
// the record's bytes.
func TestFoldOwnsItsStrings(t *testing.T) {
	want := sessionSample()
	record, err := codec.Encode(&want)
	if err != nil {
		t.Fatal(err)
	}
	var e domain.Event
	if err := codec.NewReader().Fold(record, &e); err != nil {
		t.Fatal(err)
	}
	for i := range record {
		record[i] = 0xc1
	}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("the event changed with the buffer:\n got %+v\nwant %+v", e, want)
	}
}

func TestSkipDataLeavesTheRest(t *testing.T) {
	want := sessionSample()
	record, err := codec.AppendRecord([]byte("before"), &want)
	if err != nil {
		t.Fatal(err)
	}
	r := codec.NewReader()
	r.SkipData = true
	var e domain.Event
	if err := r.Read(record[len("before"):], &e); err != nil {
		t.Fatal(err)
	}
	if want.Data = nil; !reflect.DeepEqual(e, want) {
		t.Errorf("\n got %+v\nwant %+v", e, want)
	}
}

// A caller that knows the account saves the copy of its id.
func TestFoldKeepsAKnownAccount(t *testing.T) {
	sample := markSample()
	record, err := codec.Encode(&sample)
	if err != nil {
		t.Fatal(err)
	}
	r := codec.NewReader()
	for known, kept := range map[domain.AccountID]bool{"acct-2": true, "acct-3": false} {
		e := domain.Event{Account: known}
		if err := r.Fold(record, &e); err != nil {
			t.Fatal(err)
		}
		if e.Account != "acct-2" {
			t.Errorf("known %q: got account %q", known, e.Account)
		}
		if same := unsafe.StringData(string(e.Account)) == unsafe.StringData(string(known)); same != kept {
			t.Errorf("known %q: kept is %v, want %v", known, same, kept)
		}
	}
}
