package wire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// write writes one of everything.
func write(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	w.Uint(math.MaxUint64)
	w.Int(math.MinInt64)
	w.Int(math.MaxInt64)
	w.Bool(true)
	w.Float(-0.25)
	w.String("état")
	w.Strings([]string{"a", "", strings.Repeat("b", 200_000)})
	w.Bytes([]byte{1, 2})
	w.Ints([]int64{-1, 0, 1 << 40})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(r *Reader) (ok bool) {
	ok = r.Uint() == math.MaxUint64
	ok = r.Int() == math.MinInt64 && ok
	ok = r.Int() == math.MaxInt64 && ok
	ok = r.Bool() && ok
	ok = r.Float() == -0.25 && ok
	ok = r.String() == "état" && ok
	list := r.Strings()
	ok = ok && len(list) == 3 && list[0] == "a" && list[1] == "" && len(list[2]) == 200_000
	ok = bytes.Equal(r.Bytes(), []byte{1, 2}) && ok
	return slices.Equal(r.Ints(), []int64{-1, 0, 1 << 40}) && ok
}

func TestRoundTrip(t *testing.T) {
	b := bytes.NewBuffer(write(t))
	b.WriteString("next")
	r := NewReader(b)
	if !read(r) || r.Err() != nil {
		t.Errorf("read something else: %v", r.Err())
	}
	if b.String() != "next" {
		t.Errorf("the reader has read ahead: %q is left", b)
	}
}

func TestEveryCutIsAnError(t *testing.T) {
	whole := write(t)
	for n := 0; n < len(whole); n += 1 + n/50 {
		r := NewReader(bytes.NewReader(whole[:n]))
		if read(r) || !errors.Is(r.Err(), io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", n, r.Err())
		}
	}
}

func TestLengthsOutOfRange(t *testing.T) {
	for name, read := range map[string]func(*Reader){
		"text":    func(r *Reader) { _ = r.String() },
		"texts":   func(r *Reader) { r.Strings() },
		"numbers": func(r *Reader) { r.Ints() },
	} {
		for _, n := range []uint64{math.MaxUint64, 1 << 40, 1 << 30} {
			var b bytes.Buffer
			w := NewWriter(&b)
			w.Uint(n)
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			r := NewReader(&b)
			read(r)
			if r.Err() == nil {
				t.Errorf("%s of length %d: no error", name, n)
			}
		}
	}
	r := NewReader(bytes.NewReader([]byte{7}))
	if r.Index(7) != 0 || r.Err() == nil {
		t.Error("a number out of range is taken")
	}
}

// full fails after some bytes.
type full struct{ left int }

var errFull = errors.New("no space left")

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriterKeepsItsError(t *testing.T) {
	w := NewWriter(&full{left: 100_000})
	for range 100_000 {
		w.String("some text")
	}
	if err := w.Flush(); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}
