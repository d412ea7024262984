package domain

import "slices"

// MessageSet is a set of states of messages, to look for those that are in one
// of them.
type MessageSet uint16

var messageStates = [...]string{MessagePending, MessageSent, MessageDelivered, MessageRead, MessageReplied, MessageTimedOut, MessageFailed}

// MessageStates lists the states of messages, in the order of a message's life.
func MessageStates() []string { return slices.Clone(messageStates[:]) }

// AllMessages holds every state.
const AllMessages MessageSet = 1<<16 - 1

// MessagesIn is the set of some states; a name that is none adds nothing.
func MessagesIn(states ...string) (set MessageSet) {
	for _, s := range states {
		if i := slices.Index(messageStates[:], s); i >= 0 {
			set |= 1 << i
		}
	}
	return set
}

// kind is the message's state as a set.
func (m *Message) kind() uint16 { return uint16(MessagesIn(m.State)) }

// ConversationSet is a set of kinds of conversations: who is in charge, and
// whether a customer waits for an answer.
type ConversationSet uint16

// The kinds of conversations. A set is an or of them.
const (
	BotIdle          ConversationSet = 1 << iota // the bot is in charge, nobody waits
	BotAsked                                     // the bot is in charge, a customer waits
	HumanIdle                                    // a human is in charge, nobody waits
	HumanAsked                                   // a human is in charge, a customer waits
	EndedClosed                                  // ended; nobody can wait
	AllConversations = BotIdle | BotAsked | HumanIdle | HumanAsked | EndedClosed
	Asked            = BotAsked | HumanAsked
	InBotHands       = BotIdle | BotAsked
	InHumanHands     = HumanIdle | HumanAsked
)

// kind is the one kind that the conversation is of.
func (c *Conversation) kind() uint16 {
	k := BotIdle
	switch c.State {
	case ConversationHuman:
		k = HumanIdle
	case ConversationEnded:
		return uint16(EndedClosed)
	}
	if len(c.Turns) > 0 {
		k <<= 1
	}
	return uint16(k)
}

// MessagesBehind calls f for the messages that are in one of the states and
// whose ids lie behind after, in the order of the ids, until it says false.
// They must not be changed.
func (t *Talk) MessagesBehind(after string, in MessageSet, f func(id string, m *Message) bool) {
	if t != nil {
		t.messages.behind(after, uint16(in), f)
	}
}

// ConversationsBehind calls f for the conversations of some kinds whose contacts
// lie behind after, in the order of the contacts, until it says false. They must
// not be changed.
func (t *Talk) ConversationsBehind(after string, of ConversationSet, f func(contact string, c *Conversation) bool) {
	if t != nil {
		t.conversations.behind(after, uint16(of), f)
	}
}

// Message returns what is known of a message.
func (t *Talk) Message(id string) (*Message, bool) {
	if t == nil {
		return nil, false
	}
	return t.messages.get(id)
}

// Conversation returns what is known of a contact.
func (t *Talk) Conversation(contact string) (*Conversation, bool) {
	if t == nil {
		return nil, false
	}
	return t.conversations.get(contact)
}

// Holds says in which states there are messages, and of which kinds there are
// conversations.
func (t *Talk) Holds() (MessageSet, ConversationSet) {
	if t == nil {
		return 0, 0
	}
	return MessageSet(t.messages.kinds()), ConversationSet(t.conversations.kinds())
}

// Size is how many messages and conversations are known.
func (t *Talk) Size() (messages, conversations int) {
	if t == nil {
		return 0, 0
	}
	return t.messages.len(), t.conversations.len()
}

// TimeOf is when a message got a status (pending, sent, delivered, read, replied
// or failed), unix ns; 0 when that is not known.
func (m *Message) TimeOf(status string) int64 {
	if i := statusOf("message_" + status); i >= 0 {
		return m.Times[i]
	}
	return 0
}

// Statuses lists the names that TimeOf takes, in their order.
func Statuses() []string {
	return []string{"pending", "sent", "delivered", "read", "replied", "failed"}
}

// TimesOut is when the message times out, or, once it has, the time for which
// that was due, unix ns; 0 when it never does or was closed before.
func (m *Message) TimesOut() int64 {
	if _, closed := m.marked(); closed || m.Due != 0 {
		return m.Due
	}
	if at := m.timeout(); at != never {
		return at
	}
	return 0
}

// NobodyAnswering says whether in some conversation nobody answers.
func (t *Talk) NobodyAnswering() bool {
	return t != nil && t.conversations.root != nil && t.conversations.root.marks > 0
}

// Describe returns all messages and conversations as users see them.
func (t *Talk) Describe() (map[string]MessageView, map[string]ConversationView) {
	return (&Account{Talk: t}).describeTalk()
}
