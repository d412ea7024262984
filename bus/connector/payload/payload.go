package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrNotObject is the error of Parse. It says nothing of the body.
var ErrNotObject = errors.New("the body is not a JSON object")

// Object is a JSON object. Numbers are json.Number; of a name that stands twice
// the last value counts.
type Object map[string]any

// Parse reads a body that must be one JSON object.
func Parse(body []byte) (Object, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, ErrNotObject
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, ErrNotObject
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, ErrNotObject
	}
	return o, nil
}

// At is the value at the end of a path of names, nil when there is none.
func (o Object) At(path ...string) any {
	var v any = map[string]any(o)
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// Has says that something other than null is there.
func (o Object) Has(path ...string) bool { return o.At(path...) != nil }

// Object is the object at a path.
func (o Object) Object(path ...string) (Object, bool) {
	m, ok := o.At(path...).(map[string]any)
	return m, ok
}

// List is the list at a path.
func (o Object) List(path ...string) ([]any, bool) {
	l, ok := o.At(path...).([]any)
	return l, ok
}

// Text is a text that is not empty.
func (o Object) Text(path ...string) (string, bool) {
	s, ok := o.At(path...).(string)
	return s, ok && s != ""
}

// Code is a text or a number, as it is written: what a peer calls a code.
func (o Object) Code(path ...string) (string, bool) { return Code(o.At(path...)) }

// Int is a whole number, or a text that holds one.
func (o Object) Int(path ...string) (int64, bool) { return Int(o.At(path...)) }

// Flag is true or false, or one of them as a text.
func (o Object) Flag(path ...string) (value, ok bool) {
	switch v := o.At(path...).(type) {
	case bool:
		return v, true
	case string:
		return v == "true", v == "true" || v == "false"
	}
	return false, false
}

// Code is a value that is a text or a number, as it is written.
func Code(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, v != ""
	case json.Number:
		if n, ok := Int(v); ok {
			return strconv.FormatInt(n, 10), true
		}
		return Clip(v.String()), true
	}
	return "", false
}

// Int is a value that is a whole number, or a text that holds one.
func Int(v any) (int64, bool) {
	text := ""
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	if text == "" || len(text) > 32 {
		return 0, false
	}
	if n, err := json.Number(text).Int64(); err == nil {
		return n, true
	}
	// 1.7e12 and 401.0 are whole numbers, too.
	f, err := json.Number(text).Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// The first second of 1990 in the units in which peers write times: what lies
// below is no time of a fact in that unit.
const (
	earliest  = 631152000
	latest    = 7258118400 // the year 2200, which is as far as the judge goes
	perSecond = int64(time.Second)
	perMilli  = int64(time.Millisecond)
)

// Unix is a time in seconds or milliseconds since 1970, in unix nanoseconds;
// the size of the number says which. Anything else is no time.
func Unix(v any) (ns int64, ok bool) {
	n, ok := Int(v)
	switch {
	case !ok:
		return 0, false
	case n >= earliest && n < latest:
		return n * perSecond, true
	case n >= earliest*1000 && n < latest*1000:
		return n * perMilli, true
	}
	return 0, false
}

// RFC3339 is a time as text, in unix nanoseconds.
func RFC3339(v any) (ns int64, ok bool) {
	s, _ := v.(string)
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, false
	}
	if sec := t.Unix(); sec < earliest || sec >= latest {
		return 0, false
	}
	return t.UnixNano(), true
}

// Clip shortens a name that came from outside and goes into a sample or a log.
func Clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	cut := s[:most]
	for !utf8.ValidString(cut) && cut != "" {
		cut = cut[:len(cut)-1]
	}
	return cut + "…"
}

// Pick is the sample of a payload: only what is named, and only texts, numbers
// and flags, shortened.
func (o Object) Pick(names ...string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		switch v := o[name].(type) {
		case string:
			out[name] = Clip(v)
		case bool:
			out[name] = v
		case json.Number:
			out[name] = Clip(v.String())
		}
	}
	return out
}

// notPersons are the parts behind the @ of ids that are no person.
var notPersons = map[string]bool{
	"g.us": true, "broadcast": true, "newsletter": true, "call": true, "bot": true,
}

// Person says whether a WhatsApp id (15550100077@c.us, 1000@lid) names a person:
// no group, status, broadcast list or channel.
func Person(id string) bool {
	user, server, found := strings.Cut(id, "@")
	return found && user != "" && user != "status" && !notPersons[server]
}
