package lifecycle

import (
	"time"

	"github.com/musterhq/muster/domain/machine"
)

// WeCom1 is a protocol instance with tickets, a sync cursor and heartbeats.
func WeCom1() machine.Definition {
	const (
		uninit  = "UNINIT"
		logging = "LOGGING"
		logged  = "LOGGED"
	)
	return machine.Definition{
		Name:    "wecom@1",
		About:   "A WeCom protocol instance: tickets that end, a sync cursor, heartbeats.",
		Initial: uninit,
		States: []machine.State{
			{Name: uninit, Class: machine.ClassIdle, Stable: true, IfWanted: true, AsksLogin: []machine.Ask{
				{After: names{"logout", "login_failed"}}, {After: names{"stop"}, NotUser: true}}},
			{Name: logging, Class: machine.ClassStarting},
			{Name: logged, Class: machine.ClassStarting},
			{Name: syncing, Class: machine.ClassStarting},
			{Name: running, Class: machine.ClassReady, Stable: true, Can: []string{machine.CanRead, machine.CanSend, machine.CanBulk}},
			{Name: disconnected, Class: machine.ClassDown, Stable: true},
		},
		Triggers: []string{"login_started", "login_succeeded", "login_failed", "sync_started", "sync_completed", "sync_advanced", "ticket_renewed",
			"connection_lost", "reconnected", "reconnect_failed", "retry", "logout", "stop"},
		Edges: []edge{
			{On: names{"login_started"}, From: names{uninit}, To: logging, Main: true},
			{On: names{"login_started"}, From: names{disconnected}, To: logging},
			{On: names{"login_started"}, From: names{logged, syncing, running}, To: logging, When: machine.WhenNewerEpoch, Else: machine.ElseRejected},
			{On: names{"login_started"}, From: names{logging}},
			{On: names{"login_succeeded"}, From: names{logging}, To: logged, Main: true},
			{On: names{"login_failed"}, From: names{logging}, To: uninit},
			{On: names{"sync_started"}, From: names{logged}, To: syncing, Main: true},
			{On: names{"sync_completed"}, From: names{syncing}, To: running, Main: true},
			{On: names{"sync_advanced"}, From: names{running}},
			{On: names{"ticket_renewed"}, From: names{logged, syncing, running, disconnected}},
			{On: names{"connection_lost"}, From: names{logging, logged, syncing, running}, To: disconnected},
			{On: names{"connection_lost"}, From: names{disconnected}},
			{On: names{"reconnected"}, From: names{disconnected}, To: syncing, When: machine.WhenTgtLive, Else: machine.ElseRejected, Main: true},
			{On: names{"reconnect_failed", "retry"}, From: names{disconnected}},
			{On: names{"logout"}, From: names{logging, logged, syncing, running, disconnected}, To: uninit},
			{On: names{"logout"}, From: names{uninit}},
			{On: names{"stop"}, From: names{logging, logged, syncing, running, disconnected}, To: uninit},
			{On: names{"stop"}, From: names{uninit}},
		},
		Tickets:    true,
		Beats:      machine.Duration(630 * time.Second),
		Conditions: []string{machine.TicketExpiring, machine.LoginNeeded, machine.FullResync},
		Deadlines: []machine.Deadline{
			{State: logging, After: minutes(5), Trigger: "mark_stuck"},
			{State: logged, After: minutes(2), Trigger: "mark_stuck"},
			{State: syncing, After: minutes(2), Trigger: "mark_stuck"},
			{State: disconnected, After: minutes(10), Trigger: "mark_stuck", Mode: "observe", Desired: "run"},
		},
		Retry:   &machine.Retry{State: disconnected, Trigger: "retry", Tries: 5},
		Recover: map[string]string{logging: disconnected, logged: disconnected, syncing: disconnected, running: disconnected},
	}
}
