package connector

import "github.com/musterhq/muster/domain"

// CustomerMessage is the fact that a contact wrote a message. When it answers
// one of ours, which answered names, that one is replied to.
func CustomerMessage(t domain.Trigger, contact, message, answered string) []domain.Trigger {
	said := named(t, "customer_message")
	said.Key, said.Data = contact, domain.Data{"message": message}
	if answered == "" {
		return []domain.Trigger{said}
	}
	reply := named(t, "message_replied")
	reply.Key = answered
	return []domain.Trigger{said, reply}
}
