package domain

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// kind names the type of a decoded value as a user would.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []byte:
		return "bytes"
	case time.Time:
		return "a time"
	case []any:
		return "a list"
	case map[string]any, map[any]any:
		return "an object"
	case float32, float64:
		return "a number with a fraction or exponent, or one that is too large"
	default:
		return "a number"
	}
}

func text(field string, v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", invalid(field, "want a text, got %s", kind(v))
	}
	return s, validText(field, s)
}

func validText(field, s string) error {
	if !utf8.ValidString(s) {
		return invalid(field, "is not valid UTF-8")
	}
	return nil
}

func count(field string, v any) (int64, error) {
	n, ok := integer(v)
	if !ok {
		return 0, invalid(field, "want an integer from 0 to 9223372036854775807, got %s", kind(v))
	}
	if n < 0 {
		return 0, invalid(field, "want an integer from 0 to 9223372036854775807, got a negative one")
	}
	return n, nil
}

// integer converts the integers that decoders make.
func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case uint8:
		return int64(n), true
	case uint16:
		return int64(n), true
	case uint32:
		return int64(n), true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case uint:
		return int64(n), uint64(n) <= math.MaxInt64
	default:
		return 0, false
	}
}

const wantTime = "want a time as RFC 3339 text, such as 2026-01-01T10:00:00Z"

// instant converts a time to unix nanoseconds.
func instant(field string, v any) (int64, error) {
	switch x := v.(type) {
	case time.Time:
		return nanoseconds(field, x)
	case string:
		return instantText(field, x)
	default:
		return 0, invalid(field, "%s, got %s", wantTime, kind(v))
	}
}

func instantText(field, s string) (int64, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || !twoDigits(s) {
		return 0, invalid(field, "%s, got %q", wantTime, clip(s))
	}
	return nanoseconds(field, t)
}

// twoDigits refuses what time.Parse takes beyond RFC 3339: an hour of one digit
// and a comma before the fraction.
func twoDigits(s string) bool { return s[13] == ':' && s[19] != ',' }

func nanoseconds(field string, t time.Time) (int64, error) {
	if y := t.UTC().Year(); y < 1700 || y > 2200 {
		return 0, invalid(field, "want a time between the years 1700 and 2200, got %d", y)
	}
	return t.UnixNano(), nil
}

// clip shortens a text for a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// object gives the members of an object in the order of their names.
func object(field string, v any) ([]member, error) {
	var members []member
	switch m := v.(type) {
	case map[string]any:
		for name, x := range m {
			members = append(members, newMember(name, x))
		}
	case map[any]any:
		for name, x := range m {
			s, ok := name.(string)
			if !ok {
				return nil, invalid(field, "want names that are texts, got %s", kind(name))
			}
			members = append(members, newMember(s, x))
		}
	default:
		return nil, invalid(field, "want an object, got %s", kind(v))
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return members, nil
}

func reason(v any) (r Reason, err error) {
	members, err := object("reason", v)
	if err != nil {
		return r, err
	}
	for _, m := range members {
		if m.isNull() {
			continue
		}
		field := "reason." + m.name
		switch m.name {
		case "code":
			r.Code, err = text(field, m.any())
		case "text":
			r.Text, err = text(field, m.any())
		default:
			err = invalid(field, "is not a field of a reason; it has code and text")
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func labels(field string, v any) (map[string]string, error) {
	members, err := object(field, v)
	if err != nil || len(members) == 0 {
		return nil, err
	}
	out := make(map[string]string, len(members))
	for _, m := range members {
		if m.isNull() {
			continue
		}
		if out[m.name], err = text(field+"."+m.name, m.any()); err != nil {
			return nil, err
		}
		if !utf8.ValidString(m.name) {
			return nil, invalid(field, "a name is not valid UTF-8")
		}
	}
	return out, nil
}

func data(v any) (Data, error) {
	m, err := plain("data", v, maxDepth-1)
	if err != nil {
		return nil, err
	}
	d, ok := m.(map[string]any)
	if !ok {
		return nil, invalid("data", "want an object, got %s", kind(v))
	}
	if len(d) == 0 {
		return nil, nil
	}
	return d, nil
}

// plain brings a decoded value into the types that Data may hold.
func plain(field string, v any, depth int) (any, error) {
	if depth == 0 {
		return nil, invalid(field, "is nested deeper than %d levels", maxDepth)
	}
	switch x := v.(type) {
	case nil, bool:
		return v, nil
	case string:
		_, err := text(field, x)
		return x, err
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano), nil
	case float32:
		return finite(field, float64(x))
	case float64:
		return finite(field, x)
	case []any:
		list := make([]any, len(x))
		for i := range x {
			var err error
			if list[i], err = plain(field, x[i], depth-1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any, map[any]any:
		return plainObject(field, v, depth)
	case uint64:
		if x > math.MaxInt64 {
			return float64(x), nil
		}
	case []byte:
		return nil, invalid(field, "want text, a number, true, false, a list or an object, got bytes")
	}
	if n, ok := integer(v); ok {
		return n, nil
	}
	return nil, invalid(field, "want text, a number, true, false, a list or an object, got something else")
}

func plainObject(field string, v any, depth int) (any, error) {
	members, err := object(field, v)
	if err != nil {
		return nil, err
	}
	out := make(map[string]any, len(members))
	for _, m := range members {
		if m.isNull() {
			continue
		}
		if _, err := text(field, m.name); err != nil {
			return nil, err
		}
		if out[m.name], err = plain(join(field, m.name), m.any(), depth-1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func finite(field string, f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, invalid(field, "want a number, got one that is not finite")
	}
	return f, nil
}
