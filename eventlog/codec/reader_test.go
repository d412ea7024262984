package codec_test

import (
	"reflect"
	"testing"

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
