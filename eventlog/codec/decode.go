package codec

import (
	"bytes"
	"fmt"
	"math"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/musterhq/muster/domain"
)

// malformed makes an ErrMalformed that says what is wrong.
func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Decode reads one record. The event shares nothing with b. An error is an
// ErrMalformed or an ErrRecordVersion.
func Decode(b []byte) (domain.Event, error) {
	d := getDecoder(b)
	defer putDecoder(d)
	var e domain.Event
	if err := d.record(&e); err != nil {
		return domain.Event{}, fmt.Errorf("decode record: %w", err)
	}
	return e, nil
}

// decoder is msgpack/v5's decoder with the checks that it leaves to its
// callers: the type of a value before it is read, the range of an integer,
// repeated keys, and depth.
type decoder struct {
	*msgpack.Decoder
	src bytes.Reader
}

var decoders = sync.Pool{New: func() any {
	d := &decoder{}
	d.Decoder = msgpack.NewDecoder(&d.src)
	return d
}}

func getDecoder(b []byte) *decoder {
	d := decoders.Get().(*decoder)
	d.src.Reset(b)
	d.Reset(&d.src)
	return d
}

func putDecoder(d *decoder) {
	d.src.Reset(nil)
	decoders.Put(d)
}

// maxPrealloc bounds what a claimed length may allocate before the elements
// are seen.
const maxPrealloc = 16

func (d *decoder) record(e *domain.Event) error {
	n, err := d.mapLen()
	if err != nil {
		return err
	}
	var seen uint64
	f := fUnknown
	for i := range n {
		k, err := d.str()
		if err != nil {
			return err
		}
		f = fieldAfter(f, keyCode(k))
		if i == 0 && f != fVersion {
			return malformed("record does not begin with key %q", fields[fVersion].key)
		}
		if f == fUnknown {
			if err := d.skip(1); err != nil {
				return err
			}
			continue
		}
		if seen&f.bit() != 0 {
			return malformed("key %q is repeated", k)
		}
		seen |= f.bit()
		if err := d.field(e, f); err != nil {
			return fmt.Errorf("key %q: %w", k, err)
		}
	}
	if d.src.Len() != 0 {
		return malformed("%d bytes follow the record", d.src.Len())
	}
	return checkRequired(e, seen)
}

// field reads the value of one known key into the event.
func (d *decoder) field(e *domain.Event, f field) (err error) {
	switch spec := &fields[f]; spec.shape {
	case shapeText, shapeName, shapeAccount:
		*textOf(e, spec.offset), err = d.str()
		return err
	case shapeInt:
		*intOf(e, spec.offset), err = d.int()
		return err
	case shapeUint:
		u, err := d.uint()
		if err != nil {
			return err
		}
		return setUint(e, f, u)
	}
	switch f {
	case fLabels:
		e.Labels, err = d.stringMap()
	case fData:
		var m map[string]any
		m, err = d.object(1)
		if len(m) > 0 {
			e.Data = m
		}
	case fSet:
		e.Set, err = d.set()
	case fEnded:
		e.Ended, err = d.ended()
	case fPrev:
		err = d.hash(&e.Prev)
	}
	return err
}

// setUint stores an unsigned field after checking its range.
func setUint(e *domain.Event, f field, u uint64) error {
	switch f {
	case fVersion:
		if u == 0 {
			return malformed("record version 0")
		}
		if u > Version {
			return &VersionError{Got: u}
		}
	case fNumber:
		e.Version = u
	case fKind:
		e.Kind = domain.Kind(min(u, math.MaxUint8))
	case fOutcome:
		e.Outcome = domain.Outcome(min(u, math.MaxUint8))
	case fEffects:
		if u > math.MaxUint32 {
			return malformed("effects %#x do not fit 32 bits", u)
		}
		e.Effects = domain.Effects(u)
	case fWriter:
		e.Writer = u
	}
	return nil
}

// lost turns an error of msgpack/v5, which mostly means that the bytes ended
// too early, into an ErrMalformed.
func lost(err error) error {
	if err == nil {
		return nil
	}
	return malformed("%v", err)
}

// peek returns the next value's code.
func (d *decoder) peek() (byte, error) {
	c, err := d.PeekCode()
	return c, lost(err)
}

func (d *decoder) str() (string, error) {
	c, err := d.peek()
	if err != nil {
		return "", err
	}
	if !msgpcode.IsString(c) {
		return "", malformed("code %#x where text belongs", c)
	}
	s, err := d.DecodeString()
	return s, lost(err)
}

func (d *decoder) int() (int64, error) {
	c, err := d.peek()
	switch {
	case err != nil:
		return 0, err
	case c == msgpcode.Uint64:
		u, err := d.DecodeUint64()
		if err != nil || u > math.MaxInt64 {
			return 0, malformed("%d does not fit 64 bits with a sign (%v)", u, err)
		}
		return int64(u), nil
	case isInt(c):
		i, err := d.DecodeInt64()
		return i, lost(err)
	}
	return 0, malformed("code %#x where an integer belongs", c)
}

func (d *decoder) uint() (uint64, error) {
	c, err := d.peek()
	switch {
	case err != nil:
		return 0, err
	case c == msgpcode.Uint64:
		u, err := d.DecodeUint64()
		return u, lost(err)
	}
	i, err := d.int()
	if err == nil && i < 0 {
		return 0, malformed("%d is negative", i)
	}
	return uint64(i), err
}

func isInt(c byte) bool {
	return msgpcode.IsFixedNum(c) || c >= msgpcode.Uint8 && c <= msgpcode.Int64
}

func (d *decoder) mapLen() (int, error) {
	c, err := d.peek()
	if err != nil {
		return 0, err
	}
	if !msgpcode.IsFixedMap(c) && c != msgpcode.Map16 && c != msgpcode.Map32 {
		return 0, malformed("code %#x where a map belongs", c)
	}
	n, err := d.DecodeMapLen()
	return n, lost(err)
}

func (d *decoder) arrayLen() (int, error) {
	c, err := d.peek()
	if err != nil {
		return 0, err
	}
	if !msgpcode.IsFixedArray(c) && c != msgpcode.Array16 && c != msgpcode.Array32 {
		return 0, malformed("code %#x where an array belongs", c)
	}
	n, err := d.DecodeArrayLen()
	return n, lost(err)
}

func (d *decoder) hash(p *[16]byte) error {
	c, err := d.peek()
	if err != nil {
		return err
	}
	if !msgpcode.IsBin(c) {
		return malformed("code %#x where bytes belong", c)
	}
	b, err := d.DecodeBytes()
	if err != nil {
		return lost(err)
	}
	if len(b) != len(p) {
		return malformed("a hash of %d bytes", len(b))
	}
	*p = [16]byte(b)
	return nil
}

func (d *decoder) stringMap() (map[string]string, error) {
	n, err := d.mapLen()
	if err != nil || n == 0 {
		return nil, err
	}
	m := make(map[string]string, min(n, maxPrealloc))
	for range n {
		k, err := d.str()
		if err != nil {
			return nil, err
		}
		if m[k], err = d.str(); err != nil {
			return nil, err
		}
	}
	if len(m) != n {
		return nil, malformed("a key is repeated")
	}
	return m, nil
}
