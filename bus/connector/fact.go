package connector

import (
	"github.com/musterhq/muster/domain"
)

// The states of whatsapp@2 by which mappings decide.
const (
	Idle         = "IDLE"
	Connecting   = "CONNECTING"
	QRRequired   = "QR_REQUIRED"
	Syncing      = "SYNCING"
	Running      = "RUNNING"
	Degraded     = "DEGRADED"
	Disconnected = "DISCONNECTED"
	Reconnecting = "RECONNECTING"
	LoggedOut    = "LOGGED_OUT"
	Stopped      = "STOPPED"
)

// State is the account's state; an account without events is IDLE.
func State(a *domain.Account) string {
	if a == nil {
		return Idle
	}
	return a.State
}

// Fresh says that adopt is still legal: no session trigger was applied yet.
// Nothing leads back to IDLE, and what is legal there without leaving it
// (user_action_needed) does not count.
func Fresh(a *domain.Account) bool { return State(a) == Idle }

// In says whether the account is in one of the states.
func In(a *domain.Account, states ...string) bool {
	now := State(a)
	for _, s := range states {
		if s == now {
			return true
		}
	}
	return false
}

// Up says RUNNING, DEGRADED or SYNCING.
func Up(a *domain.Account) bool { return In(a, Running, Degraded, Syncing) }

// Adopt takes an account over in a state.
func Adopt(t domain.Trigger, state string) domain.Trigger {
	t.Name, t.Data = "adopt", domain.Data{"state": state}
	return t
}

// named returns t under another name.
func named(t domain.Trigger, name string) domain.Trigger {
	t.Name = name
	return t
}

// Ready is the fact that the account is up. t carries time, epoch, reason. An
// account of which nothing is known is taken over when there is an identity
// (or another proof); without one it claims connection_ready, is rejected, and
// has identity_unverified.
func Ready(a *domain.Account, t domain.Trigger, proof bool) []domain.Trigger {
	if Fresh(a) && proof {
		return []domain.Trigger{Adopt(t, Running)}
	}
	return []domain.Trigger{named(t, "connection_ready")}
}

// Begin is the fact that the account begins to connect. Peers that tell a loss
// by beginning again have lost the connection when the account was up.
func Begin(a *domain.Account, t domain.Trigger) []domain.Trigger {
	start := named(t, "start")
	if !Up(a) {
		return []domain.Trigger{start}
	}
	lost := named(t, "connection_lost")
	lost.Epoch, lost.Seq = 0, 0
	return []domain.Trigger{lost, start}
}

// Lost is a loss of a kind: connection_lost, connection_replaced, banned or
// connect_refused, with its data and reason in t. An account of which nothing
// is known is taken over as DISCONNECTED first; a mere loss says no more then.
func Lost(a *domain.Account, t domain.Trigger, trigger string) []domain.Trigger {
	fact := named(t, trigger)
	if !Fresh(a) {
		return []domain.Trigger{fact}
	}
	adopt := Adopt(t, Disconnected)
	if trigger == "connection_lost" {
		return []domain.Trigger{adopt}
	}
	return []domain.Trigger{adopt, fact}
}

// Logout is the fact that the login is gone.
func Logout(a *domain.Account, t domain.Trigger) []domain.Trigger {
	if Fresh(a) {
		return []domain.Trigger{Adopt(t, LoggedOut)}
	}
	return []domain.Trigger{named(t, "logout")}
}

// Known is a fact that an account of which nothing is known has nothing to
// attach to: a restriction, a probe, a sync, a pairing that failed. It is
// ignored for such an account.
func Known(a *domain.Account, t domain.Trigger, trigger string) []domain.Trigger {
	if Fresh(a) {
		return nil
	}
	return []domain.Trigger{named(t, trigger)}
}

// One is a fact that is one trigger in any state.
func One(t domain.Trigger, trigger string) []domain.Trigger {
	return []domain.Trigger{named(t, trigger)}
}
