package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/musterhq/muster/bus"
)

// The headers that a parked message has beside its own.
const (
	headerReason  = "Muster-Park-Reason"
	headerSubject = "Muster-Park-Subject"
	headerFirst   = "Muster-Park-Origin"
	headerKept    = "Muster-Kept-" // before a header of its own that would mean something to the server
)

// serverHeaders begin the names of headers that the server acts upon.
const serverHeaders = "Nats-"

// parkWithin bounds the parking of one message.
const parkWithin = 10 * time.Second

// parker is the Watermill publisher that puts a poisoned message away.
type parker struct {
	store  *Store
	counts *counts
}

var _ message.Publisher = parker{}

// Publish parks messages with the reason that the poison queue gives. The bytes
// and headers are those that lie in the stream.
func (p parker) Publish(_ string, messages ...*message.Message) error {
	for _, m := range messages {
		seq, err := sequenceOf(m)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(m.Context()), parkWithin,
			fmt.Errorf("parking took more than %v", parkWithin))
		err = p.store.putAway(ctx, seq, m.Metadata[middleware.ReasonForPoisonedKey])
		cancel()
		if err != nil {
			return fmt.Errorf("park message %d: %w", seq, err)
		}
		p.counts.parked.Add(1)
	}
	return nil
}

// Close does nothing: the store stays.
func (parker) Close() error { return nil }

// putAway copies a message of the inbox into the park.
func (s *Store) putAway(ctx context.Context, seq uint64, reason string) error {
	raw, err := s.in.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil // somebody else has settled it
	}
	if err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	here := origin{raw.Sequence, raw.Time.UnixNano()}
	m := nats.Msg{Subject: bus.ParkSubject(bus.LastToken(raw.Subject)), Data: raw.Data, Header: keep(raw.Header)}
	m.Header.Set(headerReason, oneLine(reason))
	m.Header.Set(headerSubject, raw.Subject)
	m.Header.Set(headerFirst, here.String())
	if first := raw.Header.Get(headerOrigin); first != "" {
		m.Header.Set(headerFirst, first)
	}
	if _, err := s.js.PublishMsg(ctx, &m, jetstream.WithMsgID(here.String())); err != nil {
		return fmt.Errorf("store it: %w", err)
	}
	return nil
}

// keep renames the headers that the server would act upon once more.
func keep(h nats.Header) nats.Header {
	out := nats.Header{}
	for name, values := range h {
		if strings.HasPrefix(name, serverHeaders) {
			name = headerKept + name
		}
		out[name] = values
	}
	return out
}

// own are the headers that a parked message came with.
func own(h nats.Header) nats.Header {
	out := nats.Header{}
	for name, values := range h {
		switch {
		case strings.HasPrefix(name, headerKept):
			out[strings.TrimPrefix(name, headerKept)] = values
		case name == headerReason || name == headerSubject || name == headerFirst || name == headerOrigin || strings.HasPrefix(name, serverHeaders):
		default:
			out[name] = values
		}
	}
	return out
}

// oneLine makes a sentence of a reason: a header is one line.
func oneLine(reason string) string {
	const most = 1024
	line, _, _ := strings.Cut(reason, "\n")
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, line)
}

// republished are the headers with which a parked message goes into the inbox
// again: its own, but for those that the server has acted upon.
func republished(h nats.Header) nats.Header {
	out := own(h)
	maps.DeleteFunc(out, func(name string, _ []string) bool { return strings.HasPrefix(name, serverHeaders) })
	out.Set(headerOrigin, h.Get(headerFirst))
	return out
}
