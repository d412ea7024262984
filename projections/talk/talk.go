// Package talk is the view that finds messages and conversations: by id and by
// contact, and over the whole fleet by their state.
//
// It owns what became of all messages (see [Funnel]) and else nothing but a copy:
// for each account what domain.EvolveTalk makes of its events. So it holds what the fold holds: open messages and conversations,
// and closed messages for 24 hours, 10 000 of an account at most. Authoritative
// is the history. Those of forgotten accounts are not shown. Nothing in it can
// fail; a saved view that cannot be loaded is the Runner's to discard.
//
// # Memory
//
// With ids of 20 bytes a message takes some 230 bytes, a conversation 200, an
// open turn 80 and a remembered claim 75 (256 of a conversation at most).
// BenchmarkMemory measures it.
//
// # Finding
//
// Rows are in the order of account and then message id or contact, by bytes. An
// account knows in which states it has messages and of which kinds
// conversations, so a page passes over accounts without a match at the price of
// a look at each; it looks at ScanLimit accounts of a partition at most, and may
// then come short and still have a next one.
package talk

import (
	"slices"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/internal/shards"
)

// set is the parts of the view, with what every view does with them.
type set = shards.Set[shard, *shard]

// View finds messages and conversations. Make one with New.
type View struct {
	set
	roster *projections.Roster
}

var _ projections.Renewer = (*View)(nil)

// New returns an empty view.
func New(roster *projections.Roster) *View {
	return &View{roster: roster, set: shards.New[shard](roster.Partitions(), func(p int) *shard { return newShard(roster.Ids(p)) })}
}

// Name is "talk".
func (v *View) Name() string { return "talk" }

// Version is the version of what the view's state means. It grows with that of
// the fold.
func (v *View) Version() int { return 2 + 1000*domain.FoldVersion }

// Renew returns an empty view of the same kind.
func (v *View) Renew() projections.View { return New(v.roster) }

// Message is one message of one account.
type Message struct {
	Account         domain.AccountID
	ID              string
	*domain.Message // must not be changed
}

// Conversation is one account's conversation with one contact.
type Conversation struct {
	Account              domain.AccountID
	Contact              string
	*domain.Conversation // must not be changed
}

// Message returns what is known of a message; ok is false when it is not known
// (any more), or its account was forgotten.
func (v *View) Message(account domain.AccountID, id string) (m Message, ok bool) {
	known, ok := v.of(account).Message(id)
	return Message{account, id, known}, ok
}

// Conversation returns what is known of a contact; ok is false when nothing is,
// or the account was forgotten.
func (v *View) Conversation(account domain.AccountID, contact string) (c Conversation, ok bool) {
	known, ok := v.of(account).Conversation(contact)
	return Conversation{account, contact, known}, ok
}

// Fill adds an account's messages and conversations to what users see of it, and
// the attention that they ask for.
func (v *View) Fill(a *domain.AccountView) {
	t := v.of(a.ID)
	a.Messages, a.Conversations = t.Describe()
	if t.NobodyAnswering() {
		at := len(a.Attention)
		if at > 0 && a.Attention[at-1] == domain.AttentionDamaged {
			at-- // as the judge would say it, before what only the history tells
		}
		a.Attention = slices.Insert(a.Attention, at, domain.AttentionNobodyAnswering)
	}
}

// of returns all that is known of one account, nil when nothing is.
func (v *View) of(account domain.AccountID) *domain.Talk {
	s := v.Part(eventlog.Partition(string(account), v.Partitions()))
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.ids.RLock()
	defer s.ids.RUnlock()
	number, ok := s.ids.Find(string(account))
	if !ok || s.gone[number] {
		return nil
	}
	return s.talks[number]
}

// Size is what the view shows.
type Size struct {
	Accounts      int // with a message or a conversation
	Messages      int
	Conversations int
}

// Size counts what is shown.
func (v *View) Size() (n Size) {
	for _, s := range v.Parts() {
		s.mu.RLock()
		n.Accounts += s.shown.Accounts
		n.Messages += s.shown.Messages
		n.Conversations += s.shown.Conversations
		s.mu.RUnlock()
	}
	return n
}
