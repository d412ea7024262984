package codec

import (
	"reflect"
	"testing"

	"github.com/musterhq/muster/domain"
)

// The format's keys must be found, each as itself, wherever the last one was.
func TestEveryKeyIsFound(t *testing.T) {
	seen := map[string]bool{}
	for f := fVersion; f < fieldCount; f++ {
		key := fields[f].key
		if len(key) != 1 && len(key) != 2 || seen[key] {
			t.Errorf("field %d has the key %q: not one or two letters, or not its own", f, key)
		}
		seen[key] = true
		for before := fUnknown; before < fieldCount; before++ {
			if got := fieldAfter(before, keyCode(key)); got != f {
				t.Errorf("key %q is found as field %d after field %d, want %d", key, got, before, f)
			}
		}
		if f.bit() == 0 {
			t.Errorf("field %d has no bit", f)
		}
	}
	for _, other := range []string{"", "x", "\x00v", "v\x00", "vv", "versions"} {
		if got := fieldAfter(fUnknown, keyCode(other)); got != fUnknown {
			t.Errorf("key %q is taken for field %q", other, fields[got].key)
		}
	}
}

// Offsets that point to the wrong member would corrupt memory.
func TestOffsetsPointToMembersOfTheRightType(t *testing.T) {
	types := map[uintptr]reflect.Kind{}
	var walk func(reflect.Type, uintptr)
	walk = func(typ reflect.Type, base uintptr) {
		for i := range typ.NumField() {
			m := typ.Field(i)
			if m.Type.Kind() == reflect.Struct {
				walk(m.Type, base+m.Offset)
				continue
			}
			types[base+m.Offset] = m.Type.Kind()
		}
	}
	walk(reflect.TypeFor[domain.Event](), 0)
	for f := fVersion; f < fieldCount; f++ {
		var want reflect.Kind
		switch spec := fields[f]; spec.shape {
		case shapeText, shapeName, shapeAccount:
			want = reflect.String
		case shapeInt:
			want = reflect.Int64
		default:
			continue
		}
		if got := types[fields[f].offset]; got != want {
			t.Errorf("key %q goes to offset %d, where there is %v, not %v", fields[f].key, fields[f].offset, got, want)
		}
	}
}
