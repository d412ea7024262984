package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/musterhq/muster/domain"
)

// TriggerFromMsgpack reads a trigger from the msgpack map that publishers send:
// the names, rules and errors of the JSON form, and the same Trigger for the
// same values. Beside what JSON can say, a time may be a msgpack timestamp.
//
// It is strict: keys are text and come once, levels are counted, and nothing
// follows the map. The error is a *domain.InvalidError; the trigger then holds
// what could be read, to name the account in an answer.
func TriggerFromMsgpack(b []byte) (domain.Trigger, error) {
	p := parser{cursor: cursor{b: b}}
	f := domain.NewFields()
	p.trigger(&f)
	if p.err == nil && p.i != len(b) {
		p.fail("something follows the map")
	}
	t, err := f.Trigger()
	if p.err != nil {
		err = asInvalid(p.err)
	}
	return t, err
}

// trigger reads the outermost map, field by field.
func (p *parser) trigger(f *domain.Fields) {
	if p.i < len(p.b) && !isMap(p.b[p.i]) {
		p.fail("want a map")
		return
	}
	for n := p.mapLen(); n > 0 && p.err == nil; n-- {
		name := fieldName(p.text())
		if p.err != nil {
			return
		}
		switch x := nextByte(p.b, p.i); {
		case isText(x):
			if v := string(p.text()); p.err == nil {
				f.Text(name, v)
			}
		case isInt(x) && x != 0xcf:
			if v := p.int(); p.err == nil {
				f.Number(name, v)
			}
		default:
			v := p.value(1)
			if p.err == nil {
				f.Value(name, v)
			} else {
				p.err = within(name, p.err)
			}
		}
	}
}

// fieldName is the name of a field; a usual one costs no allocation.
func fieldName(b []byte) string {
	switch string(b) {
	case "id":
		return "id"
	case "account":
		return "account"
	case "trigger":
		return "trigger"
	case "key":
		return "key"
	case "at":
		return "at"
	case "source":
		return "source"
	case "epoch":
		return "epoch"
	case "seq":
		return "seq"
	case "by":
		return "by"
	case "reason":
		return "reason"
	case "data":
		return "data"
	case "expect":
		return "expect"
	}
	return string(b)
}

// asInvalid makes an error of the parser one of domain's.
func asInvalid(err error) error {
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		return &domain.InvalidError{Reason: fmt.Sprintf("not msgpack: %s at byte %d", syntax.what, syntax.at+1)}
	}
	return err
}

// parser reads any msgpack that a trigger may be made of. What has no place in
// a trigger, such as bytes, it hands on, so that the error can name the field.
type parser struct {
	cursor
}

// object reads a map; depth is its own level, from 1. After an error it returns
// what came before.
func (p *parser) object(depth int) map[string]any {
	if p.i < len(p.b) && !isMap(p.b[p.i]) {
		p.fail("want a map")
		return nil
	}
	n := p.mapLen()
	m := make(map[string]any, min(n, maxPrealloc))
	for ; n > 0 && p.err == nil; n-- {
		k := string(p.text())
		if p.err != nil {
			break
		}
		if _, twice := m[k]; twice {
			p.err = &domain.InvalidError{Field: k, Reason: "is there twice"}
			break
		}
		v := p.value(depth)
		if p.err == nil {
			m[k] = v
		} else {
			p.err = within(k, p.err)
		}
	}
	return m
}

// within puts the name of the map's field before that of the field in it.
func within(field string, err error) error {
	var e *domain.InvalidError
	if errors.As(err, &e) {
		if e.Field != "" {
			field += "." + e.Field
		}
		return &domain.InvalidError{Field: field, Reason: e.Reason}
	}
	return err
}

// value reads one value that lies within depth levels of maps and arrays.
func (p *parser) value(depth int) any {
	x := nextByte(p.b, p.i)
	switch {
	case isText(x):
		return string(p.text())
	case x == 0xcf:
		u := p.uint()
		if u > math.MaxInt64 {
			return u
		}
		return int64(u)
	case isInt(x):
		return p.int()
	case x == 0xc0:
		p.i++
		return nil
	case x == 0xc2 || x == 0xc3:
		p.i++
		return x == 0xc3
	case x == 0xca:
		p.i++
		return float64(math.Float32frombits(uint32(p.bigEndian(4))))
	case x == 0xcb:
		p.i++
		return math.Float64frombits(p.bigEndian(8))
	case x >= 0xc4 && x <= 0xc6:
		return append([]byte{}, p.bytes()...)
	case isMap(x) || isArray(x):
		return p.nested(x, depth)
	case p.i < len(p.b) && x != 0xc1:
		return p.timestamp()
	}
	p.fail("the bytes end, or a code that msgpack does not use")
	return nil
}

