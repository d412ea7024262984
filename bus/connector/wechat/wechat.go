package wechat

import (
	"strings"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// KeyParameter is the parameter of the address that holds the secret.
const KeyParameter = "key"

// Authentic checks the secret in the address.
func Authentic(s *connector.Source, r *connector.Request) error {
	return peer.Secret(s, r.Query.Get(KeyParameter))
}

// Message is a message as proof that its account is up.
type Message struct {
	ID     string // of the message
	Person string // the contact who wrote it; "" when it is no customer's: own, of a group, of the system
	At     int64  // when it was written, unix ns; 0 = not known
	Epoch  int64  // of the login through which it came; 0 = not known
}

// mayReturn are the states that a message ends which was written in them.
var mayReturn = []string{connector.Connecting, connector.QRRequired, connector.Syncing, connector.Disconnected, connector.Reconnecting}

// Triggers are what the message says of an account: perhaps that it is up, and
// perhaps that a customer waits.
func (m Message) Triggers(a *domain.Account) []domain.Trigger {
	alive := peer.At(m.At)
	alive.Epoch = m.Epoch
	list := m.proof(a, alive)
	if m.Person != "" {
		list = append(list, connector.CustomerMessage(peer.At(m.At), m.Person, m.ID, "")...)
	}
	return list
}

// proof is what follows for the connection. What was written after the account
// entered its state came through a live connection; what was written before
// (a history that is synced, a push that is repeated) proves nothing. While the
// account is up a newer login is worth telling, for it raises the epoch.
func (m Message) proof(a *domain.Account, t domain.Trigger) []domain.Trigger {
	switch {
	case connector.Fresh(a),
		connector.In(a, mayReturn...) && m.At > a.Since,
		connector.Up(a) && m.Epoch > a.Epoch:
		return connector.Ready(a, t, true)
	default:
		return nil
	}
}

// Offline is a notice that the account is gone: for what cause is not known, so
// it is never a logout.
func Offline(t domain.Trigger) func(a *domain.Account) []domain.Trigger {
	return func(a *domain.Account) []domain.Trigger { return connector.Lost(a, t, "connection_lost") }
}

// services are contacts that are the system itself.
var services = map[string]bool{
	"weixin": true, "filehelper": true, "newsapp": true, "fmessage": true, "tmessage": true, "qmessage": true, "qqmail": true, "qqsync": true,
	"medianote": true, "floatbottle": true, "notifymessage": true, "notification_messages": true, "masssendapp": true, "feedsapp": true,
	"voipapp": true, "blogapp": true, "helper_entry": true, "brandsessionholder": true, "officialaccounts": true, "mphelper": true,
}

// Person says whether a contact is a person: no group, official account or
// service.
func Person(id string) bool {
	return id != "" && !services[id] && !strings.HasPrefix(id, "gh_") && !strings.HasSuffix(id, "chatroom")
}
