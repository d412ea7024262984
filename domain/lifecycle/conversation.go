package lifecycle

import "github.com/musterhq/muster/domain/machine"

// Conversation1 says who is in charge of a conversation: the bot or a human.
// What a trigger does to turns and claims is not in the table.
func Conversation1() machine.Definition {
	const (
		bot   = "BOT"
		human = "HUMAN"
		ended = "ENDED"
	)
	return machine.Definition{
		Name:    "conversation@1",
		Family:  machine.FamilyConversation,
		About:   "Who answers a customer: the bot, or a human.",
		Initial: bot,
		States: []machine.State{
			{Name: bot, Stable: true},
			{Name: human, Stable: true, Human: true},
			{Name: ended, Stable: true},
		},
		Triggers: []string{"customer_message", "take_over", "human_replied", "hand_back", "end", "claim", "nobody_answering"},
		Edges: []edge{
			{On: names{"customer_message"}, From: names{bot, human}},
			{On: names{"customer_message"}, From: names{ended}, To: bot, Main: true},
			{On: names{"take_over", "human_replied"}, From: names{bot, ended}, To: human, Main: true},
			{On: names{"take_over", "human_replied"}, From: names{human}},
			{On: names{"hand_back"}, From: names{human}, To: bot, Main: true},
			{On: names{"hand_back"}, From: names{bot}},
			{On: names{"end"}, From: names{bot, human}, To: ended, Main: true},
			{On: names{"end"}, From: names{ended}},
			{On: names{"claim"}, From: names{bot, human}},
			{On: names{"nobody_answering"}, From: names{bot, human}},
		},
	}
}
