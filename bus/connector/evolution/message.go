package evolution

import (
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// steps says what each status of a message is; "" = of no interest.
var steps = map[string]string{
	"ERROR":        "message_failed",
	"PENDING":      "message_pending",
	"SERVER_ACK":   "message_sent",
	"DELIVERY_ACK": "message_delivered",
	"READ":         "message_read",
	"PLAYED":       "message_read",
	"DELETED":      "",
}

// readSent reads send.message: the server has taken a message to send.
func readSent(e *event) connector.Delivery {
	id := peer.ID(e.data, "key", "id")
	if id == "" {
		return e.unmapped("sent message without an id", "")
	}
	return e.fact(e.id(), func(_ *domain.Account, t domain.Trigger) []domain.Trigger {
		t.Key = id
		return connector.One(t, "message_pending")
	})
}

// readUpdate reads messages.update: how far an own message has come. The same
// message with another status is another fact.
func readUpdate(e *event) connector.Delivery {
	id, status := peer.ID(e.data, "keyId"), peer.ID(e.data, "status")
	own, told := e.data.Flag("fromMe")
	trigger, known := steps[status]
	switch {
	case !told:
		return e.unmapped("message update that does not say whose message it is", "")
	case !own:
		return connector.Ignore()
	case !known:
		return e.unmapped("message status", status)
	case trigger == "":
		return connector.Ignore()
	case id == "":
		return e.unmapped("message update without an id", "")
	}
	return e.fact("ack/"+id+"/"+status, func(_ *domain.Account, t domain.Trigger) []domain.Trigger {
		t.Key = id
		return connector.One(t, trigger)
	})
}

// nothingSaid are types of messages in which a contact says nothing.
var nothingSaid = map[string]bool{"reactionMessage": true, "encReactionMessage": true, "protocolMessage": true}

// readMessage reads messages.upsert. Own ones are of no interest: whether a human
// or the API wrote them is not told.
func readMessage(e *event) connector.Delivery {
	id, contact := peer.ID(e.data, "key", "id"), peer.ID(e.data, "key", "remoteJid")
	own, told := e.data.Flag("key", "fromMe")
	kind := peer.ID(e.data, "messageType")
	switch {
	case id == "" || contact == "" || !told:
		return e.unmapped("message that lacks its key", "")
	case own || !payload.Person(contact) || nothingSaid[kind]:
		return connector.Ignore()
	}
	answered := peer.ID(e.data, "contextInfo", "stanzaId")
	return e.fact(e.id(), func(_ *domain.Account, t domain.Trigger) []domain.Trigger {
		return connector.CustomerMessage(t, contact, id, answered)
	})
}
