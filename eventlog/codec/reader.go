package codec

import (
	"encoding/binary"
	"unsafe"

	"github.com/musterhq/muster/domain"
)

// Reader reads records for replay. It gives the same events as Decode and
// refuses the same bytes, but is written by hand and allocates next to nothing.
// It must not be used by two goroutines at a time.
type Reader struct {
	// SkipData leaves an event's Data nil and its bytes unlooked at, for
	// readers that have no use for it.
	SkipData bool

	c     cursor
	names *interner // the names that Fold has met
	own   bool      // strings are to be the event's own

	// What the next call uses again.
	set   []domain.Condition
	ended []domain.ConditionRef
	data  map[string]any
}

// NewReader returns a Reader.
func NewReader() *Reader { return &Reader{} }

// Read overwrites e with the record's event, for passing over a history: the
// strings of the event (those in Labels and Data, too) are part of b. Nothing
// of it may be used once b changes, and nothing should be kept, since one
// string holds all of b in memory. Clone what is to stay, or use Fold.
//
// The slices Set and Ended and the map Data are used again by the next call;
// Labels, and maps and lists within Data, are new ones each time.
//
// An error is an ErrMalformed or an ErrRecordVersion, and leaves e in no
// particular state.
func (r *Reader) Read(b []byte, e *domain.Event) error {
	r.own = false
	return r.read(b, e)
}

// Fold is Read for a caller that keeps strings, as domain.Evolve does: they are
// the event's own, and those that repeat over a fleet (machine, trigger,
// states, source, conditions, reason codes, labels, data keys) are held once
// for all events that this Reader folds. An Account that e already holds is
// kept when it is the same: a caller that knows the account puts its own string
// there first and saves the copy.
func (r *Reader) Fold(b []byte, e *domain.Event) error {
	r.fold()
	return r.read(b, e)
}

// fold makes the strings to come ones that may be kept.
func (r *Reader) fold() {
	r.own = true
	if r.names == nil {
		r.names = newInterner()
	}
}

func (r *Reader) read(b []byte, e *domain.Event) error {
	known := e.Account
	*e = domain.Event{}
	r.c = cursor{b: b}
	n := r.c.mapLen()
	start := r.c.i
	if n > 0 && r.c.key() != fieldCodes[fVersion] {
		r.c.fail("a record that does not begin with its version")
	}
	r.c.i = start
	seen := r.entries(e, n, known)
	if r.c.err != nil {
		return r.c.err
	}
	if r.c.i != len(b) {
		return malformed("%d bytes follow the record", len(b)-r.c.i)
	}
	return checkRequired(e, seen)
}

// entries reads n keys and their values into the event, until an error, and
// returns the bit set of the fields met. Replay spends its time here, so what
// nearly every record has (the format's keys in the format's order, text of up
// to 31 bytes, small numbers, times) is read in place, and anything else by
// the cursor's methods.
func (r *Reader) entries(e *domain.Event, n int, known domain.AccountID) (seen uint64) {
	c := &r.c
	b, i := c.b, c.i
	f := fUnknown
	for ; n > 0 && c.err == nil; n-- {
		// The key: most likely that of one of the next fields.
		var code uint32
		if i+4 <= len(b) && b[i] == 0xa1 {
			code = binary.LittleEndian.Uint32(b[i:]) & 0xffff
			i += 2
		} else if i+4 <= len(b) && b[i] == 0xa2 {
			code = binary.LittleEndian.Uint32(b[i:]) & 0xffffff
			i += 3
		} else {
			c.i = i
			code = c.key()
			i = c.i
		}
		for f++; f < fieldCount && fieldCodes[f] != code; f++ {
		}
		if f == fieldCount {
			f = fieldAfter(fUnknown, code)
		}
		spec := &fields[f]
		if seen&f.bit() != 0 {
			c.fail("a repeated key")
		}
		seen |= f.bit()

		// The value.
		switch x := nextByte(b, i); {
		case x&0xe0 == 0xa0 && spec.shape >= shapeText && int(x&31) < len(b)-i:
			s := b[i+1 : i+1+int(x&31)]
			i += 1 + len(s)
			if r.own {
				r.keep(e, spec, s, known)
			} else {
				*textOf(e, spec.offset) = alias(s)
			}
		case x == 0xcf && spec.shape == shapeInt && i+9 <= len(b) && b[i+1] < 0x80:
			*intOf(e, spec.offset) = int64(binary.BigEndian.Uint64(b[i+1:]))
			i += 9
		case x < 0x80 && spec.shape == shapeUint:
			c.err = setUint(e, f, uint64(x))
			i++
		default:
			c.i = i
			r.field(e, f, known)
			i = c.i
		}
	}
	c.i = i
	return seen
}

// keep puts a string of the record into the event.
func (r *Reader) keep(e *domain.Event, spec *fieldSpec, s []byte, known domain.AccountID) {
	p := textOf(e, spec.offset)
	switch {
	case spec.shape == shapeAccount && string(known) == string(s):
		*p = string(known)
	case !r.own:
		*p = alias(s)
	case spec.shape == shapeName:
		*p = r.names.intern(s)
	default:
		*p = string(s)
	}
}

