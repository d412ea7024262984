package pubsub

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The metadata that every message carries which was read. They tell where it
// was read, and are not published again.
const (
	MetaStream     = "nats_stream"     // the stream's name
	MetaSubject    = "nats_subject"    // the subject it was published to
	MetaSequence   = "nats_sequence"   // its stream sequence, decimal
	MetaTime       = "nats_time"       // when it was stored, RFC 3339 with fractions, UTC
	MetaDeliveries = "nats_deliveries" // how often it was delivered, this time included; 1 = the first
)

// HeaderUUID carries a message's Watermill id. It is the name that the
// watermill-nats library uses, so that the two read each other's messages.
const HeaderUUID = "_watermill_message_uuid"

// HeaderEscaped says that the metadata of a message did not fit into headers as
// they are: in all its keys and values %XX stands for a byte.
const HeaderEscaped = "_muster_escaped"

// serverPrefix is how the headers begin that the server acts on. They belong to
// one publish and are never taken over into another.
const serverPrefix = "Nats-"

// Marshaler makes the NATS message that is published for a Watermill message.
type Marshaler interface {
	Marshal(subject string, m *message.Message) (*nats.Msg, error)
}

// Unmarshaler makes a Watermill message of what was read. An error parks it.
type Unmarshaler interface {
	Unmarshal(m jetstream.Msg, meta *jetstream.MsgMetadata) (*message.Message, error)
}

// DefaultMarshaler keeps the payload as the body, the id in HeaderUUID and
// metadata as headers; metadata named Nats-… and the Meta keys are left out.
// What plain NATS clients published is read, too: its id is its Nats-Msg-Id,
// or STREAM:SEQUENCE when it has none, and its headers are its metadata (a
// repeated header's values with ", " between).
type DefaultMarshaler struct{}

var (
	_ Marshaler   = DefaultMarshaler{}
	_ Unmarshaler = DefaultMarshaler{}
)

// Marshal implements Marshaler. The one error is metadata without a name.
func (DefaultMarshaler) Marshal(subject string, m *message.Message) (*nats.Msg, error) {
	h := make(nats.Header, len(m.Metadata)+1)
	escaped := needsEscape(m.UUID)
	for k, v := range m.Metadata {
		if k == "" {
			return nil, errors.New("metadata without a name cannot be published")
		}
		escaped = escaped || needsEscapeKey(k) || needsEscape(v)
	}
	put := func(k, v string) { h[k] = []string{v} }
	if escaped {
		put(HeaderEscaped, "1")
	}
	for k, v := range m.Metadata {
		switch {
		case describes(k), strings.HasPrefix(k, serverPrefix), k == HeaderUUID, k == HeaderEscaped:
		case escaped:
			put(escapeKey(k), escapeValue(v))
		default:
			put(k, v)
		}
	}
	if escaped {
		put(HeaderUUID, escapeValue(m.UUID))
	} else {
		put(HeaderUUID, m.UUID)
	}
	return &nats.Msg{Subject: subject, Header: h, Data: m.Payload}, nil
}

// Unmarshal implements Unmarshaler. It refuses a message of Marshal's whose
// escapes are broken, or that has two ids.
func (DefaultMarshaler) Unmarshal(m jetstream.Msg, meta *jetstream.MsgMetadata) (*message.Message, error) {
	h := m.Headers()
	ids, ours := h[HeaderUUID]
	if len(ids) > 1 {
		return nil, fmt.Errorf("the message has %d headers %s", len(ids), HeaderUUID)
	}
	escaped := ours && len(h[HeaderEscaped]) > 0
	var id string
	switch {
	case ours:
		id = ids[0]
	case h.Get(nats.MsgIdHdr) != "":
		id = h.Get(nats.MsgIdHdr)
	default:
		id = meta.Stream + ":" + strconv.FormatUint(meta.Sequence.Stream, 10)
	}
	if escaped {
		var err error
		if id, err = unescape(id); err != nil {
			return nil, err
		}
	}
	msg := message.NewMessage(id, m.Data())
	msg.Metadata = make(message.Metadata, len(h)+5)
	if err := readHeaders(msg.Metadata, h, ours, escaped); err != nil {
		return nil, err
	}
	return msg, nil
}

// describe writes where a message was read into its metadata.
func describe(msg *message.Message, m jetstream.Msg, meta *jetstream.MsgMetadata, deliveries int) {
	if msg.Metadata == nil {
		msg.Metadata = message.Metadata{}
	}
	msg.Metadata[MetaStream] = meta.Stream
	msg.Metadata[MetaSubject] = m.Subject()
	msg.Metadata[MetaSequence] = strconv.FormatUint(meta.Sequence.Stream, 10)
	msg.Metadata[MetaTime] = meta.Timestamp.UTC().Format(time.RFC3339Nano)
	msg.Metadata[MetaDeliveries] = strconv.Itoa(deliveries)
}

func readHeaders(into message.Metadata, h nats.Header, ours, escaped bool) error {
	for k, values := range h {
		if ours && (k == HeaderUUID || k == HeaderEscaped) {
			continue
		}
		v := strings.Join(values, ", ")
		if escaped && !strings.HasPrefix(k, serverPrefix) {
			var err error
			if k, err = unescape(k); err != nil {
				return err
			}
			if v, err = unescape(v); err != nil {
				return err
			}
		}
		into[k] = v
	}
	return nil
}

// describes says whether a metadata key tells where a message was read.
func describes(key string) bool {
	switch key {
	case MetaStream, MetaSubject, MetaSequence, MetaTime, MetaDeliveries:
		return true
	}
	return false
}

// needsEscapeKey says whether a header cannot have this name: it would be
// refused, read as another, or taken for a status of the server.
func needsEscapeKey(k string) bool {
	if k == statusHeader {
		return true
	}
	for i := range len(k) {
		if badInKey(k[i]) {
			return true
		}
	}
	return false
}

func badInKey(c byte) bool { return c <= ' ' || c >= 0x7f || c == ':' }

// statusHeader marks what the server itself says.
const statusHeader = "Status"

// needsEscape says whether a header's value would be altered on its way.
func needsEscape(v string) bool {
	return v != "" && (blank(v[0]) || blank(v[len(v)-1]) || strings.ContainsAny(v, "\r\n\x00"))
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

func escapeKey(k string) string {
	return escape(k, func(i int) bool { return badInKey(k[i]) || (i == 0 && k == statusHeader) })
}

func escapeValue(v string) string {
	return escape(v, func(i int) bool {
		return v[i] < ' ' || ((i == 0 || i == len(v)-1) && v[i] == ' ')
	})
}

// escape writes percent signs, and the bytes that must not stand as they are,
// as %XX.
func escape(s string, must func(i int) bool) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] == '%' || must(i) {
			fmt.Fprintf(&b, "%%%02X", s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("the header %q ends within an escape", s)
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("the header %q has a bad escape: %w", s, err)
		}
		b = append(b, byte(c))
		i += 2
	}
	return string(b), nil
}
