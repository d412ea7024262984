package waha

import (
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/domain"
)

// A statusRule says which triggers a status is for an account. t carries time
// and epoch; identity says that the session's own number is known.
type statusRule func(a *domain.Account, t domain.Trigger, identity bool) []domain.Trigger

// statuses says what each status of a session means.
var statuses = map[string]statusRule{
	"STARTING": func(a *domain.Account, t domain.Trigger, _ bool) []domain.Trigger { return connector.Begin(a, t) },
	"SCAN_QR_CODE": func(_ *domain.Account, t domain.Trigger, _ bool) []domain.Trigger {
		return connector.One(t, "qr_received")
	},
	"WORKING": connector.Ready,
	"STOPPED": func(_ *domain.Account, t domain.Trigger, _ bool) []domain.Trigger { return connector.One(t, "stop") },
	"FAILED":  func(a *domain.Account, t domain.Trigger, _ bool) []domain.Trigger { return failed(a, t) },

	"PASSKEY_REQUIRED":              passkey("passkey"),
	"PASSKEY_CONFIRMATION_REQUIRED": passkey("passkey_confirmation"),
}

// Status says which triggers a session's status is for an account; known is
// false for a status that this package has never heard of. identity says that
// the session's own number is known. It is for who learns of the status
// otherwise than by a webhook.
func Status(a *domain.Account, t domain.Trigger, status string, identity bool) (triggers []domain.Trigger, known bool) {
	rule, known := statuses[status]
	if !known {
		return nil, false
	}
	return rule(a, t, identity), true
}

// failed: the status never says why, so what it means depends on what the
// account was doing.
func failed(a *domain.Account, t domain.Trigger) []domain.Trigger {
	t.Reason.Code = "FAILED"
	switch connector.State(a) {
	case connector.QRRequired:
		return connector.One(t, "qr_expired")
	case connector.Connecting, connector.Reconnecting, connector.Disconnected:
		return connector.One(t, "reconnect_failed")
	}
	return connector.Lost(a, t, "connection_lost")
}

// passkey: pairing goes on by a passkey, which asks a person to act.
func passkey(action string) statusRule {
	return func(a *domain.Account, t domain.Trigger, _ bool) []domain.Trigger {
		need := t
		need.Name, need.Data = "user_action_needed", domain.Data{"action": action}
		if !connector.Fresh(a) {
			return []domain.Trigger{need}
		}
		need.Seq = 0 // the first of the two has used it
		return append(connector.One(t, "qr_received"), need)
	}
}

func readStatus(e *event) connector.Delivery {
	status, _ := e.payload.Text("status")
	rule, known := statuses[status]
	if !known {
		return e.unmapped("status", status)
	}
	_, identity := e.body.Text("me", "id")
	at, epoch, seq := place(e.payload, status, e.time())
	return e.fact(e.id(), func(a *domain.Account, t domain.Trigger) []domain.Trigger {
		t.At, t.Epoch, t.Seq = at, epoch, seq
		return rule(a, t, identity)
	})
}

const milli = int64(1e6) // in ns

// place finds a status in its session's history (payload.statuses, the last few
// points): its own time (told, when the history does not say), the time in unix
// ms of the STARTING that began its connection, and its number in there. No such
// STARTING among the points: 0 and 0.
func place(p payload.Object, status string, told int64) (at, epoch, seq int64) {
	points, _ := p.List("statuses")
	own := int64(0)
	eachPoint(points, func(name string, when int64) {
		if name == status && when > own {
			own = when
		}
	})
	if own == 0 {
		own = told
	}
	eachPoint(points, func(name string, when int64) {
		if name == "STARTING" && when <= own && when/milli > epoch {
			epoch = when / milli
		}
	})
	if epoch == 0 {
		return own, 0, 0
	}
	return own, epoch, own/milli - epoch + 1
}

func eachPoint(points []any, f func(status string, when int64)) {
	for _, p := range points {
		point, _ := p.(map[string]any)
		status, _ := point["status"].(string)
		if when, ok := payload.Unix(point["timestamp"]); ok {
			f(status, when)
		}
	}
}