// nested reads a map or an array that lies in depth levels.
func (p *parser) nested(x byte, depth int) any {
	if depth >= maxDepth {
		p.err = &domain.InvalidError{Reason: fmt.Sprintf("is nested deeper than %d levels", maxDepth)}
		return nil
	}
	if isMap(x) {
		return p.object(depth + 1)
	}
	n := p.arrayLen()
	list := make([]any, 0, min(n, maxPrealloc))
	for ; n > 0 && p.err == nil; n-- {
		list = append(list, p.value(depth+1))
	}
	return list
}

// timestamp reads an extension of type -1, msgpack's time in 4, 8 or 12 bytes.
func (p *parser) timestamp() any {
	size := 0
	switch x := p.code(); {
	case x >= 0xd4 && x <= 0xd8:
		size = 1 << (x - 0xd4)
	default:
		size = int(p.bigEndian(1 << (x - 0xc7)))
	}
	kind := p.code()
	b := p.take(size)
	if p.err != nil {
		return nil
	}
	if kind == 0xff {
		if t, ok := instant(b); ok {
			return t
		}
	}
	p.fail("an extension that is not a time")
	return nil
}

// instant is the time in the bytes of a timestamp.
func instant(b []byte) (time.Time, bool) {
	var sec int64
	var nsec uint32
	switch len(b) {
	case 4:
		sec = int64(binary.BigEndian.Uint32(b))
	case 8:
		both := binary.BigEndian.Uint64(b)
		sec, nsec = int64(both&(1<<34-1)), uint32(both>>34)
	case 12:
		sec, nsec = int64(binary.BigEndian.Uint64(b[4:])), binary.BigEndian.Uint32(b)
	default:
		return time.Time{}, false
	}
	return time.Unix(sec, int64(nsec)).UTC(), nsec < 1e9
}

// AppendTrigger appends the trigger as TriggerFromMsgpack reads it, for clients
// in Go. What is not part of a trigger's body (the trace context, NotWorker) is
// left out. Data may hold what domain.Data says; anything else is an
// ErrUnencodable, and dst comes back as it was.
func AppendTrigger(dst []byte, t *domain.Trigger) ([]byte, error) {
	w := getWriter(dst)
	defer putWriter(w)
	head := w.beginMap()
	w.named("id", t.ID)
	w.named("account", string(t.Account))
	w.named("trigger", t.Name)
	w.named("key", t.Key)
	if t.HasAt {
		w.named("at", time.Unix(0, t.At).UTC().Format(time.RFC3339Nano))
	}
	w.named("source", t.Source)
	w.numbered("epoch", t.Epoch)
	w.numbered("seq", t.Seq)
	w.named("by", string(t.By))
	if t.Reason != (domain.Reason{}) {
		w.name("reason")
		w.stringMap(map[string]string{"code": t.Reason.Code, "text": t.Reason.Text})
	}
	if len(t.Data) > 0 {
		w.name("data")
		w.object(t.Data, 1)
	}
	if t.Expect != domain.NoExpect {
		w.name("expect")
		w.keep(w.enc.EncodeInt(t.Expect))
	}
	w.named("machine", t.Machine)
	w.named("mode", t.Mode)
	if len(t.Labels) > 0 {
		w.name("labels")
		w.stringMap(t.Labels)
	}
	w.endMap(head)
	if w.err != nil {
		return dst, fmt.Errorf("encode trigger %q: %w", t.Name, w.err)
	}
	return w.buf, nil
}

// Unpack reads one msgpack map that stands alone in b, strictly as
// TriggerFromMsgpack reads its input: no length in it is believed beyond the
// bytes that are there.
func Unpack(b []byte) (map[string]any, error) {
	p := parser{cursor: cursor{b: b}}
	m := p.object(1)
	if p.err == nil && p.i != len(b) {
		p.fail("something follows the map")
	}
	if p.err != nil {
		return nil, asInvalid(p.err)
	}
	return m, nil
}
