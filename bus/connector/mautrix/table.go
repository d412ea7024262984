package mautrix

import (
	"strings"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/domain"
)

// mapping is what a state says of an account.
type mapping func(s *state, a *domain.Account) []domain.Trigger

// ofLogins are the states of a login.
var ofLogins = map[string]mapping{
	"CONNECTING":           (*state).connecting,
	"BACKFILLING":          (*state).backfilling,
	"CONNECTED":            (*state).connected,
	"TRANSIENT_DISCONNECT": byError(transient, lost("connection_lost")),
	"BAD_CREDENTIALS":      byError(credentials, logout(domain.ByUnknown)),
	"UNKNOWN_ERROR":        byError(failures, (*state).failure),
	"LOGGED_OUT":           logout(domain.ByUser),
}

// ofBridges are the states of the bridge itself, and whether they say anything
// of its logins: each login tells its own state when the bridge comes up.
var ofBridges = map[string]bool{
	"STARTING": false, "UNCONFIGURED": false, "RUNNING": false, "BRIDGE_UNREACHABLE": true,
}

// The errors that say more than their state.
var (
	transient = map[string]mapping{
		"wa-keepalive-timeout": (*state).unreachable, // connected, not answering
		"wa-phone-offline":     (*state).phoneOffline,
	}
	credentials = map[string]mapping{
		"wa-temporary-ban": lost("banned"),
	}
	failures = map[string]mapping{
		"wa-stream-replaced":   lost("connection_replaced"),
		"wa-client-outdated":   refused("405"),
		"wa-connection-failed": (*state).attemptFailed,
	}
)

// refusalPrefix is in front of the code with which a connection was refused.
const refusalPrefix = "wa-connect-failure-"

func byError(table map[string]mapping, other mapping) mapping {
	return func(s *state, a *domain.Account) []domain.Trigger {
		if m := table[s.code]; m != nil {
			return m(s, a)
		}
		return other(s, a)
	}
}

func lost(trigger string) mapping {
	return func(s *state, a *domain.Account) []domain.Trigger { return connector.Lost(a, s.trigger, trigger) }
}

func logout(by domain.Initiator) mapping {
	return func(s *state, a *domain.Account) []domain.Trigger {
		t := s.trigger
		t.By = by
		return connector.Logout(a, t)
	}
}

func refused(code string) mapping {
	return func(s *state, a *domain.Account) []domain.Trigger {
		t := s.trigger
		t.Data = domain.Data{"code": code}
		return connector.Lost(a, t, "connect_refused")
	}
}

func (s *state) connecting(a *domain.Account) []domain.Trigger { return connector.Begin(a, s.trigger) }

// backfilling says that the login was paired. An account that was not about to
// be has begun without saying so.
func (s *state) backfilling(a *domain.Account) []domain.Trigger {
	scanned := connector.One(s.trigger, "qr_scanned")
	if connector.In(a, connector.Idle, connector.Disconnected, connector.LoggedOut, connector.Stopped) {
		return append(connector.One(s.trigger, "start"), scanned...)
	}
	return scanned
}

// newChats is the scope of a time lock on reaching out.
const newChats = "new_chats"

func (s *state) connected(a *domain.Account) []domain.Trigger {
	list := connector.Ready(a, s.trigger, s.named)
	t := s.trigger
	switch {
	case connector.Fresh(a) && !s.named: // it is not believed, so there is nothing to restrict
	case s.timelock:
		t.Data = domain.Data{"scope": newChats, "until": domain.FormatTime(s.until)}
		list = append(list, connector.One(t, "restricted")...)
	case restricted(a):
		t.Data = domain.Data{"scope": newChats}
		list = append(list, connector.One(t, "restriction_lifted")...)
	}
	return list
}

func restricted(a *domain.Account) bool {
	if a == nil {
		return false
	}
	for _, c := range a.Conditions {
		if c.Name == "restricted" && c.Scope == newChats {
			return true
		}
	}
	return false
}

// answers says that something is asked of the account's connection.
func answers(a *domain.Account) bool { return connector.In(a, connector.Running, connector.Degraded) }

// unreachable is a probe of the connection that failed.
func (s *state) unreachable(a *domain.Account) []domain.Trigger {
	if !answers(a) {
		return nil
	}
	return connector.One(s.trigger, "probe_failed")
}

// phoneOffline is told of a login that is up: its phone was not seen for long.
func (s *state) phoneOffline(a *domain.Account) []domain.Trigger {
	t := s.trigger
	t.Data = domain.Data{"action": "open_phone"}
	needed := connector.One(t, "user_action_needed")
	if connector.Fresh(a) {
		return append([]domain.Trigger{connector.Adopt(s.trigger, connector.Running)}, needed...)
	}
	return needed
}

// attemptFailed is an attempt to connect that did not succeed.
func (s *state) attemptFailed(a *domain.Account) []domain.Trigger {
	if connector.In(a, connector.Connecting, connector.Reconnecting, connector.Disconnected) {
		return connector.One(s.trigger, "reconnect_failed")
	}
	return connector.Lost(a, s.trigger, "connection_lost")
}

// failure is an error without a row of its own.
func (s *state) failure(a *domain.Account) []domain.Trigger {
	if code, ok := strings.CutPrefix(s.code, refusalPrefix); ok && code != "" {
		return refused(code)(s, a)
	}
	return connector.Lost(a, s.trigger, "connection_lost")
}
