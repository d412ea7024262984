package evolution

import (
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// events says who reads which event.
var events = map[string]func(*event) connector.Delivery{
	"connection.update": readConnection,
	"status.instance":   readStatus,
	"logout.instance":   readLogout,
	"qrcode.updated":    readQR,
	"remove.instance":   readRemoved,
	"instance.delete":   readRemoved,
	"send.message":      readSent,
	"messages.update":   readUpdate,
	"messages.upsert":   readMessage,
}

// quiet are events that are known and of no interest.
var quiet = map[string]bool{
	"instance.create": true, "application.startup": true, "creds.update": true, "presence.update": true, "call": true,
	"chats.set": true, "chats.update": true, "chats.upsert": true, "chats.delete": true,
	"contacts.set": true, "contacts.update": true, "contacts.upsert": true,
	"groups.upsert": true, "groups.update": true, "group.update": true, "group.participants.update": true,
	"labels.edit": true, "labels.association": true,
	"messages.set": true, "messages.edited": true, "messages.delete": true, "messaging.history.set": true, "send.message.update": true,
	"typebot.start": true, "typebot.change.status": true,
}

// An update is what connection.update says beside the state.
type update struct {
	identity bool   // the instance's own number is known
	code     int64  // of a close; 0 = none
	reason   string // the code as it came
}

// A stateRule says which triggers a state is for an account.
type stateRule func(a *domain.Account, t domain.Trigger, u update) []domain.Trigger

// states says what each state of connection.update means.
var states = map[string]stateRule{
	"connecting": func(a *domain.Account, t domain.Trigger, _ update) []domain.Trigger { return connector.Begin(a, t) },
	"open": func(a *domain.Account, t domain.Trigger, u update) []domain.Trigger {
		return connector.Ready(a, t, u.identity)
	},
	"close":   closed,
	"refused": expired,
}

// State says which triggers an instance's state is for an account; known is
// false for a state that this package has never heard of. identity says that the
// instance's own number is known; code is that of the last close, 0 when there is
// none. It is for who learns of the state otherwise than by a webhook.
func State(a *domain.Account, t domain.Trigger, state string, identity bool, code int64) (triggers []domain.Trigger, known bool) {
	rule, known := states[state]
	if !known {
		return nil, false
	}
	return rule(a, t, update{identity: identity, code: code}), true
}

// closed: the code says whether it can come back.
func closed(a *domain.Account, t domain.Trigger, u update) []domain.Trigger {
	if triggers, known := connector.Closed(a, t, u.code); known {
		return triggers
	}
	t.Reason.Code = u.reason
	return connector.Lost(a, t, "connection_lost")
}

// expired: nobody has scanned in time.
func expired(a *domain.Account, t domain.Trigger, u update) []domain.Trigger {
	t.Reason.Code = u.reason
	return connector.Known(a, t, "qr_expired")
}

func readConnection(e *event) connector.Delivery {
	state := peer.ID(e.data, "state")
	rule, known := states[state]
	if !known {
		return e.unmapped("state", state)
	}
	u := update{identity: peer.ID(e.data, "wuid") != "", reason: peer.ID(e.data, "statusReason")}
	u.code, _ = e.data.Int("statusReason")
	return e.fact(e.id(), func(a *domain.Account, t domain.Trigger) []domain.Trigger { return rule(a, t, u) })
}

// readStatus reads status.instance, which the server sends when a connection has
// ended for good. Without a code it is a logout.
func readStatus(e *event) connector.Delivery {
	if status := peer.ID(e.data, "status"); status != "closed" {
		return e.unmapped("status", status)
	}
	if !e.data.Has("disconnectionReasonCode") {
		return readLogout(e)
	}
	u := update{reason: peer.ID(e.data, "disconnectionReasonCode")}
	u.code, _ = e.data.Int("disconnectionReasonCode")
	return e.fact(e.id(), func(a *domain.Account, t domain.Trigger) []domain.Trigger { return closed(a, t, u) })
}

func readLogout(e *event) connector.Delivery { return e.fact(e.id(), connector.Logout) }

// readQR: a code to scan, or the notice that there will be no more.
func readQR(e *event) connector.Delivery {
	switch {
	case e.data == nil:
		return e.unmapped("qrcode.updated without data", "")
	case e.data.Has("qrcode"):
		return e.fact(e.id(), func(_ *domain.Account, t domain.Trigger) []domain.Trigger { return connector.One(t, "qr_received") })
	}
	u := update{reason: peer.ID(e.data, "statusCode")}
	return e.fact(e.id(), func(a *domain.Account, t domain.Trigger) []domain.Trigger { return expired(a, t, u) })
}

// readRemoved: the instance is gone. Its history is not forgotten: a name that is
// deleted and made again is the usual cure for a login that hangs.
func readRemoved(e *event) connector.Delivery {
	return e.fact(e.id(), func(a *domain.Account, t domain.Trigger) []domain.Trigger {
		t.Reason.Code = "removed"
		return connector.Known(a, t, "stop")
	})
}
