package talk

import (
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/internal/merge"
)

// The bounds of a page and of what is looked at for one.
const (
	MaxLimit  = 1000
	ScanLimit = 65_536 // accounts of each partition
	atOnce    = 1_024  // accounts looked at before events are let in
)

// MessagePage is one page of messages, in the order of account and id.
type MessagePage struct {
	Messages []Message
	Next     string // Messages' after for the next page; "" = this is the last
}

// ConversationPage is one page of conversations, in the order of account and
// contact.
type ConversationPage struct {
	Conversations []Conversation
	Next          string // Conversations' after for the next page; "" = this is the last
}

// Messages returns messages that are in one of the states, of one account (""
// = of all), up to limit of them (1 to MaxLimit; outside of that, the nearer
// bound). after is the Next of the page before, "" for the first one.
func (v *View) Messages(account domain.AccountID, in domain.MessageSet, after string, limit int) MessagePage {
	rows, next := page(v, account, after, limit,
		func(m *Message) string { return rowKey(m.Account, m.ID) },
		func(t *domain.Talk) bool { messages, _ := t.Holds(); return messages&in != 0 },
		func(id domain.AccountID, t *domain.Talk, behind string, add func(Message) bool) {
			t.MessagesBehind(behind, in, func(key string, m *domain.Message) bool { return add(Message{id, key, m}) })
		})
	return MessagePage{rows, next}
}

// Conversations returns conversations of some kinds; else it is like Messages.
func (v *View) Conversations(account domain.AccountID, of domain.ConversationSet, after string, limit int) ConversationPage {
	rows, next := page(v, account, after, limit,
		func(c *Conversation) string { return rowKey(c.Account, c.Contact) },
		func(t *domain.Talk) bool { _, conversations := t.Holds(); return conversations&of != 0 },
		func(id domain.AccountID, t *domain.Talk, behind string, add func(Conversation) bool) {
			t.ConversationsBehind(behind, of, func(key string, c *domain.Conversation) bool { return add(Conversation{id, key, c}) })
		})
	return ConversationPage{rows, next}
}

// rowKey orders rows by account and then by key: an id holds no zero byte.
func rowKey(account domain.AccountID, key string) string { return string(account) + "\x00" + key }

// behindAll is a key behind all keys of an account: no text in UTF-8 has it.
const behindAll = "\xff"

// within yields the matching rows of one account behind a key, until add says
// false.
type within[T any] func(id domain.AccountID, t *domain.Talk, behind string, add func(T) bool)

// page reads one page of rows.
func page[T any](v *View, account domain.AccountID, after string, limit int, key func(*T) string, has func(*domain.Talk) bool, rows within[T]) ([]T, string) {
	limit = max(1, min(limit, MaxLimit))
	if account == "" {
		return merge.Page(v.Partitions(), ScanLimit/atOnce, after, limit, key, func(part int, after string, most int) merge.Batch[T] {
			return scan(v.Part(part), after, most, key, has, rows)
		})
	}
	var found []T
	_, behind, _ := strings.Cut(after, "\x00")
	next := ""
	rows(account, v.of(account), behind, func(row T) bool {
		if len(found) == limit {
			next = key(&found[limit-1])
			return false
		}
		found = append(found, row)
		return true
	})
	return found, next
}

// scan looks at some accounts of one partition.
func scan[T any](s *shard, after string, most int, key func(*T) string, has func(*domain.Talk) bool, rows within[T]) merge.Batch[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.ids.RLock()
	defer s.ids.RUnlock()
	b := merge.Batch[T]{Through: after, Done: true}
	id, behind, _ := strings.Cut(after, "\x00")
	first, ok := s.seek(id)
	if !ok {
		return b
	}
	looked, last := 0, first
	s.order.Ascend(first, func(number uint32) bool {
		if looked == atOnce || len(b.Found) == most {
			b.Done = false
			return false
		}
		if t := s.talks[number]; has(t) {
			account, from := s.ids.ID(number), ""
			if string(account) == id {
				from = behind
			}
			rows(account, t, from, func(row T) bool {
				if b.Done = len(b.Found) < most; b.Done {
					b.Found = append(b.Found, row)
				}
				return b.Done
			})
		}
		looked, last = looked+1, number
		return b.Done
	})
	switch {
	case len(b.Found) == most:
		b.Through = key(&b.Found[most-1])
	default:
		b.Through = rowKey(s.ids.ID(last), behindAll)
	}
	return b
}

// seek returns the first account from an id on.
func (s *shard) seek(id string) (number uint32, ok bool) {
	lo, hi := 0, s.order.Len()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		n, _ := s.order.GetAt(mid)
		if s.ids.CompareID(n, id) >= 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return s.order.GetAt(lo)
}
