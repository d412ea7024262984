// Package wire writes and reads what a view saves: numbers, texts and lists,
// one after the other, without names and without types.
//
// It owns no format that lives long: a saved view is read by the version of
// the view that wrote it, or thrown away. Reading bytes that were cut or
// altered ends in an error and never in a panic or in memory without bound.
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// maxLen bounds the length of one text and of one list.
const maxLen = 1 << 31

// prealloc bounds what a length alone can make the reader allocate.
const prealloc = 1 << 16

// ErrTooLong is returned for a length that no saved view has.
var ErrTooLong = errors.New("a length in the saved view is out of range")

// Writer writes values; the first error stays (Flush returns it).
type Writer struct {
	w   *bufio.Writer
	buf [binary.MaxVarintLen64]byte
	err error
}

// NewWriter returns a Writer onto w. Flush ends it.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 1<<16)} }

// Flush writes what is buffered and returns the first error of all.
func (w *Writer) Flush() error {
	if err := w.w.Flush(); w.err == nil && err != nil {
		w.err = err
	}
	if w.err != nil {
		return fmt.Errorf("write: %w", w.err)
	}
	return nil
}

func (w *Writer) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

// Uint writes a number.
func (w *Writer) Uint(v uint64) { w.bytes(w.buf[:binary.PutUvarint(w.buf[:], v)]) }

// Int writes a signed number.
func (w *Writer) Int(v int64) { w.bytes(w.buf[:binary.PutVarint(w.buf[:], v)]) }

// Bool writes a truth value.
func (w *Writer) Bool(v bool) {
	if v {
		w.Uint(1)
	} else {
		w.Uint(0)
	}
}

// Float writes a floating-point number.
func (w *Writer) Float(v float64) { w.Uint(math.Float64bits(v)) }

// String writes a text.
func (w *Writer) String(s string) {
	w.Uint(uint64(len(s)))
	if w.err == nil {
		_, w.err = w.w.WriteString(s)
	}
}

// Strings writes a list of texts.
func (w *Writer) Strings(list []string) {
	w.Uint(uint64(len(list)))
	for _, s := range list {
		w.String(s)
	}
}

// Bytes writes a list of bytes.
func (w *Writer) Bytes(b []byte) {
	w.Uint(uint64(len(b)))
	w.bytes(b)
}

// Ints writes a list of signed numbers.
func (w *Writer) Ints(list []int64) {
	w.Uint(uint64(len(list)))
	for _, v := range list {
		w.Int(v)
	}
}

// Source is what a Reader reads from without looking ahead.
type Source interface {
	io.Reader
	io.ByteReader
}

// Reader reads values; after the first error (Err) it reads zeros.
type Reader struct {
	r   Source
	err error
}

// NewReader returns a Reader from r. It reads no byte beyond what it was asked
// for, if r is a Source.
func NewReader(r io.Reader) *Reader {
	if s, ok := r.(Source); ok {
		return &Reader{r: s}
	}
	return &Reader{r: bufio.NewReader(r)}
}

// Err returns the first error.
func (r *Reader) Err() error {
	if r.err != nil {
		return fmt.Errorf("read: %w", r.err)
	}
	return nil
}

// Fail makes err the error of the Reader, unless it has one.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Uint reads a number.
func (r *Reader) Uint() uint64 {
	if r.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(r.r)
	if err != nil {
		r.fail(err)
		return 0
	}
	return v
}

// fail keeps the first error; an end within a value is no orderly end.
func (r *Reader) fail(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	r.Fail(err)
}

// Int reads a signed number.
func (r *Reader) Int() int64 {
	u := r.Uint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

// Bool reads a truth value.
func (r *Reader) Bool() bool { return r.Uint() != 0 }

// Float reads a floating-point number.
func (r *Reader) Float() float64 { return math.Float64frombits(r.Uint()) }

// Len reads the length of a list; after an error it is 0.
func (r *Reader) Len() int {
	n := r.Uint()
	if n > maxLen {
		r.Fail(ErrTooLong)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// Index reads a number below n.
func (r *Reader) Index(n int) uint32 {
	v := r.Uint()
	if v >= uint64(n) {
		r.Fail(fmt.Errorf("%d where a number below %d must stand", v, n))
		return 0
	}
	return uint32(v)
}

// String reads a text.
func (r *Reader) String() string { return string(r.Bytes()) }

// Strings reads a list of texts.
func (r *Reader) Strings() []string {
	n := r.Len()
	list := make([]string, 0, min(n, prealloc))
	for ; n > 0 && r.err == nil; n-- {
		list = append(list, r.String())
	}
	return list
}

// Bytes reads a list of bytes.
func (r *Reader) Bytes() []byte {
	n := r.Len()
	var b []byte
	for n > 0 && r.err == nil {
		from := len(b)
		step := min(n, prealloc)
		b = append(b, make([]byte, step)...)
		if _, err := io.ReadFull(r.r, b[from:]); err != nil {
			r.fail(err)
		}
		n -= step
	}
	if r.err != nil {
		return nil
	}
	return b
}

// Ints reads a list of signed numbers.
func (r *Reader) Ints() []int64 {
	n := r.Len()
	list := make([]int64, 0, min(n, prealloc))
	for ; n > 0 && r.err == nil; n-- {
		list = append(list, r.Int())
	}
	return list
}
