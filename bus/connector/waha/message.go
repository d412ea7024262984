package waha

import (
	"fmt"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// acks says what each step of a message's way is.
var acks = map[int64]string{
	-1: "message_failed",
	0:  "message_pending",
	1:  "message_sent",
	2:  "message_delivered",
	3:  "message_read",
	4:  "message_read", // played
}

// readAck reads message.ack: how far an own message has come.
func readAck(e *event) connector.Delivery {
	if own, ok := e.payload.Flag("fromMe"); !ok {
		return e.unmapped("ack that does not say whose message it is", "")
	} else if !own {
		return connector.Ignore()
	}
	return ack(e)
}

// ack is the fact that an own message has come as far as its ack says.
func ack(e *event) connector.Delivery {
	id := peer.ID(e.payload, "id")
	if id == "" {
		return e.unmapped("ack without a message", "")
	}
	n, ok := e.payload.Int("ack")
	trigger := acks[n]
	if !ok || trigger == "" {
		return e.unmapped("ack that is none of -1 to 4", "")
	}
	return e.fact(fmt.Sprintf("ack/%s/%d", id, n), func(_ *domain.Account, t domain.Trigger) []domain.Trigger {
		t.Key = id
		return connector.One(t, trigger)
	})
}

// readMessage reads message and message.any, which tell the same message under
// two ids of events.
func readMessage(e *event) connector.Delivery {
	id := peer.ID(e.payload, "id")
	own, told := e.payload.Flag("fromMe")
	if id == "" || !told {
		return e.unmapped("message that lacks its id or does not say whose it is", "")
	}
	if own {
		return readOwn(e, id)
	}
	contact := peer.ID(e.payload, "from")
	if contact == "" {
		return e.unmapped("message without a sender", "")
	}
	if !payload.Person(contact) {
		return connector.Ignore()
	}
	answered := peer.ID(e.payload, "replyTo", "id")
	return e.fact("msg/"+id, func(_ *domain.Account, t domain.Trigger) []domain.Trigger {
		return connector.CustomerMessage(t, contact, id, answered)
	})
}

// readOwn: what came from the phone was written by a human; what came through
// the API is told for its ack. message.any alone tells own messages.
func readOwn(e *event, id string) connector.Delivery {
	source, _ := e.payload.Text("source")
	switch {
	case e.name != "message.any":
		return connector.Ignore()
	case source == "api":
		return ack(e)
	case source != "app":
		return connector.Ignore()
	}
	contact := peer.ID(e.payload, "to")
	if contact == "" {
		return e.unmapped("own message without a receiver", "")
	}
	if !payload.Person(contact) {
		return connector.Ignore()
	}
	return e.fact("msg/"+id, func(_ *domain.Account, t domain.Trigger) []domain.Trigger {
		t.Key = contact
		return connector.One(t, "human_replied")
	})
}
