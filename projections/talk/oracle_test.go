package talk_test

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/talk"
)

var messageStates = []string{"PENDING", "SENT", "DELIVERED", "READ", "REPLIED", "TIMED_OUT", "FAILED"}

// conversationSets are what is asked of conversations, and the same in plain words.
var conversationSets = []struct {
	of   domain.ConversationSet
	want func(*domain.Conversation) bool
}{
	{domain.AllConversations, func(*domain.Conversation) bool { return true }},
	{domain.InHumanHands, func(c *domain.Conversation) bool { return c.State == "HUMAN" }},
	{domain.InBotHands, func(c *domain.Conversation) bool { return c.State == "BOT" }},
	{domain.InBotHands & domain.Asked, func(c *domain.Conversation) bool { return c.State == "BOT" && len(c.Turns) > 0 }},
	{domain.Asked, func(c *domain.Conversation) bool { return len(c.Turns) > 0 }},
}

// asked are the accounts of which each page is asked: all, nobody, and some.
func asked(h *projectiontest.History) []domain.AccountID {
	list := []domain.AccountID{"", "nobody"}
	for _, i := range h.Items[:min(40, len(h.Items))] {
		if !slices.Contains(list, i.Event.Account) && len(list) < 6 {
			list = append(list, i.Event.Account)
		}
	}
	return list
}

func messageTexts(list []talk.Message) (texts []string) {
	for _, m := range list {
		texts = append(texts, fmt.Sprintf("%s %s %+v", m.Account, m.ID, *m.Message))
	}
	return texts
}

func conversationTexts(list []talk.Conversation) (texts []string) {
	for _, c := range list {
		texts = append(texts, fmt.Sprintf("%s %s %+v", c.Account, c.Contact, *c.Conversation))
	}
	return texts
}

// answers asks the view everything: all pages joined for each state, kind and some
// accounts, each message and conversation of those alone, the funnel, delays and
// sides.
func answers(h *projectiontest.History, v projections.View) any {
	tv, delays := v.(*talk.View), read(h).delays
	funnel := tv.Funnel()
	told := map[string]any{"size": tv.Size(), "sides": tv.Sides(), "delays": delaysOf(&funnel, delays)}
	funnel.Delay = talk.Funnel{}.Delay
	told["funnel"] = funnel
	for _, account := range asked(h) {
		told["messages of "+string(account)] = messageTexts(messages(tv, account, domain.AllMessages, 3))
		for i, state := range messageStates {
			told[fmt.Sprint(state, " of ", account)] = messageTexts(messages(tv, account, domain.MessagesIn(state), []int{1, 5, 1000}[i%3]))
		}
		for i, set := range conversationSets {
			told[fmt.Sprint("conversations ", i, " of ", account)] = conversationTexts(conversations(tv, account, set.of, []int{1, 5, 1000}[i%3]))
		}
		for id := range 60 {
			if m, ok := tv.Message(account, fmt.Sprint("m-", id)); ok {
				told[fmt.Sprint("message ", id, " of ", account)] = messageTexts([]talk.Message{m})
			}
		}
		for id := range 4 {
			if c, ok := tv.Conversation(account, fmt.Sprint("c-", id)); ok {
				told[fmt.Sprint("conversation ", id, " of ", account)] = conversationTexts([]talk.Conversation{c})
			}
		}
	}
	return told
}

// delaysOf is how many replies there were and how long they took: the exact
// quantile where the view's is within the width of its buckets, else the view's.
func delaysOf(f *talk.Funnel, exact []time.Duration) []any {
	told := []any{f.Delay.N}
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
		got, ok := f.Delay.Quantile(q)
		want := delayOf(exact, q)
		if !ok {
			got = -1
		}
		if diff := math.Abs(float64(got - want)); diff > 0.026*float64(want) && diff > float64(time.Millisecond) {
			told = append(told, got)
			continue
		}
		told = append(told, want)
	}
	return told
}

func delayOf(exact []time.Duration, q float64) time.Duration {
	if len(exact) == 0 {
		return -1
	}
	return exact[max(1, int(math.Ceil(q*float64(len(exact)))))-1]
}

// want works the same out from the folds, and from a walk over the events for what
// the folds forget.
func want(h *projectiontest.History) any {
	r := read(h)
	everyMessage, everyConversation := func(*domain.Message) bool { return true }, func(*domain.Conversation) bool { return true }
	ms, cs := plain(h, "", everyMessage, everyConversation)
	with := map[domain.AccountID]bool{}
	for _, m := range ms {
		with[m.Account] = true
	}
	for _, c := range cs {
		with[c.Account] = true
	}
	delays := []any{len(r.delays)}
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
		delays = append(delays, delayOf(r.delays, q))
	}
	told := map[string]any{
		"size": talk.Size{Accounts: len(with), Messages: len(ms), Conversations: len(cs)}, "sides": r.sides, "funnel": r.funnel, "delays": delays,
	}
	for _, account := range asked(h) {
		all, found := plain(h, account, everyMessage, everyConversation)
		told["messages of "+string(account)] = messageTexts(all)
		for _, m := range all {
			if account != "" {
				told[fmt.Sprint("message ", m.ID[2:], " of ", account)] = messageTexts([]talk.Message{m})
			}
		}
		for _, c := range found {
			if account != "" {
				told[fmt.Sprint("conversation ", c.Contact[2:], " of ", account)] = conversationTexts([]talk.Conversation{c})
			}
		}
		for _, state := range messageStates {
			in, _ := plain(h, account, func(m *domain.Message) bool { return m.State == state }, never)
			told[fmt.Sprint(state, " of ", account)] = messageTexts(in)
		}
		for i, set := range conversationSets {
			_, of := plain(h, account, func(*domain.Message) bool { return false }, set.want)
			told[fmt.Sprint("conversations ", i, " of ", account)] = conversationTexts(of)
		}
	}
	return told
}
