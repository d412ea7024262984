package codec

import (
	"encoding/binary"
	"fmt"
	"math"
)

// cursor walks over msgpack bytes without copying. Its first error stays, and
// from then on every method returns a zero value, so callers check err once
// per value. It never reads beyond the end of b.
type cursor struct {
	b   []byte
	i   int
	err error
}

// syntaxError is an ErrMalformed that knows the place.
type syntaxError struct {
	what string
	at   int // from 0
}

// Error says what is wrong and where.
func (e *syntaxError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d", ErrMalformed, e.what, e.at+1)
}

// Unwrap makes errors.Is(err, ErrMalformed) hold.
func (e *syntaxError) Unwrap() error { return ErrMalformed }

// fail keeps the first error and puts the cursor at the end.
func (c *cursor) fail(what string) {
	if c.err == nil {
		c.err = &syntaxError{what, min(c.i, len(c.b))}
	}
	c.i = len(c.b)
}

// code takes the next byte.
func (c *cursor) code() byte {
	if c.i >= len(c.b) {
		c.fail("the bytes end")
		return 0xc1
	}
	x := c.b[c.i]
	c.i++
	return x
}

// take returns the next n bytes.
func (c *cursor) take(n int) []byte {
	if uint(n) > uint(len(c.b)-c.i) {
		c.fail("the bytes end")
		return nil
	}
	p := c.b[c.i : c.i+n : c.i+n]
	c.i += n
	return p
}