// field reads any value into the event, or passes over one whose key is not
// known.
func (r *Reader) field(e *domain.Event, f field, known domain.AccountID) {
	c := &r.c
	switch spec := &fields[f]; spec.shape {
	case shapeText, shapeName, shapeAccount:
		r.keep(e, spec, c.text(), known)
		return
	case shapeInt:
		*intOf(e, spec.offset) = c.int()
		return
	case shapeUint:
		if u := c.uint(); c.err == nil {
			c.err = setUint(e, f, u)
		}
		return
	}
	switch f {
	case fUnknown:
		c.skip(1)
	case fLabels:
		e.Labels = r.labels()
	case fData:
		if r.SkipData {
			c.skip(1)
			return
		}
		r.dataMap(e)
	case fSet:
		r.conditions(e)
	case fEnded:
		r.refs(e)
	case fPrev:
		if b := c.bytes(); len(b) == len(e.Prev) {
			e.Prev = [16]byte(b)
		} else {
			c.fail("a hash that is not 16 bytes")
		}
	}
}

// alias is the text that b holds, for as long as it does.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// text is a string of the record that is unlikely to come again.
func (r *Reader) text(b []byte) string {
	if r.own {
		return string(b)
	}
	return alias(b)
}

// name is a string of the record that repeats.
func (r *Reader) name(b []byte) string {
	if r.own {
		return r.names.intern(b)
	}
	return alias(b)
}

func (r *Reader) labels() map[string]string {
	c := &r.c
	n := c.mapLen()
	if n == 0 {
		return nil
	}
	m := make(map[string]string, min(n, maxPrealloc))
	for i := 0; i < n && c.err == nil; i++ {
		k := r.name(c.text())
		m[k] = r.name(c.text())
	}
	if len(m) != n {
		c.fail("a repeated key")
	}
	return m
}

func (r *Reader) conditions(e *domain.Event) {
	c := &r.c
	set := r.set[:0]
	for n := c.arrayLen(); n > 0 && c.err == nil; n-- {
		var cond domain.Condition
		var seen uint32
		for k := c.mapLen(); k > 0 && c.err == nil; k-- {
			key := c.key()
			r.once(&seen, key)
			switch key {
			case ckName:
				cond.Name = r.name(c.text())
			case ckScope:
				cond.Scope = r.name(c.text())
			case ckSince:
				cond.Since = c.int()
			case ckUntil:
				cond.Until = c.int()
			case ckReason:
				cond.Reason = r.name(c.text())
			default:
				c.skip(3)
			}
		}
		set = append(set, cond)
	}
	r.set = set
	if len(set) > 0 {
		e.Set = set
	}
}

func (r *Reader) refs(e *domain.Event) {
	c := &r.c
	ended := r.ended[:0]
	for n := c.arrayLen(); n > 0 && c.err == nil; n-- {
		var ref domain.ConditionRef
		var seen uint32
		for k := c.mapLen(); k > 0 && c.err == nil; k-- {
			key := c.key()
			r.once(&seen, key)
			switch key {
			case ckName:
				ref.Name = r.name(c.text())
			case ckScope:
				ref.Scope = r.name(c.text())
			default:
				c.skip(3)
			}
		}
		ended = append(ended, ref)
	}
	r.ended = ended
	if len(ended) > 0 {
		e.Ended = ended
	}
}

// once refuses a known key of a condition that comes a second time.
func (r *Reader) once(seen *uint32, key uint32) {
	bit := conditionBit(key)
	if *seen&bit != 0 {
		r.c.fail("a repeated key")
	}
	*seen |= bit
}

// dataMap reads the event's data into the map that is used again, unless it
// has grown so large that emptying it would cost more than a new one.
func (r *Reader) dataMap(e *domain.Event) {
	n := r.c.mapLen()
	if n == 0 {
		return
	}
	if r.data == nil || len(r.data) > maxPrealloc {
		r.data = make(map[string]any, min(n, maxPrealloc))
	}
	clear(r.data)
	r.members(r.data, n, 1)
	e.Data = r.data
}

// object reads a map of JSON values; depth is its own level, from 1.
func (r *Reader) object(depth int) map[string]any {
	n := r.c.mapLen()
	m := make(map[string]any, min(n, maxPrealloc))
	r.members(m, n, depth)
	return m
}

// members reads n keys and values into m, which is empty.
func (r *Reader) members(m map[string]any, n, depth int) {
	c := &r.c
	for i := 0; i < n && c.err == nil; i++ {
		k := r.name(c.text())
		m[k] = r.value(depth)
	}
	if len(m) != n {
		c.fail("a repeated key")
	}
}

// value reads one JSON value that lies within depth levels of maps and arrays.
func (r *Reader) value(depth int) any {
	c := &r.c
	if c.i >= len(c.b) {
		c.fail("the bytes end")
		return nil
	}
	switch x := c.b[c.i]; {
	case isText(x):
		return r.text(c.text())
	case isInt(x):
		return c.int()
	case x == 0xc0:
		c.i++
		return nil
	case x == 0xc2 || x == 0xc3:
		c.i++
		return x == 0xc3
	case x == 0xca || x == 0xcb:
		return c.float()
	case depth >= maxDepth:
		c.fail("too many levels, or no JSON value")
		return nil
	case isArray(x):
		n := c.arrayLen()
		a := make([]any, 0, min(n, maxPrealloc))
		for ; n > 0 && c.err == nil; n-- {
			a = append(a, r.value(depth+1))
		}
		return a
	}
	return r.object(depth + 1)
}
