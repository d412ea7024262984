package domain

// Talk is what an account keeps of its messages and conversations. A nil one is
// empty.
type Talk struct{}

func (a *Account) talk(*Event) {}

func (a *Account) describeTalk() (map[string]MessageView, map[string]ConversationView) {
	return map[string]MessageView{}, map[string]ConversationView{}
}

func (a *Account) unanswered() bool { return false }
