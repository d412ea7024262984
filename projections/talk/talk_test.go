package talk_test

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/talk"
)

func TestRules(t *testing.T) {
	projectiontest.Subject{
		New:     func(_ *projectiontest.History, roster *projections.Roster) projections.View { return talk.New(roster) },
		Answers: answers,
		Want:    want,
	}.Check(t)
}

// messages reads all pages.
func messages(v *talk.View, account domain.AccountID, in domain.MessageSet, limit int) []talk.Message {
	var all []talk.Message
	for after := ""; ; {
		page := v.Messages(account, in, after, limit)
		all = append(all, page.Messages...)
		if page.Next == "" {
			return all
		}
		after = page.Next
	}
}

// conversations reads all pages.
func conversations(v *talk.View, account domain.AccountID, of domain.ConversationSet, limit int) []talk.Conversation {
	var all []talk.Conversation
	for after := ""; ; {
		page := v.Conversations(account, of, after, limit)
		all = append(all, page.Conversations...)
		if page.Next == "" {
			return all
		}
		after = page.Next
	}
}

// plain is what the folds hold, in order, found the plain way.
func plain(h *projectiontest.History, account domain.AccountID, in func(*domain.Message) bool, of func(*domain.Conversation) bool) (ms []talk.Message, cs []talk.Conversation) {
	for id, a := range h.Folds {
		if a.Forgotten || account != "" && id != account {
			continue
		}
		a.Messages(func(key string, m *domain.Message) bool {
			if in(m) {
				ms = append(ms, talk.Message{Account: id, ID: key, Message: m})
			}
			return true
		})
		a.Conversations(func(key string, c *domain.Conversation) bool {
			if of(c) {
				cs = append(cs, talk.Conversation{Account: id, Contact: key, Conversation: c})
			}
			return true
		})
	}
	slices.SortFunc(ms, func(a, b talk.Message) int {
		return strings.Compare(string(a.Account)+"\x00"+a.ID, string(b.Account)+"\x00"+b.ID)
	})
	slices.SortFunc(cs, func(a, b talk.Conversation) int {
		return strings.Compare(string(a.Account)+"\x00"+a.Contact, string(b.Account)+"\x00"+b.Contact)
	})
	return ms, cs
}

func apply(h *projectiontest.History) *talk.View {
	v := talk.New(h.Roster)
	for _, i := range h.Items {
		v.Apply(i.At, i.Event)
	}
	return v
}

// TestTheViewIsTheFold: what is found is what the folds hold, for every filter,
// size of a page and account.
func TestTheViewIsTheFold(t *testing.T) {
	for seed := range uint64(3) {
		h := projectiontest.Generate(seed, projectiontest.Config{Talk: 60, Events: 4000, Accounts: 30})
		v := apply(h)
		accounts := []domain.AccountID{"", "nobody"}
		for id := range h.Folds {
			accounts = append(accounts, id)
		}
		for _, account := range accounts {
			for _, states := range [][]string{nil, {"TIMED_OUT"}, {"PENDING", "SENT"}, {"REPLIED"}, {"FAILED"}, {"READ", "DELIVERED"}} {
				in := domain.MessagesIn(states...)
				if states == nil {
					in = domain.AllMessages
				}
				want, _ := plain(h, account, func(m *domain.Message) bool { return states == nil || slices.Contains(states, m.State) }, never)
				for _, limit := range []int{1, 5, 1000} {
					if got := messages(v, account, in, limit); !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d, account %q, %v, pages of %d: %d messages, want %d", seed, account, states, limit, len(got), len(want))
					}
				}
				if account == "" && len(want) < 3 {
					t.Errorf("seed %d: %d messages %v are too few to prove anything", seed, len(want), states)
				}
			}
			checkConversations(t, h, v, account)
		}
	}
}

func never(*domain.Conversation) bool { return false }

func checkConversations(t *testing.T, h *projectiontest.History, v *talk.View, account domain.AccountID) {
	t.Helper()
	for _, f := range []struct {
		of   domain.ConversationSet
		want func(*domain.Conversation) bool
	}{
		{domain.AllConversations, func(*domain.Conversation) bool { return true }},
		{domain.InHumanHands, func(c *domain.Conversation) bool { return c.State == "HUMAN" }},
		{domain.InBotHands & domain.Asked, func(c *domain.Conversation) bool { return c.State == "BOT" && len(c.Turns) > 0 }},
		{domain.EndedClosed, func(c *domain.Conversation) bool { return c.State == "ENDED" }},
		{domain.Asked, func(c *domain.Conversation) bool { return len(c.Turns) > 0 }},
	} {
		_, want := plain(h, account, func(*domain.Message) bool { return false }, f.want)
		for _, limit := range []int{1, 5, 1000} {
			if got := conversations(v, account, f.of, limit); !reflect.DeepEqual(got, want) {
				t.Fatalf("account %q, kinds %b, pages of %d: %d conversations, want %d", account, f.of, limit, len(got), len(want))
			}
		}
		if account == "" && len(want) < 2 {
			t.Errorf("%d conversations of kinds %b are too few to prove anything", len(want), f.of)
		}
	}
}

