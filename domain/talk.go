package domain

// Talk is what an account keeps of its messages and conversations. A nil one is
// empty. It is never changed in place.
type Talk struct {
	Row   int  // messages in a row that were told to stay pending
	Acked bool // a message was sent, delivered, read or replied before

	messages      tree[*Message]
	conversations tree[*Conversation]
}

// EvolveTalk applies an event to what is known of an account's messages and
// conversations, and to nothing else: the part of [Evolve] for who keeps only
// that. t is not changed; nil is an account without any. It keeps e's strings.
func EvolveTalk(t *Talk, e *Event) *Talk {
	a := Account{Talk: t}
	a.talk(e)
	return a.Talk
}

// talk applies an event to messages and conversations.
func (a *Account) talk(e *Event) {
	if a.Talk == nil && (e.Kind != KindMessage && e.Kind != KindConversation || !e.legal()) {
		return
	}
	var t Talk
	if a.Talk != nil {
		t = *a.Talk
	}
	switch e.Kind {
	case KindMessage:
		t.evolveMessage(e)
	case KindConversation:
		t.evolveConversation(e)
	}
	justClosed := ""
	if e.Kind == KindMessage && e.Outcome == Applied {
		justClosed = e.Key
	}
	t.forget(e.Recorded, justClosed)
	switch {
	case t == Talk{}:
		a.Talk = nil
	case a.Talk == nil || t != *a.Talk:
		a.Talk = &t
	}
}

func (t *Talk) appendCanonical(w *canonical) {
	if t == nil {
		t = &Talk{}
	}
	w.number(int64(t.Row))
	w.flags(t.Acked)
	t.messages.appendCanonical(w)
	t.conversations.appendCanonical(w)
}

func readTalk(r *canonicalReader) *Talk {
	t := Talk{Row: int(r.number())}
	r.flags(&t.Acked)
	t.messages = readTree(r, readMessage)
	t.conversations = readTree(r, readConversation)
	if t == (Talk{}) {
		return nil
	}
	return &t
}

// message and conversation look one up; an account without talk has none.

func (a *Account) message(key string) (*Message, bool) {
	if a == nil || a.Talk == nil {
		return nil, false
	}
	return a.Talk.messages.get(key)
}

func (a *Account) conversation(key string) (*Conversation, bool) {
	if a == nil || a.Talk == nil {
		return nil, false
	}
	return a.Talk.conversations.get(key)
}

// Message returns what is known of a message; ok is false when it is not known
// (any more). It must not be changed.
func (a *Account) Message(id string) (m *Message, ok bool) { return a.message(id) }

// Conversation returns what is known of a contact; ok is false when nothing is.
// It must not be changed.
func (a *Account) Conversation(contact string) (c *Conversation, ok bool) {
	return a.conversation(contact)
}

// Messages calls f for the account's messages in the order of their ids, until
// it says false.
func (a *Account) Messages(f func(id string, m *Message) bool) {
	if a.Talk != nil {
		a.Talk.messages.each(f)
	}
}

// Conversations calls f for the account's conversations in the order of their
// contacts, until it says false.
func (a *Account) Conversations(f func(contact string, c *Conversation) bool) {
	if a.Talk != nil {
		a.Talk.conversations.each(f)
	}
}

func (a *Account) describeTalk() (map[string]MessageView, map[string]ConversationView) {
	messages, conversations := map[string]MessageView{}, map[string]ConversationView{}
	a.Messages(func(id string, m *Message) bool {
		messages[id] = MessageView{State: m.State, Late: m.Late}
		return true
	})
	a.Conversations(func(contact string, c *Conversation) bool {
		conversations[contact] = ConversationView{State: c.State, OpenTurns: len(c.Turns)}
		return true
	})
	return messages, conversations
}

// unanswered says whether in some conversation nobody answers.
func (a *Account) unanswered() bool { return a.Talk.NobodyAnswering() }

// talk offers the deadlines of messages and conversations.
func (s *search) talk() {
	t := s.a.Talk
	if t == nil {
		return
	}
	if n := t.messages.root; n != nil && n.earliest != nil {
		e := n.earliest
		what := finding{name: "message_timed_out", key: e.key, due: e.at}
		if e.rank == RankStalled {
			what = finding{name: "message_stalled", key: e.key}
		}
		s.offer(e.at, int(e.rank), e.key, what)
	}
	if n := t.conversations.root; n != nil && n.earliest != nil {
		e := n.earliest
		s.offer(e.at, RankUnanswered, e.key, finding{name: "nobody_answering", key: e.key})
	}
}
