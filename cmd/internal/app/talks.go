package app

import (
	"context"
	"slices"
	"strings"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections/talk"
)

func (a *App) getMessage(ctx context.Context, r api.MessageRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	id, err := accountID(r.Account)
	if err != nil {
		return nil, err
	}
	asOf := a.views.runner.AsOf()
	m, ok := a.views.talk.Message(id, r.ID)
	if !ok {
		return nil, notFound("account %q has no message %q, or it was closed more than 24 hours ago", id, r.ID)
	}
	answer := messageOf(&m)
	answer.AsOf = asOf
	return answer, nil
}

// messageOf is a message as users see it.
func messageOf(m *talk.Message) api.Message {
	answer := api.Message{
		Account: string(m.Account), ID: m.ID, State: m.State, Late: m.Late, First: domain.FormatTime(m.First), Times: map[string]string{},
		Due: timeOrNone(m.TimesOut()), Closed: timeOrNone(m.Closed),
	}
	for _, status := range domain.Statuses() {
		if at := m.TimeOf(status); at != 0 {
			answer.Times[status] = domain.FormatTime(at)
		}
	}
	return answer
}

func (a *App) listMessages(ctx context.Context, r api.MessagesRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	account, after, limit, err := pageOf(r.Account, r.After, r.Limit)
	if err != nil {
		return nil, err
	}
	in := domain.AllMessages
	if r.State != "" {
		if in = domain.MessagesIn(r.State); in == 0 {
			return nil, invalid("state is %q; it is one of %s", r.State, strings.Join(domain.MessageStates(), ", "))
		}
	}
	if r.Overdue {
		in &= domain.MessagesIn(domain.MessageTimedOut)
	}
	page := api.Messages{AsOf: a.views.runner.AsOf()}
	got := a.views.talk.Messages(account, in, after, limit)
	page.Messages = make([]api.Message, len(got.Messages))
	for i := range got.Messages {
		page.Messages[i] = messageOf(&got.Messages[i])
	}
	page.Next = cursor(got.Next)
	return page, nil
}

// pageOf checks what says which page is asked for.
func pageOf(account, after string, limit int) (id domain.AccountID, key string, n int, err error) {
	if account != "" {
		if id, err = accountID(account); err != nil {
			return "", "", 0, err
		}
	}
	if key, err = keyOf(after); err != nil {
		return "", "", 0, err
	}
	n, err = limitOf(limit)
	return id, key, n, err
}

func (a *App) getConversation(ctx context.Context, r api.ConversationRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	id, err := accountID(r.Account)
	if err != nil {
		return nil, err
	}
	asOf := a.views.runner.AsOf()
	c, ok := a.views.talk.Conversation(id, r.Contact)
	if !ok {
		return nil, notFound("account %q has no conversation with %q", id, r.Contact)
	}
	answer := conversationOf(&c)
	answer.AsOf = asOf
	for _, one := range c.Claims {
		answer.Claims = append(answer.Claims, api.Claim{Message: one.Message, Handler: one.Handler})
	}
	return answer, nil
}

// conversationOf is a conversation as users see it, without its claims.
func conversationOf(c *talk.Conversation) api.Conversation {
	answer := api.Conversation{
		Account: string(c.Account), Contact: c.Contact, State: c.State, OpenTurns: make([]api.Turn, 0, len(c.Turns)), NobodyAnswering: c.Unanswered,
	}
	for _, t := range c.Turns {
		answer.OpenTurns = append(answer.OpenTurns, api.Turn{Message: t.Message, At: domain.FormatTime(t.At)})
	}
	if len(c.Turns) > 0 {
		first := slices.MinFunc(c.Turns, func(a, b domain.Turn) int { return int(min(1, max(-1, a.At-b.At))) })
		answer.WaitingSince = domain.FormatTime(first.At)
	}
	return answer
}

// modes are the kinds of conversations by who is in charge.
var modes = map[string]domain.ConversationSet{
	"": domain.AllConversations, "bot": domain.InBotHands, "human": domain.InHumanHands, "ended": domain.EndedClosed,
}

func (a *App) listConversations(ctx context.Context, r api.ConversationsRequest) (any, error) {
	if err := a.wait(ctx, r.WaitFor); err != nil {
		return nil, err
	}
	account, after, limit, err := pageOf(r.Account, r.After, r.Limit)
	if err != nil {
		return nil, err
	}
	of, ok := modes[r.Mode]
	if !ok {
		return nil, invalid("mode is %q; it is one of bot, human, ended", r.Mode)
	}
	if r.Unanswered {
		of &= domain.Asked
	}
	page := api.Conversations{AsOf: a.views.runner.AsOf()}
	got := a.views.talk.Conversations(account, of, after, limit)
	page.Conversations = make([]api.Conversation, len(got.Conversations))
	for i := range got.Conversations {
		page.Conversations[i] = conversationOf(&got.Conversations[i])
	}
	page.Next = cursor(got.Next)
	return page, nil
}
