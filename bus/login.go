package bus

import (
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Login is what a client of the embedded server gave when it connected.
type Login struct {
	User     string
	Password string
	Token    string // NATS's one-word credential, instead of a name and a password
}

// Grant is what a client may do on the embedded server.
type Grant struct {
	Name      string    // who it is, never empty; shown in the server's list of connections
	Publish   []string  // subjects, with wildcards, that it may publish to; nil = all
	Subscribe []string  // subjects, with wildcards, that it may subscribe to; nil = all
	Until     time.Time // when the connection ends; zero = never
}

// InboxPrefix is the beginning of the subjects on which a user of this name is
// answered. Connect uses it for every user that has a name, so that a user can
// be kept from hearing the answers that others get.
func InboxPrefix(user string) string { return "_INBOX_" + user }

// door lets clients into the embedded server.
type door struct {
	internal     string // the password of this process's own connections
	authenticate func(Login) (Grant, bool)
}

// Check is called by the server for each client, from a goroutine of that client.
func (d *door) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if o.Username == internalUser {
		return subtle.ConstantTimeCompare([]byte(o.Password), []byte(d.internal)) == 1
	}
	g, ok := d.authenticate(Login{User: o.Username, Password: o.Password, Token: o.Token})
	if !ok || g.Name == internalUser {
		return false
	}
	u := &server.User{Username: g.Name, ConnectionDeadline: g.Until}
	if g.Publish != nil || g.Subscribe != nil {
		u.Permissions = &server.Permissions{}
		if g.Publish != nil {
			u.Permissions.Publish = &server.SubjectPermission{Allow: g.Publish}
		}
		if g.Subscribe != nil {
			u.Permissions.Subscribe = &server.SubjectPermission{Allow: g.Subscribe}
		}
	}
	c.RegisterUser(u)
	return true
}

// Drop closes the connections of other processes that keep does not want, by the
// name of their Grant. Clients connect again by themselves, and are asked then.
// Connections without a name are left alone: they have only been made, and are
// asked in a moment, so every Grant needs one.
func (s *Server) Drop(keep func(name string) bool) error {
	const page = 1024
	for offset := 0; ; offset += page {
		list, err := s.srv.Connz(&server.ConnzOptions{Username: true, Offset: offset, Limit: page, Sort: server.ByCid})
		if err != nil {
			return fmt.Errorf("list connections: %w", err)
		}
		for _, c := range list.Conns {
			if c.AuthorizedUser != "" && c.AuthorizedUser != internalUser && !keep(c.AuthorizedUser) {
				_ = s.srv.DisconnectClientByID(c.Cid) // it has gone by itself
			}
		}
		if len(list.Conns) < page {
			return nil
		}
	}
}
