package cloudevents

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// The content types of the modes that are no binary mode.
const (
	TypeStructured = "application/cloudevents+json"
	TypeBatch      = "application/cloudevents-batch+json"
)

// typePrefix begins the content types of all formats.
const typePrefix = "application/cloudevents"

// headerPrefix is in front of attributes in binary mode.
const headerPrefix = "ce-"

// read takes the events from headers and body, in the mode that they are in.
func read(header map[string][]string, body []byte) ([]event, error) {
	switch media := mediaType(header); {
	case media == TypeStructured:
		e, err := structured(body)
		return []event{e}, err
	case media == TypeBatch:
		return batch(body)
	case strings.HasPrefix(media, typePrefix):
		return nil, errors.New("events in this format are not read; send " + TypeStructured)
	default:
		e, err := binary(header, body)
		return []event{e}, err
	}
}

// mediaType is the content type in small letters, without parameters.
func mediaType(header map[string][]string) string {
	for name, values := range header {
		if !strings.EqualFold(name, "Content-Type") || len(values) == 0 {
			continue
		}
		if !strings.Contains(values[0], ";") { // as nearly always, and ten times faster
			return strings.ToLower(strings.TrimSpace(values[0]))
		}
		if media, _, err := mime.ParseMediaType(values[0]); err == nil {
			return media
		}
		media, _, _ := strings.Cut(values[0], ";")
		return strings.ToLower(strings.TrimSpace(media))
	}
	return ""
}

// binary reads an event whose attributes are in headers. The body is its data, in
// whatever form, which matters only when the event is meant for Muster.
func binary(header map[string][]string, body []byte) (event, error) {
	e := event{attributes: map[string]string{}, data: body}
	for name, values := range header {
		if !IsHeader(name) {
			continue
		}
		name = strings.ToLower(name[len(headerPrefix):])
		if _, twice := e.attributes[name]; twice || len(values) > 1 {
			return e, fmt.Errorf("%s is there twice", clip(name))
		}
		for _, v := range values {
			v = percentDecoded(unquoted(v))
			if !utf8.ValidString(v) {
				return e, fmt.Errorf("%s is not valid UTF-8", clip(name))
			}
			e.attributes[name] = v
		}
	}
	return e, nil
}

// unquoted is a header's value without the quotes around it.
func unquoted(v string) string {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return v
	}
	out := make([]byte, 0, len(v))
	for i := 1; i < len(v)-1; i++ {
		if v[i] == '\\' && i+1 < len(v)-1 {
			i++
		}
		out = append(out, v[i])
	}
	return string(out)
}

// percentDecoded decodes once; what is no escape stays as it is.
func percentDecoded(v string) string {
	if s, err := url.PathUnescape(v); err == nil {
		return s
	}
	out := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if v[i] == '%' && i+2 < len(v) {
			if s, err := url.PathUnescape(v[i : i+3]); err == nil {
				out = append(out, s...)
				i += 2
				continue
			}
		}
		out = append(out, v[i])
	}
	return string(out)
}

// The members of a structured event that are no attributes.
const (
	dataMember    = "data"
	encodedMember = "data_base64"
)

// structured reads an event that is one JSON object.
func structured(body []byte) (event, error) {
	e := event{attributes: map[string]string{}}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return e, errors.New("it is not a JSON object; want {…}")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) { // so that of several errors always the same is told
		if name == dataMember || name == encodedMember {
			continue
		}
		v, err := attribute(name, members[name])
		if err != nil {
			return e, err
		}
		e.attributes[name] = v
	}
	return e, e.take(members[dataMember], members[encodedMember])
}

// take sets the data, which is given as JSON or, as bytes, in base64.
func (e *event) take(data, encoded json.RawMessage) error {
	hasData, hasEncoded := data != nil && string(data) != "null", encoded != nil && string(encoded) != "null"
	switch {
	case hasData && hasEncoded:
		return errors.New("data is there twice, as data and as data_base64")
	case hasEncoded:
		var text string
		if err := json.Unmarshal(encoded, &text); err != nil {
			return errors.New("data_base64 is not a text")
		}
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return errors.New("data_base64 is not base64")
		}
		e.data = decoded
	case hasData:
		e.data = data
	}
	return nil
}

// numbers are the attributes that may be numbers instead of texts.
var numbers = map[string]bool{"epoch": true, "sequence": true}

// texts are the attributes that matter and must be texts.
var texts = map[string]bool{
	"specversion": true, "id": true, "source": true, "type": true, "subject": true, "time": true, "traceparent": true,
}

// attribute reads an attribute's value; null is as good as none. Attributes that
// nobody asks for may be anything.
func attribute(name string, raw json.RawMessage) (string, error) {
	text, isNull := "", string(raw) == "null"
	switch {
	case isNull || !texts[name] && !numbers[name]:
		return "", nil
	case numbers[name] && raw[0] != '"':
		return string(raw), nil // [event.count] says whether it is one
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("%s is not a text", name)
	}
	return text, nil
}

// batch reads a list of events.
func batch(body []byte) ([]event, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil || list == nil {
		return nil, errors.New("the body is not a JSON list; want […]")
	}
	events := make([]event, 0, len(list))
	for i, raw := range list {
		e, err := structured(raw)
		e.place = i + 1
		if err != nil {
			return nil, e.fault(err)
		}
		events = append(events, e)
	}
	return events, nil
}
