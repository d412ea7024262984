package pubsub

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Parker puts away a message that cannot be unmarshalled. When it returns nil
// the message is taken out of the group; otherwise it is called again later. It
// may be called twice for one message.
type Parker func(ctx context.Context, p Parked) error

// Parked is a message that is put away, and why.
type Parked struct {
	Topic  string // it was read from
	Group  string // that read it; "" = none
	Msg    jetstream.Msg
	Meta   *jetstream.MsgMetadata
	Reason error
}

// The headers of a message that ParkIn has put away, beside its own. Its own
// Nats-… headers are left out, but for the id.
const (
	HeaderParkedReason    = "Muster-Parked-Reason"
	HeaderParkedTopic     = "Muster-Parked-Topic"
	HeaderParkedGroup     = "Muster-Parked-Group"
	HeaderParkedStream    = "Muster-Parked-Stream"
	HeaderParkedSubject   = "Muster-Parked-Subject"
	HeaderParkedSequence  = "Muster-Parked-Sequence"
	HeaderParkedTime      = "Muster-Parked-Time" // when it was stored, RFC 3339
	HeaderParkedMsgID     = "Muster-Parked-Msg-Id"
	HeaderParkedTruncated = "Muster-Parked-Truncated" // the body's real size in bytes, when it did not fit beside the reason
)

// maxReason bounds the text of a reason in a header, in bytes.
const maxReason = 1 << 10

// ParkIn parks messages in a topic, whose stream is made when it does not
// exist: same body, own headers, and the Muster-Parked headers. A message that
// is parked twice within the stream's duplicate window is stored once.
func ParkIn(js jetstream.JetStream, topology Topology, topic string) Parker {
	return func(ctx context.Context, p Parked) error {
		route, err := topology.route(topic)
		if err != nil {
			return err
		}
		if _, err := route.ensure(ctx, js); err != nil {
			return err
		}
		m := parkedMsg(route.Subject, p)
		_, err = js.PublishMsg(ctx, m)
		if errors.Is(err, nats.ErrMaxPayload) {
			m.Header.Set(HeaderParkedTruncated, strconv.Itoa(len(m.Data)))
			m.Data = m.Data[:len(m.Data)/2]
			_, err = js.PublishMsg(ctx, m)
		}
		if err != nil {
			return fmt.Errorf("publish to %s: %w", route.Subject, err)
		}
		return nil
	}
}

func parkedMsg(subject string, p Parked) *nats.Msg {
	m := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: p.Msg.Data()}
	for k, v := range p.Msg.Headers() {
		if !strings.HasPrefix(k, serverPrefix) {
			m.Header[k] = v
		}
	}
	seq := strconv.FormatUint(p.Meta.Sequence.Stream, 10)
	reason := p.Reason.Error()
	m.Header.Set(HeaderParkedReason, strings.ToValidUTF8(reason[:min(len(reason), maxReason)], ""))
	m.Header.Set(HeaderParkedTopic, p.Topic)
	m.Header.Set(HeaderParkedGroup, p.Group)
	m.Header.Set(HeaderParkedStream, p.Meta.Stream)
	m.Header.Set(HeaderParkedSubject, p.Msg.Subject())
	m.Header.Set(HeaderParkedSequence, seq)
	m.Header.Set(HeaderParkedTime, p.Meta.Timestamp.UTC().Format(time.RFC3339Nano))
	if id := p.Msg.Headers().Get(nats.MsgIdHdr); id != "" {
		m.Header.Set(HeaderParkedMsgID, id)
	}
	m.Header.Set(nats.MsgIdHdr, p.Meta.Stream+":"+seq+":"+p.Group)
	return m
}
