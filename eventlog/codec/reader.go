package codec

import (
	"unsafe"

	"github.com/musterhq/muster/domain"
)

// Reader reads records for replay. It gives the same events as Decode and
// refuses the same bytes, but is written by hand and allocates next to nothing.
// It must not be used by two goroutines at a time.
type Reader struct {
	c     cursor
	names *Interner // nil: strings alias the record
	set   []domain.Condition
	ended []domain.ConditionRef
}

// NewReader returns a Reader for passing over records: the strings of an event
// (those in Labels and Data, too) are part of the record's bytes, so nothing
// of it may be used once those bytes change, and nothing should be kept, since
// one string holds the whole buffer in memory. Clone what is to stay.
func NewReader() *Reader { return &Reader{} }

// NewFoldReader returns a Reader for folding: the strings of an event are its
// own, those that repeat over a fleet (machine, trigger, states, source,
// conditions, reason codes, labels) from names. Only the slices Set and Ended
// are still used again by the next Read.
func NewFoldReader(names *Interner) *Reader { return &Reader{names: names} }

// Read overwrites e with the record's event. Set and Ended stay valid until
// the next Read; Labels and Data are new ones each time. An Account that e
// already holds is kept when it is the same: a caller that knows the account
// puts its own string there first and saves the copy.
//
// An error is an ErrMalformed or an ErrRecordVersion, and leaves e in no
// particular state.
func (r *Reader) Read(b []byte, e *domain.Event) error {
	known := e.Account
	*e = domain.Event{}
	r.c = cursor{b: b}
	c := &r.c
	n := c.mapLen()
	var seen uint64
	for i := range n {
		f := fieldOf(c.key())
		if i == 0 && f != fVersion {
			c.fail("a record that does not begin with its version")
			break
		}
		if f == fUnknown {
			c.skip(1)
		} else if seen&(1<<f) != 0 {
			c.fail("a repeated key")
		} else {
			seen |= 1 << f
			r.field(e, f, known)
		}
		if c.err != nil {
			break
		}
	}
	if c.err != nil {
		return c.err
	}
	if c.i != len(b) {
		return malformed("%d bytes follow the record", len(b)-c.i)
	}
	return checkRequired(e, seen)
}

// field reads the value of one known key into the event.
func (r *Reader) field(e *domain.Event, f field, known domain.AccountID) {
	c := &r.c
	if p := stringField(e, f); p != nil {
		b := c.text()
		switch {
		case f == fAccount && string(known) == string(b):
			e.Account = known
		case repeats&(1<<f) != 0:
			*p = r.name(b)
		default:
			*p = r.text(b)
		}
		return
	}
	if p := intField(e, f); p != nil {
		*p = c.int()
		return
	}
	switch f {
	case fLabels:
		e.Labels = r.labels()
	case fData:
		if m := r.object(1); len(m) > 0 {
			e.Data = m
		}
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
	default:
		u := c.uint()
		if c.err == nil {
			c.err = setUint(e, f, u)
		}
	}
}

// text is a string of the record that is unlikely to come again.
func (r *Reader) text(b []byte) string {
	if r.names != nil {
		return string(b)
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// name is a string of the record that repeats.
func (r *Reader) name(b []byte) string {
	if r.names != nil {
		return r.names.Intern(b)
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
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

// object reads a map of JSON values; depth is its own level, from 1.
func (r *Reader) object(depth int) map[string]any {
	c := &r.c
	n := c.mapLen()
	m := make(map[string]any, min(n, maxPrealloc))
	for i := 0; i < n && c.err == nil; i++ {
		k := r.name(c.text())
		m[k] = r.value(depth)
	}
	if len(m) != n {
		c.fail("a repeated key")
	}
	return m
}

// value reads one JSON value that lies within depth levels of maps and arrays.
func (r *Reader) value(depth int) any {
	c := &r.c
	if c.i >= len(c.b) {
		c.fail("the bytes end")
		return nil
	}
	switch x := c.b[c.i]; {
	case x&0xe0 == 0xa0 || x >= 0xd9 && x <= 0xdb:
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
	case x&0xf0 == 0x90 || x == 0xdc || x == 0xdd:
		n := c.arrayLen()
		a := make([]any, 0, min(n, maxPrealloc))
		for ; n > 0 && c.err == nil; n-- {
			a = append(a, r.value(depth+1))
		}
		return a
	}
	return r.object(depth + 1)
}
