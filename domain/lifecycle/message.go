package lifecycle

import "github.com/musterhq/muster/domain/machine"

// The states of a message. A message that is not known is created.
const (
	created   = "NEW"
	pending   = "PENDING"
	sent      = "SENT"
	delivered = "DELIVERED"
	read      = "READ"
	replied   = "REPLIED"
	timedOut  = "TIMED_OUT"
	failed    = "FAILED"
)

// Message1 is the strict form: sent, then replied or timed out.
func Message1() machine.Definition {
	return machine.Definition{
		Name:     "message@1",
		Family:   machine.FamilyMessage,
		About:    "A message by the strict table: sent, then replied or timed out.",
		Initial:  created,
		States:   messageStates(created, sent, replied, timedOut),
		Triggers: []string{"message_sent", "message_replied", "message_timed_out"},
		Edges: []edge{
			{On: names{"message_sent"}, From: names{created}, To: sent, Main: true},
			{On: names{"message_replied"}, From: names{sent}, To: replied, Main: true},
			{On: names{"message_timed_out"}, From: names{sent}, To: timedOut},
		},
	}
}

// Message2 is the default: statuses have a rank, and facts may come in any order.
func Message2() machine.Definition {
	return machine.Definition{
		Name:    "message@2",
		Family:  machine.FamilyMessage,
		About:   "A message whose facts come in any order: the highest rank counts, a reply is final.",
		Initial: created,
		States:  messageStates(created, pending, sent, delivered, read, replied, timedOut, failed),
		Triggers: []string{"message_pending", "message_sent", "message_delivered", "message_read", "message_replied", "message_failed",
			"message_timed_out", "message_stalled"},
		Edges: []edge{
			{On: names{"message_pending"}, From: names{created}, To: pending, Main: true},
			{On: names{"message_pending"}, From: names{pending, sent, delivered, read, replied, timedOut, failed}},
			{On: names{"message_sent"}, From: names{created, pending}, To: sent, Main: true},
			{On: names{"message_sent"}, From: names{sent, delivered, read, replied, timedOut, failed}},
			{On: names{"message_delivered"}, From: names{created, pending, sent}, To: delivered, Main: true},
			{On: names{"message_delivered"}, From: names{failed}, To: delivered, When: machine.WhenLater, Else: machine.ElseNoop},
			{On: names{"message_delivered"}, From: names{delivered, read, replied, timedOut}},
			{On: names{"message_read"}, From: names{created, pending, sent, delivered}, To: read, Main: true},
			{On: names{"message_read"}, From: names{failed}, To: read, When: machine.WhenLater, Else: machine.ElseNoop},
			{On: names{"message_read"}, From: names{read, replied, timedOut}},
			{On: names{"message_replied"}, From: names{created, pending, sent, delivered, read, timedOut, failed}, To: replied, Main: true},
			{On: names{"message_replied"}, From: names{replied}},
			{On: names{"message_failed"}, From: names{created, pending, sent, timedOut}, To: failed},
			{On: names{"message_failed"}, From: names{delivered, read, replied, failed}},
			{On: names{"message_timed_out"}, From: names{pending, sent, delivered, read}, To: timedOut},
			{On: names{"message_stalled"}, From: names{pending}},
		},
	}
}

func messageStates(list ...string) []machine.State {
	out := make([]machine.State, len(list))
	for i, name := range list {
		out[i] = machine.State{Name: name, Stable: true, Final: name == replied || name == timedOut}
	}
	return out
}
