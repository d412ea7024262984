package codec_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/musterhq/muster/eventlog/codec"
)

var update = flag.Bool("update", false, "write golden files that do not exist yet; an existing one is never changed")

// A record in a log is there for ever, so an encoding that changes, and a
// decoder that reads an old golden file differently, are both faults. There is
// one folder of golden files per record version; those of old versions stay
// and are still read.
func TestGoldenRecords(t *testing.T) {
	for name, event := range samples() {
		t.Run(name, func(t *testing.T) {
			got, err := codec.Encode(&event)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", fmt.Sprintf("v%d", codec.Version), name+".msgpack")
			want, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) && *update {
				writeNew(t, path, got)
				return
			}
			if err != nil {
				t.Fatalf("%v (a new kind: run go test -update)", err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s would be written differently now; records in logs cannot change, so make a new record version\n got %x\nwant %x", path, got, want)
			}
			back, err := codec.Decode(want)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, event) {
				t.Errorf("%s decodes to\n%+v\nwant\n%+v", path, back, event)
			}
		})
	}
}

func writeNew(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
}

// Without this a field that was added to the event and forgotten in the record
// would pass every other test.
func TestSamplesSetEveryField(t *testing.T) {
	set := map[string]bool{}
	for _, e := range samples() {
		v := reflect.ValueOf(e)
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				set[v.Type().Field(i).Name] = true
			}
		}
	}
	typ := reflect.TypeOf(sessionSample())
	for i := range typ.NumField() {
		if name := typ.Field(i).Name; !set[name] {
			t.Errorf("no sample sets Event.%s", name)
		}
	}
}
