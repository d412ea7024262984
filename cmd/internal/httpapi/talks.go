package httpapi

import "github.com/musterhq/muster/cmd/internal/api"

type messageInput struct {
	OfAccount
	Waits
	Message string `path:"message" doc:"the message's id, percent-encoded"`
}

type messagesInput struct {
	Waits
	PageOf
	Account string `query:"account" doc:"of this account only"`
	State   string `query:"state" doc:"exact" example:"SENT"`
	Overdue bool   `query:"overdue" doc:"no reply came in time"`
}

type conversationInput struct {
	OfAccount
	Waits
	Contact string `path:"contact" doc:"the contact, percent-encoded"`
}

type conversationsInput struct {
	Waits
	PageOf
	Account    string `query:"account" doc:"of this account only"`
	Mode       string `query:"mode" enum:"bot,human,ended" doc:"who is in charge"`
	Unanswered bool   `query:"unanswered" doc:"a customer waits for an answer"`
}

func (a *API) talkRoutes() {
	const tag = "messages and conversations"
	get[messagesInput, api.Messages](a, operation{
		path: "/v1/messages", id: "listMessages", tag: tag, summary: "A page of messages, by account and id, with filters",
	}, api.MessagesQuery, func(in *messagesInput) (any, error) {
		return api.MessagesRequest{
			Account: in.Account, State: in.State, Overdue: in.Overdue, After: in.After, Limit: in.Limit, WaitFor: in.waitFor(),
		}, nil
	})
	get[messageInput, api.Message](a, operation{
		path: "/v1/accounts/{account}/messages/{message}", id: "getMessage", tag: tag,
		summary: "One message: its state and the time of each status", errors: missing,
	}, api.MessageQuery, func(in *messageInput) (any, error) {
		return api.MessageRequest{Account: in.Account, ID: in.Message, WaitFor: in.waitFor()}, nil
	})
	get[conversationsInput, api.Conversations](a, operation{
		path: "/v1/conversations", id: "listConversations", tag: tag, summary: "A page of conversations, by account and contact, with filters",
	}, api.ConversationsQuery, func(in *conversationsInput) (any, error) {
		return api.ConversationsRequest{
			Account: in.Account, Mode: in.Mode, Unanswered: in.Unanswered, After: in.After, Limit: in.Limit, WaitFor: in.waitFor(),
		}, nil
	})
	get[conversationInput, api.Conversation](a, operation{
		path: "/v1/accounts/{account}/conversations/{contact}", id: "getConversation", tag: tag,
		summary: "One conversation: who is in charge, who waits, who has claimed what", errors: missing,
	}, api.ConversationQuery, func(in *conversationInput) (any, error) {
		return api.ConversationRequest{Account: in.Account, Contact: in.Contact, WaitFor: in.waitFor()}, nil
	})
}
