package codec

import (
	"math"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/musterhq/muster/domain"
)

// set reads the conditions that an event set.
func (d *decoder) set() ([]domain.Condition, error) {
	n, err := d.arrayLen()
	if err != nil || n == 0 {
		return nil, err
	}
	cs := make([]domain.Condition, 0, min(n, maxPrealloc))
	for range n {
		c := domain.Condition{}
		err := d.entries(func(key uint32) (err error) {
			switch key {
			case ckName:
				c.Name, err = d.str()
			case ckScope:
				c.Scope, err = d.str()
			case ckSince:
				c.Since, err = d.int()
			case ckUntil:
				c.Until, err = d.int()
			case ckReason:
				c.Reason, err = d.str()
			default:
				err = d.skip(3)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		cs = append(cs, c)
	}
	return cs, nil
}

// ended reads the conditions that an event ended.
func (d *decoder) ended() ([]domain.ConditionRef, error) {
	n, err := d.arrayLen()
	if err != nil || n == 0 {
		return nil, err
	}
	refs := make([]domain.ConditionRef, 0, min(n, maxPrealloc))
	for range n {
		r := domain.ConditionRef{}
		err := d.entries(func(key uint32) (err error) {
			switch key {
			case ckName:
				r.Name, err = d.str()
			case ckScope:
				r.Scope, err = d.str()
			default:
				err = d.skip(3)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		refs = append(refs, r)
	}
	return refs, nil
}

// The packed keys of a condition.
const (
	ckName   = 0xa1 | 'n'<<8
	ckScope  = 0xa1 | 's'<<8
	ckSince  = 0xa1 | 'i'<<8
	ckUntil  = 0xa1 | 'u'<<8
	ckReason = 0xa1 | 'r'<<8
)

// entries reads a small map and calls value with each packed key; a known key
// must not come twice.
func (d *decoder) entries(value func(key uint32) error) error {
	n, err := d.mapLen()
	if err != nil {
		return err
	}
	var seen uint32
	for range n {
		k, err := d.str()
		if err != nil {
			return err
		}
		key := keyCode(k)
		bit := conditionBit(key)
		if seen&bit != 0 {
			return malformed("key %q is repeated in a condition", k)
		}
		seen |= bit
		if err := value(key); err != nil {
			return err
		}
	}
	return nil
}

// conditionBit is a distinct bit for each key of a condition, 0 for others.
func conditionBit(key uint32) uint32 {
	switch key {
	case ckName, ckScope, ckSince, ckUntil, ckReason:
		return 1 << (key >> 8 & 31)
	}
	return 0
}

// object reads a map of JSON values; depth is its own level, from 1.
func (d *decoder) object(depth int) (map[string]any, error) {
	n, err := d.mapLen()
	if err != nil {
		return nil, err
	}
	m := make(map[string]any, min(n, maxPrealloc))
	for range n {
		k, err := d.str()
		if err != nil {
			return nil, err
		}
		if _, there := m[k]; there {
			return nil, malformed("key %q is repeated", k)
		}
		if m[k], err = d.value(depth); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// value reads one JSON value that lies within depth levels of maps and arrays.
func (d *decoder) value(depth int) (any, error) {
	c, err := d.peek()
	if err != nil {
		return nil, err
	}
	switch {
	case msgpcode.IsString(c):
		return d.str()
	case isInt(c):
		return d.int()
	case c == msgpcode.Nil:
		return nil, lost(d.DecodeNil())
	case c == msgpcode.True, c == msgpcode.False:
		b, err := d.DecodeBool()
		return b, lost(err)
	case c == msgpcode.Float, c == msgpcode.Double:
		f, err := d.DecodeFloat64()
		if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return nil, malformed("a number that is not finite")
		}
		return f, lost(err)
	}
	if depth >= maxDepth {
		return nil, malformed("more than %d levels", maxDepth)
	}
	if msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32 {
		return d.array(depth + 1)
	}
	return d.object(depth + 1)
}

func (d *decoder) array(depth int) (any, error) {
	n, err := d.arrayLen()
	if err != nil {
		return nil, err
	}
	a := make([]any, 0, min(n, maxPrealloc))
	for range n {
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		a = append(a, v)
	}
	return a, nil
}

// skip reads over one value of any type, within depth levels.
func (d *decoder) skip(depth int) error {
	c, err := d.peek()
	if err != nil {
		return err
	}
	n := 0
	switch {
	case msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32:
		if n, err = d.mapLen(); err != nil {
			return err
		}
		n *= 2
	case msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32:
		if n, err = d.arrayLen(); err != nil {
			return err
		}
	default:
		return lost(d.Skip())
	}
	if depth >= maxDepth {
		return malformed("more than %d levels", maxDepth)
	}
	for range n {
		if err := d.skip(depth + 1); err != nil {
			return err
		}
	}
	return nil
}
