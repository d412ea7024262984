package codec_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

func addGoldens(f *testing.F, pattern string) {
	f.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// FuzzReader holds the two readers of a record to each other, and what they
// read to what would be written.
func FuzzReader(f *testing.F) {
	addGoldens(f, "testdata/v*/*.msgpack")
	f.Fuzz(func(t *testing.T, record []byte) {
		record = record[:len(record):len(record)] // a step beyond the end is a panic
		want, err := codec.Decode(record)
		for _, read := range readers() {
			var e domain.Event
			switch err2 := read(record, &e); {
			case (err == nil) != (err2 == nil):
				t.Fatalf("Decode says %v, Reader says %v", err, err2)
			case err == nil && !reflect.DeepEqual(e, want):
				t.Fatalf("Decode gives\n%+v, Reader gives\n%+v", want, e)
			}
		}
		sameBrief(t, record, want.Account)
		if err != nil {
			return
		}
		again, err := codec.Encode(&want)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		back, err := codec.Decode(again)
		if err != nil || !reflect.DeepEqual(back, want) {
			t.Fatalf("written and read again (%v)\n got %+v\nwant %+v", err, back, want)
		}
	})
}
