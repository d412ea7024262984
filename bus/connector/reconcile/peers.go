package reconcile

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/evolution"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/bus/connector/waha"
	"github.com/musterhq/muster/domain"
)

// session is one line of a server's list.
type session struct {
	native   string
	status   string // in the server's words
	up       bool   // the status says that it is up
	identity bool   // the server knows whose it is
	code     int64  // with which the connection was closed last; 0 = none
	closedAt int64  // when that was, unix ns; 0 = not known
}

// kind is the knowledge of one kind of server.
type kind struct {
	header string // that carries the key
	list   func(base *url.URL) *url.URL
	read   func(o payload.Object) (session, bool)
	// look asks for one session where the list alone is not to be believed; nil: it
	// is. again takes what was answered into the session.
	look  func(base *url.URL, native string) *url.URL
	again func(s session, o payload.Object) session
	// says returns the triggers of a session's status for an account that is not
	// up, or is not said to be; known is false for a status never heard of.
	says func(a *domain.Account, t domain.Trigger, s session) (triggers []domain.Trigger, known bool)
}

var peers = map[string]*kind{
	waha.Kind: {
		header: "X-Api-Key", read: readWAHA, says: sayWAHA,
		list: func(base *url.URL) *url.URL {
			u := under(base, "/api/sessions")
			q := u.Query()
			q.Set("all", "true") // stopped ones, too
			u.RawQuery = q.Encode()
			return u
		},
	},
	evolution.Kind: {
		header: "apikey", read: readEvolution, says: sayEvolution,
		list: func(base *url.URL) *url.URL { return under(base, "/instance/fetchInstances") },
		look: func(base *url.URL, native string) *url.URL {
			return evolutionBase(base).JoinPath("instance", "connectionState", url.PathEscape(native))
		},
		again: lookEvolution,
	},
}

// under is a path of a server; base may be the server's address or already that
// of the path.
func under(base *url.URL, path string) *url.URL {
	if strings.HasSuffix(strings.TrimRight(base.Path, "/"), path) {
		u := *base
		return &u
	}
	return base.JoinPath(path)
}

func evolutionBase(base *url.URL) *url.URL {
	u := *base
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/instance/fetchInstances")
	u.RawPath, u.RawQuery = "", ""
	return &u
}

var errNoList = errors.New("the answer is not a JSON list")

// readList reads a list of sessions. Elements that are none are counted.
func (k *kind) readList(body []byte) (list []session, odd int, err error) {
	var values []json.RawMessage
	if err := json.Unmarshal(body, &values); err != nil {
		return nil, 0, errNoList
	}
	for _, v := range values {
		o, err := payload.Parse(v)
		s, ok := session{}, false
		if err == nil {
			s, ok = k.read(o)
		}
		if !ok {
			odd++
			continue
		}
		list = append(list, s)
	}
	return list, odd, nil
}

func readWAHA(o payload.Object) (session, bool) {
	s := session{native: peer.ID(o, "name"), status: peer.ID(o, "status")}
	s.up, s.identity = s.status == "WORKING", peer.ID(o, "me", "id") != ""
	return s, s.native != "" && s.status != ""
}

func sayWAHA(a *domain.Account, t domain.Trigger, s session) ([]domain.Trigger, bool) {
	if s.status == "STOPPED" && connector.Fresh(a) {
		// A session that was stopped before anybody told of it is no surprise.
		return []domain.Trigger{connector.Adopt(t, connector.Stopped)}, true
	}
	return waha.Status(a, t, s.status, s.identity)
}

// readEvolution reads an instance as either of the two versions of the server
// lists it.
func readEvolution(o payload.Object) (session, bool) {
	if inner, ok := o.Object("instance"); ok {
		o = inner
	}
	s := session{native: first(o, "name", "instanceName"), status: first(o, "connectionStatus", "status")}
	s.up, s.identity = s.status == "open", first(o, "ownerJid", "owner") != ""
	s.code, _ = o.Int("disconnectionReasonCode")
	s.closedAt, _ = payload.RFC3339(o["disconnectionAt"])
	return s, s.native != "" && s.status != ""
}

// lookEvolution: the answer tells the state that the process has in memory.
func lookEvolution(s session, o payload.Object) session {
	state := peer.ID(o, "instance", "state")
	if state == "" {
		state = peer.ID(o, "state")
	}
	if state == "" || state == s.status {
		return s
	}
	s.status, s.up, s.code = state, state == "open", 0
	return s
}

func sayEvolution(a *domain.Account, t domain.Trigger, s session) ([]domain.Trigger, bool) {
	switch {
	case s.status == "connecting" && connector.In(a, connector.QRRequired):
		return connector.One(t, "qr_received"), true // it waits for a scan
	case s.status == "close" && connector.In(a, connector.Stopped):
		return nil, true // down is down
	case s.status == "close" && connector.Fresh(a) && !s.identity && s.code == 0:
		return nil, true // made and never paired
	}
	if a != nil && s.closedAt != 0 && s.closedAt < a.UpSince {
		s.code = 0 // of an earlier connection
	}
	return evolution.State(a, t, s.status, s.identity, s.code)
}

func first(o payload.Object, names ...string) string {
	for _, name := range names {
		if v := peer.ID(o, name); v != "" {
			return v
		}
	}
	return ""
}