// bigEndian takes an unsigned number of 1, 2, 4 or 8 bytes.
func (c *cursor) bigEndian(size int) uint64 {
	p := c.take(size)
	switch len(p) {
	case 1:
		return uint64(p[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(p))
	case 4:
		return uint64(binary.BigEndian.Uint32(p))
	case 8:
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// text takes a string value.
func (c *cursor) text() []byte {
	if c.i < len(c.b) {
		if n := int(c.b[c.i] ^ 0xa0); n < 32 && n < len(c.b)-c.i { // the common case: up to 31 bytes
			p := c.b[c.i+1 : c.i+1+n : c.i+1+n]
			c.i += 1 + n
			return p
		}
	}
	return c.longText()
}

func (c *cursor) longText() []byte {
	switch x := c.code(); {
	case x&0xe0 == 0xa0:
		return c.take(int(x & 31))
	case x >= 0xd9 && x <= 0xdb:
		return c.take(int(c.bigEndian(1 << (x - 0xd9))))
	}
	c.fail("no text")
	return nil
}

// key takes a string and returns its packed form; see keyCode.
func (c *cursor) key() uint32 {
	if c.i+4 <= len(c.b) {
		switch x := binary.LittleEndian.Uint32(c.b[c.i:]); byte(x) {
		case 0xa1:
			c.i += 2
			return x & 0xffff
		case 0xa2:
			c.i += 3
			return x & 0xffffff
		}
	}
	return keyCode(c.text())
}

// int takes an integer that fits int64.
func (c *cursor) int() int64 {
	if b := c.b[c.i:]; len(b) >= 9 { // the common cases: a small number, or a time
		if b[0] < 0x80 {
			c.i++
			return int64(b[0])
		}
		if u := binary.BigEndian.Uint64(b[1:]); b[0] == 0xcf && u <= math.MaxInt64 {
			c.i += 9
			return int64(u)
		}
	}
	return c.anyInt()
}

func (c *cursor) anyInt() int64 {
	switch x := c.code(); {
	case x < 0x80:
		return int64(x)
	case x >= 0xe0:
		return int64(int8(x))
	case x >= 0xcc && x <= 0xcf:
		u := c.bigEndian(1 << (x - 0xcc))
		if u > math.MaxInt64 {
			c.fail("an integer that does not fit 64 bits with a sign")
			return 0
		}
		return int64(u)
	case x >= 0xd0 && x <= 0xd3:
		size := 1 << (x - 0xd0)
		shift := 64 - 8*size
		return int64(c.bigEndian(size)<<shift) >> shift
	}
	c.fail("no integer")
	return 0
}

// uint takes an integer that is not negative.
func (c *cursor) uint() uint64 {
	if c.i < len(c.b) && c.b[c.i] == 0xcf {
		c.i++
		return c.bigEndian(8)
	}
	i := c.int()
	if i < 0 {
		c.fail("a negative number")
		return 0
	}
	return uint64(i)
}

// float takes a float32 or float64; only finite ones pass.
func (c *cursor) float() float64 {
	var f float64
	switch c.code() {
	case 0xca:
		f = float64(math.Float32frombits(uint32(c.bigEndian(4))))
	case 0xcb:
		f = math.Float64frombits(c.bigEndian(8))
	default:
		c.fail("no number")
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		c.fail("a number that is not finite")
		return 0
	}
	return f
}

// bytes takes a byte string.
func (c *cursor) bytes() []byte {
	if x := c.code(); x >= 0xc4 && x <= 0xc6 {
		return c.take(int(c.bigEndian(1 << (x - 0xc4))))
	}
	c.fail("no bytes")
	return nil
}

// mapLen takes the head of a map. Each of its entries needs two bytes at
// least, so a length beyond that is refused before anything is allocated.
func (c *cursor) mapLen() int {
	var n int
	switch x := c.code(); {
	case x&0xf0 == 0x80:
		n = int(x & 15)
	case x == 0xde:
		n = int(c.bigEndian(2))
	case x == 0xdf:
		n = int(c.bigEndian(4))
	default:
		c.fail("no map")
		return 0
	}
	if n > (len(c.b)-c.i)/2 {
		c.fail("the bytes end")
		return 0
	}
	return n
}

// arrayLen takes the head of an array.
func (c *cursor) arrayLen() int {
	var n int
	switch x := c.code(); {
	case x&0xf0 == 0x90:
		n = int(x & 15)
	case x == 0xdc:
		n = int(c.bigEndian(2))
	case x == 0xdd:
		n = int(c.bigEndian(4))
	default:
		c.fail("no array")
		return 0
	}
	if n > len(c.b)-c.i {
		c.fail("the bytes end")
		return 0
	}
	return n
}

func isText(x byte) bool { return x&0xe0 == 0xa0 || x >= 0xd9 && x <= 0xdb }

func isMap(x byte) bool { return x&0xf0 == 0x80 || x == 0xde || x == 0xdf }

func isArray(x byte) bool { return x&0xf0 == 0x90 || x == 0xdc || x == 0xdd }

// nextByte is b[i], or a code that msgpack does not use when b ends before.
func nextByte(b []byte, i int) byte {
	if i < len(b) {
		return b[i]
	}
	return 0xc1
}

// skip passes over one value of any type, within depth levels.
func (c *cursor) skip(depth int) {
	if c.i >= len(c.b) {
		c.fail("the bytes end")
		return
	}
	n := 0
	switch x := c.b[c.i]; {
	case isMap(x):
		n = 2 * c.mapLen()
	case isArray(x):
		n = c.arrayLen()
	default:
		c.skipScalar()
		return
	}
	if depth >= maxDepth {
		c.fail("too many levels")
	}
	for ; n > 0 && c.err == nil; n-- {
		c.skip(depth + 1)
	}
}

func (c *cursor) skipScalar() {
	switch x := c.code(); {
	case x < 0x80 || x >= 0xe0 || x == 0xc0 || x == 0xc2 || x == 0xc3:
	case x&0xe0 == 0xa0:
		c.take(int(x & 31))
	case x >= 0xc4 && x <= 0xc6: // bin
		c.take(int(c.bigEndian(1 << (x - 0xc4))))
	case x >= 0xc7 && x <= 0xc9: // ext: length, then a type byte
		c.take(1 + int(c.bigEndian(1<<(x-0xc7))))
	case x == 0xca:
		c.take(4)
	case x == 0xcb:
		c.take(8)
	case x >= 0xcc && x <= 0xcf:
		c.take(1 << (x - 0xcc))
	case x >= 0xd0 && x <= 0xd3:
		c.take(1 << (x - 0xd0))
	case x >= 0xd4 && x <= 0xd8: // fixext: a type byte, then 1 to 16 bytes
		c.take(1 + 1<<(x-0xd4))
	case x >= 0xd9 && x <= 0xdb:
		c.take(int(c.bigEndian(1 << (x - 0xd9))))
	default:
		c.fail("an unknown code")
	}
}
