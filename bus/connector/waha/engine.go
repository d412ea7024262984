package waha

import (
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// An engineRule says which triggers a raw event of the engine is. data is the
// event's own; t carries the time. No triggers: nothing that the session's
// status would not say as well.
type engineRule func(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger

// engineEvents are the raw events that say what no status says.
var engineEvents = map[string]engineRule{
	"events.LoggedOut":                     loggedOut,
	"events.TemporaryBan":                  temporaryBan,
	"events.StreamReplaced":                lost("connection_replaced", ""),
	"events.ClientOutdated":                lost("connect_refused", "405"),
	"events.ConnectFailure":                connectFailure,
	"events.NotifyAccountReachoutTimelock": reachoutTimelock,
	"connection.update":                    connectionUpdate,
}

func readEngine(e *event) connector.Delivery {
	name, ok := e.payload.Text("event")
	if !ok {
		return e.unmapped("engine event without a name", "")
	}
	rule, known := engineEvents[name]
	if !known {
		return connector.Ignore()
	}
	data, _ := e.payload.Object("data")
	return e.fact(e.id(), func(a *domain.Account, t domain.Trigger) []domain.Trigger {
		if a != nil && t.At/milli >= a.Epoch {
			t.Epoch = a.Epoch
		}
		return rule(a, t, data)
	})
}

func lost(trigger, code string) engineRule {
	return func(a *domain.Account, t domain.Trigger, _ payload.Object) []domain.Trigger {
		t.Reason.Code = code
		return connector.Lost(a, t, trigger)
	}
}

func loggedOut(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger {
	t.By = domain.ByRemote
	t.Reason.Code = peer.ID(data, "Reason")
	return connector.Logout(a, t)
}

// temporaryBan: Expire is how long it lasts, in ns; 0 is not known.
func temporaryBan(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger {
	t.Reason.Code = peer.ID(data, "Code")
	length, _ := data.Int("Expire")
	return connector.Lost(a, connector.For(t, length), "banned")
}

func connectFailure(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger {
	t.Reason.Code = peer.ID(data, "Reason")
	return connector.Lost(a, t, "connect_refused")
}

// reachoutTimelock: the number may not open new chats for a while.
func reachoutTimelock(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger {
	t.Data = domain.Data{"scope": "new_chats"}
	if active, _ := data.Flag("is_active"); !active {
		return connector.Known(a, t, "restriction_lifted")
	}
	if until, ok := instant(data["time_enforcement_ends"]); ok {
		t.Data["until"] = domain.FormatTime(until)
	}
	t.Reason.Code = peer.ID(data, "enforcement_type")
	return connector.Known(a, t, "restricted")
}

func instant(v any) (int64, bool) {
	if at, ok := payload.Unix(v); ok {
		return at, true
	}
	return payload.RFC3339(v)
}

// connectionUpdate: of what the other engine tells of its connection, only the
// code of a close says more than the status that follows.
func connectionUpdate(a *domain.Account, t domain.Trigger, data payload.Object) []domain.Trigger {
	if state, _ := data.Text("connection"); state != "close" {
		return nil
	}
	code, _ := data.Int("lastDisconnect", "error", "output", "statusCode")
	triggers, _ := connector.Closed(a, t, code)
	return triggers
}