// TestOneByOne: each message and conversation is found by its id, with all that
// the fold knows of it, and the sizes are theirs.
func TestOneByOne(t *testing.T) {
	h := projectiontest.Generate(7, projectiontest.Config{Talk: 60})
	v := apply(h)
	ms, cs := plain(h, "", func(*domain.Message) bool { return true }, func(*domain.Conversation) bool { return true })
	accounts := map[domain.AccountID]bool{}
	for _, m := range ms {
		accounts[m.Account] = true
		if got, ok := v.Message(m.Account, m.ID); !ok || !reflect.DeepEqual(got, m) {
			t.Errorf("%s %s: got %+v (%v)", m.Account, m.ID, got, ok)
		}
	}
	for _, c := range cs {
		accounts[c.Account] = true
		if got, ok := v.Conversation(c.Account, c.Contact); !ok || !reflect.DeepEqual(got, c) {
			t.Errorf("%s %s: got %+v (%v)", c.Account, c.Contact, got, ok)
		}
	}
	if got, want := v.Size(), (talk.Size{Accounts: len(accounts), Messages: len(ms), Conversations: len(cs)}); got != want {
		t.Errorf("sizes %+v, want %+v", got, want)
	}
	for id, a := range h.Folds {
		bare := a.Clone()
		bare.Talk = nil
		filled := h.Judge.Describe(bare)
		v.Fill(&filled)
		if want := h.Judge.Describe(a); !a.Forgotten && !reflect.DeepEqual(filled, want) {
			t.Errorf("%s: filled in it is %+v, want %+v", id, filled, want)
		}
	}
	forgotten := 0
	for id, a := range h.Folds {
		if a.Forgotten && a.Talk != nil {
			forgotten++
			if page := v.Messages(id, domain.AllMessages, "", 10); len(page.Messages) != 0 {
				t.Errorf("%s is forgotten and has %d messages", id, len(page.Messages))
			}
		}
	}
	if forgotten == 0 {
		t.Error("no account with a message was forgotten: the history proves nothing of that")
	}
}

// BenchmarkMemory reports what a message and a conversation take.
func BenchmarkMemory(b *testing.B) {
	event := func(kind domain.Kind, key, trigger, to string, effects domain.Effects, data domain.Data) *domain.Event {
		return &domain.Event{
			Account: "a", Machine: "whatsapp@2", Initial: "RUNNING", Kind: kind, Key: key, Trigger: trigger,
			Outcome: domain.Applied, To: to, At: 1, Recorded: 1, Effects: effects, Data: data,
		}
	}
	const each = 50_000
	for _, c := range []struct {
		name string
		make func(i int) *domain.Event
	}{
		{"message", func(i int) *domain.Event {
			return event(domain.KindMessage, fmt.Sprintf("3EB0%016d", i), "message_pending", "PENDING", 0, nil)
		}},
		{"conversation", func(i int) *domain.Event {
			return event(domain.KindConversation, fmt.Sprintf("%020d", i), "take_over", "HUMAN", 0, nil)
		}},
		{"turn", func(i int) *domain.Event {
			return event(domain.KindConversation, fmt.Sprintf("%020d", i/50), "customer_message", "BOT", domain.EffectOpensTurn, domain.Data{"message": fmt.Sprintf("3EB0%016d", i)})
		}},
		{"claim", func(i int) *domain.Event {
			return event(domain.KindConversation, fmt.Sprintf("%020d", i/200), "claim", "BOT", domain.EffectClaim, domain.Data{"message": fmt.Sprintf("3EB0%016d", i), "handler": "bot-17"})
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				roster := projections.NewRoster(1)
				for i := range 100 {
					roster.Ids(0).Add(fmt.Sprint("acct-", i))
				}
				v := talk.New(roster)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				for i := range each {
					v.Apply(projections.Place{Seq: uint64(i + 1), Account: uint32(i / 500 % 100)}, c.make(i))
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/each, "B/"+c.name)
				runtime.KeepAlive(v)
			}
		})
	}
}
