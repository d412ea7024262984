package lifecycle

import "github.com/musterhq/muster/domain/machine"

// The states of both WhatsApp machines.
const (
	idle         = "IDLE"
	connecting   = "CONNECTING"
	qrRequired   = "QR_REQUIRED"
	syncing      = "SYNCING"
	running      = "RUNNING"
	degraded     = "DEGRADED"
	disconnected = "DISCONNECTED"
	reconnecting = "RECONNECTING"
	loggedOut    = "LOGGED_OUT"
	stopped      = "STOPPED"
)

type (
	names = machine.Names
	edge  = machine.Edge
)

// WhatsApp1 is the strict table: 10 states, 11 triggers, 25 edges, and every
// other pair rejected.
func WhatsApp1() machine.Definition {
	return machine.Definition{
		Name:     "whatsapp@1",
		About:    "A WhatsApp account by the strict table: what is not drawn is rejected.",
		Messages: "message@1",
		Initial:  idle,
		States:   whatsAppStates(),
		Triggers: []string{"start", "qr_received", "qr_scanned", "sync_completed", "connection_ready", "reconnect_success", "reconnect_failed", "connection_lost", "rate_limited", "logout", "stop"},
		Edges: []edge{
			{On: names{"start"}, From: names{idle}, To: connecting, Main: true},
			{On: names{"start"}, From: names{loggedOut, stopped}, To: connecting},
			{On: names{"start"}, From: names{disconnected}, To: reconnecting, Main: true},
			{On: names{"qr_received"}, From: names{connecting}, To: qrRequired, Main: true},
			{On: names{"qr_received"}, From: names{reconnecting}, To: qrRequired},
			{On: names{"qr_scanned"}, From: names{qrRequired}, To: syncing, Main: true},
			{On: names{"sync_completed"}, From: names{syncing}, To: running, Main: true},
			{On: names{"connection_ready"}, From: names{degraded}, To: running},
			{On: names{"reconnect_success"}, From: names{reconnecting}, To: running, Main: true},
			{On: names{"reconnect_failed"}, From: names{reconnecting}, To: disconnected},
			{On: names{"connection_lost"}, From: names{connecting, syncing, running, degraded}, To: disconnected},
			{On: names{"rate_limited"}, From: names{running}, To: degraded},
			{On: names{"logout"}, From: names{running, disconnected}, To: loggedOut},
			{On: names{"stop"}, From: names{connecting, qrRequired, running, degraded, disconnected, reconnecting, loggedOut}, To: stopped},
		},
		Deadlines: whatsAppDeadlines(),
		Retry:     &machine.Retry{State: disconnected, Trigger: "start", Tries: 5},
		Recover:   whatsAppRecovery(),
	}
}

func whatsAppStates() []machine.State {
	return []machine.State{
		{Name: idle, Class: machine.ClassIdle, Stable: true},
		{Name: connecting, Class: machine.ClassStarting},
		{Name: qrRequired, Class: machine.ClassHuman, Human: true, Attention: "scan_qr"},
		{Name: syncing, Class: machine.ClassStarting},
		{Name: running, Class: machine.ClassReady, Stable: true, Can: []string{machine.CanRead, machine.CanSend, machine.CanBulk}},
		{Name: degraded, Class: machine.ClassLimited, Stable: true, Can: []string{machine.CanRead}},
		{Name: disconnected, Class: machine.ClassDown, Stable: true},
		{Name: reconnecting, Class: machine.ClassRecovering},
		{Name: loggedOut, Class: machine.ClassHuman, Stable: true, Human: true, Attention: "login_needed", IfWanted: true},
		{Name: stopped, Class: machine.ClassStopped, Stable: true},
	}
}

func whatsAppDeadlines() []machine.Deadline {
	return []machine.Deadline{
		{State: connecting, After: minutes(5), Trigger: "mark_stuck"},
		{State: qrRequired, After: minutes(10), Trigger: "mark_stuck"},
		{State: syncing, After: minutes(2), Trigger: "mark_stuck"},
		{State: reconnecting, After: minutes(5), Trigger: "mark_stuck", Mode: "observe"},
		{State: reconnecting, After: minutes(5), Trigger: "reconnect_failed", Reason: "reconnect_timeout", Mode: "supervise"},
		{State: disconnected, After: minutes(10), Trigger: "mark_stuck", Mode: "observe", Desired: "run"},
	}
}

func whatsAppRecovery() map[string]string {
	return map[string]string{
		running: reconnecting, degraded: reconnecting,
		connecting: disconnected, qrRequired: disconnected, syncing: disconnected, reconnecting: disconnected,
	}
}
