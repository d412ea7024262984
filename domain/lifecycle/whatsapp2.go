package lifecycle

import "github.com/musterhq/muster/domain/machine"

const ready = "READY"

// WhatsApp2 is the default: what accounts really do. It is a superset of
// whatsapp@1.
func WhatsApp2() machine.Definition {
	states := whatsAppStates()
	for i := range states {
		if states[i].Name == stopped {
			states[i].AsksLogin = []machine.Ask{{After: names{"qr_expired", "pair_failed"}, Ran: true}}
			states[i].IfWanted = true
		}
	}
	return machine.Definition{
		Name:    "whatsapp@2",
		About:   "A WhatsApp account as it behaves behind real connectors.",
		Initial: idle,
		States:  states,
		Triggers: []string{"start", "qr_received", "qr_scanned", "qr_expired", "pair_failed", "handshake_restart", "sync_completed",
			"connection_ready", "reconnect_success", "reconnect_failed", "connection_lost", "connection_replaced", "banned", "connect_refused",
			"rate_limited", "restricted", "restriction_lifted", "probe_failed", "probe_ok", "logout", "stop", "user_action_needed", "adopt"},
		Edges:   append(append(whatsAppPairing(), whatsAppConnection()...), whatsAppLimits()...),
		Choices: []machine.Choice{{Name: ready, To: running, Blocked: degraded}},
		Conditions: []string{machine.RateLimited, machine.Restricted, machine.Unresponsive, machine.Replaced, machine.Refused, machine.Banned,
			machine.Flapping, machine.UnexpectedActivity, machine.IdentityUnverified, machine.UnexpectedStop, machine.SendStalled, machine.UserAction},
		Deadlines: whatsAppDeadlines(),
		Retry:     &machine.Retry{State: disconnected, Trigger: "start", Tries: 5},
		Recover:   whatsAppRecovery(),
	}
}

// whatsAppPairing: how an account comes up, is stopped and is adopted.
func whatsAppPairing() []edge {
	return []edge{
		{On: names{"start"}, From: names{idle}, To: connecting, Main: true},
		{On: names{"start"}, From: names{qrRequired, loggedOut, stopped}, To: connecting},
		{On: names{"start"}, From: names{disconnected}, To: reconnecting, Main: true},
		{On: names{"start"}, From: names{running, degraded}, To: reconnecting, When: machine.WhenNewerEpoch, Else: machine.ElseNoop},
		{On: names{"start"}, From: names{connecting, syncing, reconnecting}},

		{On: names{"qr_received"}, From: names{connecting}, To: qrRequired, Main: true},
		{On: names{"qr_received"}, From: names{idle, syncing, running, degraded, disconnected, reconnecting}, To: qrRequired},
		{On: names{"qr_received"}, From: names{loggedOut, stopped}, To: qrRequired, When: machine.WhenNewerEpoch, Else: machine.ElseStale},
		{On: names{"qr_received"}, From: names{qrRequired}},

		{On: names{"qr_scanned"}, From: names{qrRequired}, To: syncing, Main: true},
		{On: names{"qr_scanned"}, From: names{connecting, reconnecting}, To: syncing},
		{On: names{"qr_scanned"}, From: names{syncing, running, degraded, loggedOut}},

		{On: names{"qr_expired"}, From: names{connecting, qrRequired, reconnecting}, To: stopped},
		{On: names{"qr_expired"}, From: names{disconnected, stopped}},
		{On: names{"pair_failed"}, From: names{connecting, qrRequired, syncing, reconnecting}, To: stopped},
		{On: names{"pair_failed"}, From: names{disconnected, stopped}},
		{On: names{"handshake_restart"}, From: names{connecting, qrRequired, syncing, running, degraded, reconnecting}},

		{On: names{"logout"}, From: names{connecting, qrRequired, syncing, running, degraded, disconnected, reconnecting, stopped}, To: loggedOut},
		{On: names{"logout"}, From: names{loggedOut}},
		{On: names{"stop"}, From: names{idle, connecting, qrRequired, syncing, running, degraded, disconnected, reconnecting, loggedOut}, To: stopped},
		{On: names{"stop"}, From: names{stopped}},
		{On: names{"user_action_needed"}, From: names{idle, connecting, qrRequired, syncing, running, degraded, disconnected, reconnecting, loggedOut, stopped}},
		{On: names{"adopt"}, From: names{idle}, ToAny: []string{running, degraded, qrRequired, loggedOut, disconnected, reconnecting, stopped}},
	}
}

// whatsAppConnection: the connection is ready, lost, refused.
func whatsAppConnection() []edge {
	return []edge{
		{On: names{"sync_completed"}, From: names{syncing}, To: ready, Main: true},
		{On: names{"sync_completed"}, From: names{connecting, qrRequired, running, degraded, disconnected, reconnecting}},

		{On: names{"connection_ready"}, From: names{connecting, qrRequired, syncing, degraded, disconnected, reconnecting}, To: ready},
		{On: names{"connection_ready"}, From: names{loggedOut, stopped}, To: ready, When: machine.WhenNewerEpoch, Else: machine.ElseStale},
		{On: names{"connection_ready"}, From: names{running}},

		{On: names{"reconnect_success"}, From: names{reconnecting}, To: ready, Main: true},
		{On: names{"reconnect_success"}, From: names{connecting, syncing, disconnected}, To: ready},
		{On: names{"reconnect_success"}, From: names{degraded}, To: ready, When: machine.WhenUnblocked, Else: machine.ElseNoop},
		{On: names{"reconnect_success"}, From: names{running}},

		{On: names{"reconnect_failed"}, From: names{connecting, syncing, running, degraded, reconnecting}, To: disconnected},
		{On: names{"reconnect_failed"}, From: names{disconnected, stopped}},

		{On: names{"connection_lost", "connection_replaced", "banned", "connect_refused"},
			From: names{connecting, qrRequired, syncing, running, degraded, reconnecting}, To: disconnected},
		{On: names{"connection_lost", "connection_replaced", "banned", "connect_refused"},
			From: names{disconnected, loggedOut, stopped}},
	}
}

// whatsAppLimits: what the vendor allows, and whether probes are answered.
func whatsAppLimits() []edge {
	return []edge{
		{On: names{"rate_limited"}, From: names{running}, To: degraded, When: machine.WhenBlocked, Else: machine.ElseNoop},
		{On: names{"rate_limited"}, From: names{connecting, syncing, degraded, disconnected, reconnecting}},

		{On: names{"restricted"}, From: names{connecting, qrRequired, syncing, running, degraded, disconnected, reconnecting, loggedOut, stopped}},
		{On: names{"restriction_lifted"}, From: names{connecting, qrRequired, syncing, running, disconnected, reconnecting, loggedOut, stopped}},
		{On: names{"restriction_lifted"}, From: names{degraded}, To: ready, When: machine.WhenUnblocked, Else: machine.ElseNoop},

		{On: names{"probe_failed"}, From: names{running}, To: degraded},
		{On: names{"probe_failed"}, From: names{connecting, syncing, degraded, disconnected, reconnecting}},
		{On: names{"probe_ok"}, From: names{connecting, syncing, running, disconnected, reconnecting}},
		{On: names{"probe_ok"}, From: names{degraded}, To: ready, When: machine.WhenUnblocked, Else: machine.ElseNoop},
	}
}
