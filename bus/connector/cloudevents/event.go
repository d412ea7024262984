package cloudevents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/musterhq/muster/domain"
)

// TypePrefix is in front of the trigger in the type of an event that is meant for
// Muster.
const TypePrefix = "muster."

// event is one CloudEvent: its attributes, as texts, and its data as JSON.
type event struct {
	attributes map[string]string
	data       []byte // nil or blank: none
	place      int    // in a batch, from 1; 0: it came alone
}

// fault says which event of a batch an error is about.
func (e *event) fault(err error) error {
	if e.place == 0 {
		return err
	}
	return fmt.Errorf("event %d: %w", e.place, err)
}

// check looks at what every event has.
func (e *event) check() error {
	if v := e.attributes["specversion"]; v != "1.0" {
		if v == "" {
			return errors.New("specversion is missing; want 1.0")
		}
		return errors.New("specversion is not known; want 1.0")
	}
	required := []string{"id", "source", "type"}
	if e.ours() {
		required = append(required, "subject")
	}
	for _, name := range required {
		if e.attributes[name] == "" {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return nil
}

// ours says whether the event is meant for Muster.
func (e *event) ours() bool { return strings.HasPrefix(e.attributes["type"], TypePrefix) }

// dataFields are the fields that the data may have: those of a trigger that no
// attribute gives.
var dataFields = []string{"by", "reason", "key", "data", "labels", "machine", "mode", "expect"}

// trigger makes the trigger that the event is, by the rules of a trace line.
func (e *event) trigger() (domain.Trigger, error) {
	line := []byte(`{`)
	text := func(name, value string) {
		if value == "" {
			return
		}
		quoted, err := json.Marshal(value)
		if err != nil { // a text always can be written
			quoted = []byte(`""`)
		}
		line = append(append(append(line, '"'), name...), `":`...)
		line = append(append(line, quoted...), ',')
	}
	text("account", e.attributes["subject"])
	text("source", e.attributes["source"])
	text("id", e.attributes["source"]+"#"+e.attributes["id"])
	text("at", e.attributes["time"])
	text("trigger", strings.TrimPrefix(e.attributes["type"], TypePrefix))
	fields, err := e.fields()
	if err != nil {
		return domain.Trigger{}, err
	}
	line = bytes.TrimSuffix(append(line, fields...), []byte(","))
	t, err := domain.ParseTrigger(append(line, '}'))
	if err != nil {
		return t, inTheirWords(err)
	}
	if t.Epoch, err = e.count("epoch"); err != nil {
		return t, err
	}
	if t.Seq, err = e.count("sequence"); err != nil {
		return t, err
	}
	if p := e.attributes["traceparent"]; len(p) <= maxTraceparent {
		t.Traceparent = p
	}
	return t, nil
}

// maxTraceparent is the longest trace context that is kept, in bytes.
const maxTraceparent = 128

// fields returns the members of the data, without the braces around them.
func (e *event) fields() ([]byte, error) {
	raw := bytes.TrimSpace(e.data)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, errors.New("data is not a JSON object; want {…}")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(dataFields, name) {
			return nil, &domain.InvalidError{Field: "data", Reason: fmt.Sprintf("%q is no field of it; the fields are %s", clip(name), strings.Join(dataFields, ", "))}
		}
	}
	return bytes.TrimSpace(raw[1 : len(raw)-1]), nil
}

func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// count reads an extension that is a decimal number; 0 when it is not there.
func (e *event) count(name string) (int64, error) {
	v := e.attributes[name]
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil {
		return 0, &domain.InvalidError{Field: name, Reason: "want a decimal number from 0 to 9223372036854775807"}
	}
	return int64(n), nil
}

// attributeOf says which attribute gives a field of a trigger.
var attributeOf = map[string]string{"account": "subject", "trigger": "type", "at": "time", "id": "id"}

// inTheirWords names the attribute instead of the field that it gives.
func inTheirWords(err error) error {
	var invalid *domain.InvalidError
	if !errors.As(err, &invalid) || attributeOf[invalid.Field] == "" {
		return err
	}
	return &domain.InvalidError{Field: attributeOf[invalid.Field], Reason: invalid.Reason}
}
