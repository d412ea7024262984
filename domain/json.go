package domain

import (
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep a trigger's JSON may be nested.
const maxDepth = 32

// scanner reads one JSON value strictly: no repeated names in an object, valid
// UTF-8, no lone surrogates. Objects become map[string]any (members that are
// null left out), integers int64, other numbers float64.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) fail(what string) error {
	return invalid("", "not JSON: %s at byte %d", what, s.i+1)
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// next returns the next byte that is no space, without passing it; 0 at the end.
func (s *scanner) next() byte {
	s.space()
	if s.i == len(s.b) {
		return 0
	}
	return s.b[s.i]
}

// top reads the whole text as one object and returns its members, repeated
// ones included.
func (s *scanner) top() ([]member, error) {
	if s.next() != '{' {
		if s.i == len(s.b) {
			return nil, invalid("", "not JSON: nothing is there")
		}
		return nil, s.fail("want an object, {…},")
	}
	members := make([]member, 0, 12)
	err := s.members("", maxDepth, func(m member) error {
		members = append(members, m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s.next(); s.i != len(s.b) {
		return nil, s.fail("something follows the object")
	}
	return members, nil
}

// members reads an object's members; the next byte is its '{'.
func (s *scanner) members(path string, depth int, each func(m member) error) error {
	if depth == 0 {
		return invalid(path, "is nested deeper than %d levels", maxDepth)
	}
	s.i++
	if s.next() == '}' {
		s.i++
		return nil
	}
	for {
		if s.next() != '"' {
			return s.fail("want a field name in quotes")
		}
		name, err := s.fieldName()
		if err != nil {
			return err
		}
		if s.next() != ':' {
			return s.fail("want a colon after a field name")
		}
		s.i++
		m := member{name: name}
		switch s.next() {
		case '"':
			m.text, err = s.text()
			m.isText = true
		case '{', '[':
			m.value, err = s.value(join(path, name), depth-1)
		default:
			m.value, err = s.value("", depth-1)
		}
		if err != nil {
			return err
		}
		if err := each(m); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.i++
		case '}':
			s.i++
			return nil
		default:
			return s.fail("want a comma or } after a value")
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (s *scanner) value(path string, depth int) (any, error) {
	switch c := s.next(); {
	case c == '"':
		return s.text()
	case c == '{':
		return s.object(path, depth)
	case c == '[':
		return s.array(path, depth)
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	default:
		return s.word()
	}
}

func (s *scanner) object(path string, depth int) (any, error) {
	m := map[string]any{}
	var nulls []string
	err := s.members(path, depth, func(one member) error {
		if _, twice := m[one.name]; twice || contains(nulls, one.name) {
			return invalid(join(path, one.name), "is there twice")
		}
		if one.isNull() {
			nulls = append(nulls, one.name)
			return nil
		}
		m[one.name] = one.any()
		return nil
	})
	return m, err
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (s *scanner) array(path string, depth int) (any, error) {
	if depth == 0 {
		return nil, invalid(path, "is nested deeper than %d levels", maxDepth)
	}
	list := []any{}
	s.i++
	if s.next() == ']' {
		s.i++
		return list, nil
	}
	for {
		v, err := s.value(path, depth-1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		switch s.next() {
		case ',':
			s.i++
		case ']':
			s.i++
			return list, nil
		default:
			return nil, s.fail("want a comma or ] after a value")
		}
	}
}

func (s *scanner) word() (any, error) {
	switch {
	case s.skip("true"):
		return true, nil
	case s.skip("false"):
		return false, nil
	case s.skip("null"):
		return nil, nil
	default:
		return nil, s.fail("want a value")
	}
}

// skip passes the word if it comes next.
func (s *scanner) skip(word string) bool {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

func (s *scanner) number() (any, error) {
	start, whole := s.i, true
	if s.b[s.i] == '-' {
		s.i++
	}
	zero := s.i < len(s.b) && s.b[s.i] == '0'
	first := s.i
	if !s.digits() || zero && s.i > first+1 {
		return nil, s.fail("want a number")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		whole = false
		s.i++
		if !s.digits() {
			return nil, s.fail("want digits after the point of a number")
		}
	}
	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		whole = false
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return nil, s.fail("want digits in the exponent of a number")
		}
	}
	text := string(s.b[start:s.i])
	if whole {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, s.fail("a number is too large")
	}
	return f, nil
}

// fieldName is text that does not allocate for the names of a trigger's fields.
func (s *scanner) fieldName() (string, error) {
	for _, name := range fieldNames {
		if end := s.i + 1 + len(name); end < len(s.b) && s.b[end] == '"' && string(s.b[s.i+1:end]) == name {
			s.i = end + 1
			return name, nil
		}
	}
	return s.text()
}

// text reads a quoted text; the next byte is its quote.
func (s *scanner) text() (string, error) {
	s.i++
	start := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			raw := s.b[start:s.i]
			if !utf8.Valid(raw) {
				return "", s.fail("a text is not valid UTF-8")
			}
			s.i++
			return string(raw), nil
		case c == '\\':
			return s.escaped(start)
		case c < 0x20:
			return "", s.fail("a control character must be escaped")
		}
		s.i++
	}
	return "", s.fail("a text has no end")
}

// escaped reads the rest of a text that has an escape at s.i.
func (s *scanner) escaped(start int) (string, error) {
	out := append(make([]byte, 0, 2*(s.i-start)+16), s.b[start:s.i]...)
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			if !utf8.Valid(out) {
				return "", s.fail("a text is not valid UTF-8")
			}
			s.i++
			return string(out), nil
		case c < 0x20:
			return "", s.fail("a control character must be escaped")
		case c != '\\':
			out = append(out, c)
			s.i++
		default:
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return "", s.fail("a text has no end")
}

// escape reads one escape; the next byte is its backslash.
func (s *scanner) escape() (rune, error) {
	if s.i+1 >= len(s.b) {
		return 0, s.fail("a text has no end")
	}
	s.i += 2
	switch c := s.b[s.i-1]; c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return s.unicode()
	default:
		return 0, s.fail("a backslash is followed by something that is no escape")
	}
}

func (s *scanner) unicode() (rune, error) {
	r, ok := s.hex()
	if ok && utf16.IsSurrogate(r) {
		if ok = s.i+1 < len(s.b) && s.b[s.i] == '\\' && s.b[s.i+1] == 'u'; ok {
			s.i += 2
			var low rune
			low, ok = s.hex()
			r = utf16.DecodeRune(r, low)
			ok = ok && r != utf8.RuneError
		}
	}
	if !ok {
		return 0, s.fail(`a \u escape is not four hex digits, or half of a pair`)
	}
	return r, nil
}

func (s *scanner) hex() (rune, bool) {
	if s.i+4 > len(s.b) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.b[s.i:s.i+4]), 16, 16)
	s.i += 4
	return rune(n), err == nil
}
