package domain

import (
	"maps"
	"slices"
	"strings"

	"github.com/musterhq/muster/domain/machine"
)

// ParseTrigger reads a trigger from the JSON object that publishers send (a
// trace line has the same form). It is strict: unknown and repeated fields,
// wrong types, secrets in data and Muster's own triggers are refused. The error
// is an [InvalidError]; the trigger then holds what could be read, to name the
// account in an answer.
func ParseTrigger(json []byte) (Trigger, error) {
	t, err := ParseLine(json)
	if err == nil {
		err = t.checkPublished()
	}
	return t, err
}

// ParseLine is ParseTrigger for lines of a trace, which may come from Muster
// itself: an exported history holds its own triggers, too.
func ParseLine(json []byte) (Trigger, error) {
	s := scanner{b: json}
	members, err := s.top()
	if err != nil {
		return Trigger{Expect: NoExpect}, err
	}
	return fromMembers(members)
}

// TriggerFromMap reads a trigger from a decoded map: the same names, rules and
// errors as ParseTrigger. A time may also be a time.Time.
func TriggerFromMap(m map[string]any) (Trigger, error) {
	f := NewFields()
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if s, ok := m[name].(string); ok {
			f.Text(name, s)
		} else {
			f.Value(name, m[name])
		}
	}
	return f.Trigger()
}

// Fields makes a trigger of its fields as a decoder meets them, by the rules of
// ParseTrigger, without a map between. Use NewFields.
type Fields struct {
	t    Trigger
	seen uint32
	err  error // of the first bad field
}

// NewFields returns a Fields that has met none yet.
func NewFields() Fields { return Fields{t: Trigger{Expect: NoExpect}} }

// Text takes a field whose value is a text.
func (f *Fields) Text(name, v string) { f.member(&member{name: name, text: v, isText: true}) }

// Value takes a field with any other value: nil, bool, int64, uint64, float64,
// []byte, []any, map[string]any or time.Time.
func (f *Fields) Value(name string, v any) { f.member(&member{name: name, value: v}) }

// Number takes a field whose value is a whole number.
func (f *Fields) Number(name string, n int64) {
	switch i := slices.Index(fieldNames, name); {
	case i < 0 || f.seen&(1<<i) != 0 || n < 0:
	case name == "epoch":
		f.t.Epoch, f.seen = n, f.seen|1<<i
		return
	case name == "seq":
		f.t.Seq, f.seen = n, f.seen|1<<i
		return
	case name == "expect":
		f.t.Expect, f.seen = n, f.seen|1<<i
		return
	}
	f.Value(name, n)
}

// Trigger returns the trigger and the first error: an [InvalidError], with
// what could be read of the trigger, to name the account in an answer.
func (f *Fields) Trigger() (Trigger, error) {
	t, err := f.line()
	if err == nil {
		err = t.checkPublished()
	}
	return t, err
}

// line is Trigger for what may come from Muster itself.
func (f *Fields) line() (Trigger, error) {
	if f.err != nil {
		return f.t, f.err
	}
	return f.t, f.t.check()
}

// member takes one field. It goes on after a bad one, so that the others are
// known.
func (f *Fields) member(m *member) {
	i := slices.Index(fieldNames, m.name)
	var err error
	switch {
	case i < 0:
		err = unknownField(m.name)
	case f.seen&(1<<i) != 0:
		err = invalid(m.name, "is there twice")
	case !m.isNull():
		err = f.t.set(m)
	}
	if i >= 0 {
		f.seen |= 1 << i
	}
	if f.err == nil {
		f.err = err
	}
}

// member is one name and value of an object, in the order of the text. A text
// stands in its own field, which saves an allocation.
type member struct {
	name   string
	text   string
	isText bool
	value  any // of all other types; nil for a text
}

func newMember(name string, v any) member {
	if s, ok := v.(string); ok {
		return member{name: name, text: s, isText: true}
	}
	return member{name: name, value: v}
}

func (m *member) isNull() bool { return !m.isText && m.value == nil }

// any gives the value, whatever its type.
func (m *member) any() any {
	if m.isText {
		return m.text
	}
	return m.value
}

// fieldRecorded is the field that only lines of an exported history have.
const fieldRecorded = "recorded"

// published are the fields of a trigger that publishers give, in the order in which
// they are written; fieldNames are all.
var (
	published  = []string{"id", "account", "trigger", "key", "at", "source", "epoch", "seq", "by", "reason", "data", "expect", "machine", "mode", "labels"}
	fieldNames = append(slices.Clone(published), fieldRecorded)
)

// fromMembers makes a trigger of an object's members.
func fromMembers(members []member) (Trigger, error) {
	f := NewFields()
	for i := range members {
		f.member(&members[i])
	}
	return f.line()
}

func unknownField(name string) error {
	if near := machine.Closest(name, published); near != "" {
		return invalid(name, "is not a field of a trigger; did you mean %s?", near)
	}
	return invalid(name, "is not a field of a trigger; the fields are %s", strings.Join(published, ", "))
}

// set fills the field of the member's name, one of fieldNames.
func (t *Trigger) set(m *member) (err error) {
	switch m.name {
	case "id":
		t.ID, err = m.asText()
	case "account":
		var s string
		s, err = m.asText()
		t.Account = AccountID(s)
	case "trigger":
		t.Name, err = m.asText()
	case "key":
		t.Key, err = m.asText()
	case "at":
		t.At, err = m.asInstant()
		t.HasAt = err == nil
	case "source":
		t.Source, err = m.asText()
	case "epoch":
		t.Epoch, err = count(m.name, m.any())
	case "seq":
		t.Seq, err = count(m.name, m.any())
	case "by":
		var s string
		s, err = m.asText()
		t.By = Initiator(s)
	case "reason":
		t.Reason, err = reason(m.any())
	case "data":
		t.Data, err = data(m.any())
	case "expect":
		var n int64
		if n, err = count(m.name, m.any()); err == nil {
			t.Expect = n
		}
	case "machine":
		t.Machine, err = m.asText()
	case "mode":
		t.Mode, err = m.asText()
	case "labels":
		t.Labels, err = labels(m.name, m.any())
	case fieldRecorded:
		t.Recorded, err = m.asInstant()
	}
	return err
}

func (m *member) asText() (string, error) {
	if !m.isText {
		return text(m.name, m.value)
	}
	return m.text, validText(m.name, m.text)
}

func (m *member) asInstant() (int64, error) {
	if m.isText {
		return instantText(m.name, m.text)
	}
	return instant(m.name, m.value)
}
