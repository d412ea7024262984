package peer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Object is a JSON object as a peer sent it. A field that is missing, null, or
// of another type than the one asked for reads as nothing.
type Object map[string]any

// Read reads a body that must be one JSON object. The error is a sentence for
// the sender.
func Read(body []byte) (Object, error) {
	v, err := ReadAny(body)
	if err != nil {
		return nil, err
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the body is not an object; want {…}")
	}
	return o, nil
}

// ReadAny reads a body that must be one JSON value. Numbers stay as they were
// written ([json.Number]). The error is a sentence for the sender.
func ReadAny(body []byte) (any, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not JSON: it is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, notJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the body is not JSON: something follows the value")
	}
	return v, nil
}

// notJSON says where reading ended and quotes nothing of what was read.
func notJSON(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the body is empty; want JSON")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body is not JSON: it is cut off")
	case errors.As(err, &syntax):
		return fmt.Errorf("the body is not JSON: reading ended at byte %d", syntax.Offset)
	default:
		return errors.New("the body is not JSON")
	}
}

// Has says whether the field is there and not null.
func (o Object) Has(name string) bool { return o[name] != nil }

// Object returns a field that is an object, nil otherwise.
func (o Object) Object(name string) Object {
	m, _ := o[name].(map[string]any)
	return m
}

// Objects returns the elements of a list; one that is no object is an empty one.
// ok is false when the field is no list.
func (o Object) Objects(name string) (list []Object, ok bool) {
	values, ok := o[name].([]any)
	for _, v := range values {
		m, _ := v.(map[string]any)
		list = append(list, m)
	}
	return list, ok
}

// Text returns a text, or a number as it was written; "" otherwise.
func (o Object) Text(name string) string {
	switch v := o[name].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	default:
		return ""
	}
}

// maxID is the longest id in bytes that is believed to be one. Real ones have
// less than a hundred.
const maxID = 512

// ID is Text for what names something: a message, a contact, a state. A text
// that is too long for that reads as nothing.
func (o Object) ID(name string) string {
	s := o.Text(name)
	if len(s) > maxID {
		return ""
	}
	return s
}

// Int returns a whole number, also one that is written as text.
func (o Object) Int(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(o.Text(name), 10, 64)
	return n, err == nil
}

// Bool returns a field that is true; false otherwise.
func (o Object) Bool(name string) bool {
	b, _ := o[name].(bool)
	return b
}

// Seconds returns a time in whole unix seconds, as unix nanoseconds. ok is false
// when there is none, or none that can be meant.
func (o Object) Seconds(name string) (ns int64, ok bool) {
	n, ok := o.Int(name)
	if !ok || n <= 0 || n > math.MaxInt64/int64(time.Second) {
		return 0, false
	}
	return n * int64(time.Second), true
}

// timeLayouts are the ways in which peers write a time as text.
var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05Z0700"}

// Instant is Seconds that takes a time as text, too.
func (o Object) Instant(name string) (ns int64, ok bool) {
	if ns, ok := o.Seconds(name); ok {
		return ns, true
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, o.Text(name)); err == nil {
			return t.UnixNano(), t.Year() > 1970 && t.Year() < 2200
		}
	}
	return 0, false
}

// Digits returns the digits of a text, such as those of a phone number.
func Digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// Hash names a thing that has no name, by all of its content: 32 hex digits,
// equal for equal values in whatever order their fields were written.
func Hash(parts ...any) string {
	b, err := json.Marshal(parts) // sorts the fields of objects
	if err != nil {
		panic("peer: a value that was read from JSON cannot be written: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// maxKept is how many bytes of a text are kept, for a reason or a sample.
const maxKept = 200

// Clip shortens a text to what is worth keeping.
func Clip(s string) string {
	if len(s) <= maxKept {
		return s
	}
	return strings.ToValidUTF8(s[:maxKept], "") + "…"
}
