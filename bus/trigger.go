package bus

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
)

// AppendTriggerMsgpack appends a trigger as the msgpack map that a command
// carries: the names of a trace line, fields that are not set left out. The
// trace context travels in headers, not here. An error means that Data holds a
// value that is none of its kinds.
func AppendTriggerMsgpack(b []byte, t *domain.Trigger) ([]byte, error) {
	head := len(b)
	p := packer{b: append(b, 0x80)}
	p.text("id", t.ID)
	p.text("account", string(t.Account))
	p.text("trigger", t.Name)
	p.text("key", t.Key)
	if t.HasAt {
		p.text("at", formatTime(t.At))
	}
	p.text("source", t.Source)
	p.number("epoch", t.Epoch)
	p.number("seq", t.Seq)
	p.text("by", string(t.By))
	if t.Reason != (domain.Reason{}) {
		p.name("reason")
		p.b = append(p.b, 0x80|2)
		p.b = appendPackPair(appendPackPair(p.b, "code", t.Reason.Code), "text", t.Reason.Text)
	}
	if len(t.Data) > 0 {
		p.name("data")
		var err error
		if p.b, err = appendPackMap(p.b, t.Data); err != nil {
			return b, fmt.Errorf("trigger %s: data: %w", t.Name, err)
		}
	}
	if t.Expect >= 0 {
		p.name("expect")
		p.b = appendPackUint(p.b, uint64(t.Expect))
	}
	p.text("machine", t.Machine)
	p.text("mode", t.Mode)
	if len(t.Labels) > 0 {
		p.name("labels")
		p.b = appendPackLen(p.b, len(t.Labels), 0x80, 0xde)
		for _, k := range slices.Sorted(maps.Keys(t.Labels)) {
			p.b = appendPackPair(p.b, k, t.Labels[k])
		}
	}
	p.b[head] |= byte(p.n) // at most 15 fields: they fit the short form
	return p.b, nil
}

// packer counts the fields of a map while it appends them.
type packer struct {
	b []byte
	n int
}

func (p *packer) name(k string) {
	p.n++
	p.b = appendPackString(p.b, k)
}

func (p *packer) text(k, v string) {
	if v != "" {
		p.name(k)
		p.b = appendPackString(p.b, v)
	}
}

func (p *packer) number(k string, v int64) {
	if v != 0 {
		p.name(k)
		p.b = appendPackInt(p.b, v)
	}
}

// appendPackLen appends the head of a map or an array: the short form with
// its base, or the 16 and 32 bit forms, of which form16 is the first.
func appendPackLen(b []byte, n int, short, form16 byte) []byte {
	switch {
	case n < 16:
		return append(b, short|byte(n))
	case n < 1<<16:
		return append(b, form16, byte(n>>8), byte(n))
	default:
		return append(b, form16+1, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
}

func appendPackInt(b []byte, v int64) []byte {
	if v >= 0 {
		return appendPackUint(b, uint64(v))
	}
	return append(b, 0xd3, byte(v>>56), byte(v>>48), byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

func appendPackMap(b []byte, m map[string]any) ([]byte, error) {
	b = appendPackLen(b, len(m), 0x80, 0xde)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var err error
		if b, err = appendPackValue(appendPackString(b, k), m[k]); err != nil {
			return b, fmt.Errorf("%s: %w", k, err)
		}
	}
	return b, nil
}

// appendPackValue appends one value of [domain.Data].
func appendPackValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, 0xc0), nil
	case bool:
		if v {
			return append(b, 0xc3), nil
		}
		return append(b, 0xc2), nil
	case string:
		return appendPackString(b, v), nil
	case int:
		return appendPackInt(b, int64(v)), nil
	case int64:
		return appendPackInt(b, v), nil
	case float64:
		u := math.Float64bits(v)
		return append(b, 0xcb, byte(u>>56), byte(u>>48), byte(u>>40), byte(u>>32), byte(u>>24), byte(u>>16), byte(u>>8), byte(u)), nil
	case []any:
		b = appendPackLen(b, len(v), 0x90, 0xdc)
		for i, e := range v {
			var err error
			if b, err = appendPackValue(b, e); err != nil {
				return b, fmt.Errorf("%d: %w", i, err)
			}
		}
		return b, nil
	case map[string]any:
		return appendPackMap(b, v)
	default:
		return b, fmt.Errorf("a %T is no JSON value", v)
	}
}

func formatTime(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
