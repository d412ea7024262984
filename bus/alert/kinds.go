package alert

import (
	"slices"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
)

// Type is what an alert says; it stands in its body.
type Type string

// The types.
const (
	AttentionOpened   Type = "attention.opened"
	AttentionReminder Type = "attention.reminder"
	AttentionClosed   Type = "attention.closed"
	IncidentOpened    Type = "incident.opened"
	IncidentReminder  Type = "incident.reminder"
	IncidentClosed    Type = "incident.closed"
	Test              Type = "test"
)

// atOnce are the kinds that do not wait for the debounce: none heals by itself.
var atOnce = []string{machine.LoginNeeded, machine.Banned, domain.AttentionDamaged}

// debounced says whether a kind waits before it is told.
func debounced(kind string) bool { return !slices.Contains(atOnce, kind) }
