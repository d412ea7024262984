package wuzapi

import (
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// receipts says what each state of a receipt is; "" = of no interest.
var receipts = map[string]string{
	"Delivered": "message_delivered",
	"Read":      "message_read",
	"ReadSelf":  "",
}

// readReceipt reads ReadReceipt: one fact for each message that it names.
func readReceipt(e *event) []connector.Delivery {
	state := peer.ID(e.body, "state")
	trigger, known := receipts[state]
	ids, listed := e.data.List("MessageIDs")
	switch {
	case !known:
		return []connector.Delivery{e.unmapped("receipt", state)}
	case trigger == "" || group(e.data):
		return []connector.Delivery{connector.Ignore()}
	case !listed || len(ids) == 0:
		return []connector.Delivery{e.unmapped("receipt without messages", "")}
	}
	t := happened(e.data, e.arrival)
	var out []connector.Delivery
	for _, v := range ids {
		id := peer.ID(payload.Object{"id": v}, "id")
		if id == "" {
			out = append(out, e.unmapped("receipt for a message without an id", ""))
			continue
		}
		fact := t
		fact.Key = id
		out = append(out, peer.Fact(e.account, "rcpt/"+id+"/"+state, func(*domain.Account) []domain.Trigger {
			return connector.One(fact, trigger)
		}))
	}
	return out
}

// nothingSaid are parts of a message in which a contact says nothing.
var nothingSaid = []string{"reactionMessage", "encReactionMessage", "protocolMessage"}

// readMessage reads Message: a contact wrote. Own messages are of no interest:
// whether a human or the API wrote them is not told.
func readMessage(e *event) []connector.Delivery {
	info, _ := e.data.Object("Info")
	id, contact := peer.ID(info, "ID"), peer.ID(info, "Chat")
	own, told := info.Flag("IsFromMe")
	switch {
	case id == "" || contact == "" || !told:
		return []connector.Delivery{e.unmapped("message that lacks its id, its chat, or whose it is", "")}
	case own || group(info) || saysNothing(e.data):
		return []connector.Delivery{connector.Ignore()}
	}
	t := happened(info, e.arrival)
	return []connector.Delivery{peer.Fact(e.account, "msg/"+id, func(*domain.Account) []domain.Trigger {
		return connector.CustomerMessage(t, contact, id, "")
	})}
}

func saysNothing(data payload.Object) bool {
	for _, name := range nothingSaid {
		if data.Has("Message", name) {
			return true
		}
	}
	return false
}

// group says that a chat is known to be none with a person.
func group(o payload.Object) bool {
	is, _ := o.Flag("IsGroup")
	chat := peer.ID(o, "Chat")
	return is || chat != "" && !payload.Person(chat)
}

// happened is a trigger of the time that the library gives, or of the arrival.
func happened(o payload.Object, arrival int64) domain.Trigger {
	if at, ok := payload.RFC3339(o["Timestamp"]); ok {
		return peer.At(at)
	}
	return peer.At(arrival)
}
