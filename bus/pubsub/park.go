package pubsub

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// Parker puts away a message that cannot be unmarshalled. When it returns nil
// the message is taken out of the group; otherwise it is called again later.
type Parker func(ctx context.Context, p Parked) error

// Parked is a message that is put away, and why.
type Parked struct {
	Topic  string // it was read from
	Group  string // that read it; "" = none
	Msg    jetstream.Msg
	Meta   *jetstream.MsgMetadata
	Reason error
}
