package dispatch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/musterhq/muster/bus"
	"github.com/musterhq/muster/bus/connector/cloudevents"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog/codec"
)

// format is how a request is written and its answer will be.
type format struct {
	msgpack bool
	event   bool        // a CloudEvent, answered in JSON
	header  nats.Header // of the answer; nil: the request named no type. Shared, never changed
}

// The headers of answers to requests that name their type.
var (
	jsonHeader    = nats.Header{bus.HeaderContentType: {bus.TypeJSON}}
	msgpackHeader = nats.Header{bus.HeaderContentType: {bus.TypeMsgpack}}
)

// Header returns a header's value; not every client writes names in the same case.
func Header(h nats.Header, name string) string {
	if len(h) == 0 {
		return ""
	}
	if v := h.Get(name); v != "" {
		return v
	}
	for k := range h {
		if strings.EqualFold(k, name) {
			return h.Get(k)
		}
	}
	return ""
}

func (f format) name() string {
	if f.msgpack {
		return bus.TypeMsgpack
	}
	return bus.TypeJSON
}

// badInput is why a request is invalid: a sentence, and the code of the micro error.
type badInput struct {
	code   int
	reason string
}

// formatOf reads the content type, or, when there is none, the first byte.
func formatOf(h nats.Header, data []byte) (format, *badInput) {
	if cloudevents.InMessage(h) {
		return format{event: true, header: jsonHeader}, nil
	}
	ct := Header(h, bus.HeaderContentType)
	switch ct {
	case "":
		return format{msgpack: len(data) > 0 && (data[0]&0xf0 == 0x80 || data[0] == 0xde || data[0] == 0xdf)}, nil
	case bus.TypeJSON:
		return format{header: jsonHeader}, nil
	case bus.TypeMsgpack:
		return format{msgpack: true, header: msgpackHeader}, nil
	}
	media, _, err := mime.ParseMediaType(ct)
	if err == nil {
		switch media {
		case bus.TypeJSON:
			return format{header: jsonHeader}, nil
		case bus.TypeMsgpack, "application/x-msgpack":
			return format{msgpack: true, header: msgpackHeader}, nil
		}
	}
	return format{header: jsonHeader}, &badInput{
		code:   http.StatusUnsupportedMediaType,
		reason: fmt.Sprintf("content type %q is not known; send %s or %s", ct, bus.TypeJSON, bus.TypeMsgpack),
	}
}

// read decodes a request. When it is bad, the trigger holds what is known of it.
func read(in *incoming) (domain.Trigger, format, *badInput) {
	f, bad := formatOf(in.header, in.data)
	account, err := bus.AccountOf(in.subject)
	known := domain.Trigger{Account: domain.AccountID(account)}
	if bad != nil {
		return known, f, bad
	}
	if err == nil {
		_, err = domain.ParseAccountID(account)
	}
	if err != nil {
		return known, f, &badInput{http.StatusBadRequest, fmt.Sprintf("subject %q: %v", in.subject, err)}
	}
	if len(in.data) == 0 && !f.event {
		return known, f, &badInput{http.StatusBadRequest, `the body is empty; it is an object such as {"trigger":"start"}`}
	}
	t, err := parseAny(f, in, account)
	if err != nil {
		return t, f, &badInput{http.StatusBadRequest, err.Error()}
	}
	if t.Account != known.Account {
		return t, f, &badInput{http.StatusBadRequest,
			fmt.Sprintf("the body is about account %q, but the subject is that of %q", t.Account, known.Account)}
	}
	trace(&t, in.header)
	return t, f, nil
}

// parseAny decodes a request of any format. One that leaves the account out is
// about the subject's; an event names it itself.
func parseAny(f format, in *incoming, account string) (domain.Trigger, error) {
	if f.event {
		t, err := cloudevents.FromMessage(in.header, in.data)
		if t.Account == "" {
			t.Account = domain.AccountID(account)
		}
		return t, err
	}
	t, err := parse(f, in.data)
	if t.Account == "" {
		t, err = parseFor(f, in.data, t, err, account)
	}
	return t, err
}

func parse(f format, data []byte) (domain.Trigger, error) {
	if f.msgpack {
		return codec.TriggerFromMsgpack(data)
	}
	return domain.ParseTrigger(data)
}

// parseFor reads a body that was refused for naming no account once more, with
// the subject's account written into it: the decoders stay the only place that
// knows what a trigger is. A body that names a bad account keeps its error.
func parseFor(f format, data []byte, t domain.Trigger, err error, account string) (domain.Trigger, error) {
	var invalid *domain.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "account" {
		t.Account = domain.AccountID(account)
		return t, err
	}
	again, errAgain := parse(f, withAccount(f, data, account))
	if errors.As(errAgain, &invalid) && invalid.Field == "account" {
		t.Account = domain.AccountID(account)
		return t, err
	}
	return again, errAgain
}

// withAccount writes an account in front of the fields of an object.
func withAccount(f format, data []byte, account string) []byte {
	if f.msgpack {
		fields, rest := packedFields(data)
		b := []byte{0xdf, byte((fields + 1) >> 24), byte((fields + 1) >> 16), byte((fields + 1) >> 8), byte(fields + 1)}
		b = append(b, "\xa7account\xd9"...)
		b = append(b, byte(len(account)))
		return append(append(b, account...), rest...)
	}
	quoted, err := json.Marshal(account)
	_, rest, ok := bytes.Cut(data, []byte("{"))
	if err != nil || !ok {
		return data
	}
	b := append([]byte(`{"account":`), quoted...)
	if !bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte("}")) {
		b = append(b, ',')
	}
	return append(b, rest...)
}

// packedFields splits a msgpack map into its number of fields and the fields.
func packedFields(data []byte) (n uint32, rest []byte) {
	switch {
	case data[0]&0xf0 == 0x80:
		return uint32(data[0] & 0x0f), data[1:]
	case data[0] == 0xde && len(data) >= 3:
		return uint32(binary.BigEndian.Uint16(data[1:])), data[3:]
	case data[0] == 0xdf && len(data) >= 5:
		return binary.BigEndian.Uint32(data[1:]), data[5:]
	default:
		return 0, nil
	}
}

// trace takes the trace context over from the headers.
func trace(t *domain.Trigger, h nats.Header) {
	if len(h) == 0 {
		return
	}
	for _, c := range [...]struct {
		to   *string
		name string
	}{
		{&t.Traceparent, bus.HeaderTraceparent}, {&t.Correlation, bus.HeaderCorrelation}, {&t.Causation, bus.HeaderCausation},
	} {
		if v := Header(h, c.name); v != "" && len(v) <= maxTrace {
			*c.to = v
		}
	}
}

// maxTrace is the longest trace value in bytes that goes into a record; a
// longer one is left out, for it is never worth a refusal.
const maxTrace = 128
