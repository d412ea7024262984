package bus

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/eventlog"
)

// Speaker is who a subject says has sent what came on it. NATS tells a service
// nothing about a sender, so the subject is the proof: the server lets a user
// publish on the subjects of its own speakers only. At most one field is set; the
// zero value is a subject that names nobody.
type Speaker struct {
	Source string // a connector's source
	Token  string // the id of a token, or any other name of a user
}

// speakerMark stands before a Token in a subject. No source's token begins with
// it, since [eventlog.Token] escapes it.
const speakerMark = "@"

// String is the speaker as it stands in a subject.
func (s Speaker) String() string {
	if s.Token != "" {
		return speakerMark + eventlog.Token(s.Token)
	}
	return eventlog.Token(s.Source)
}

// Command is where the speaker sends a trigger of an account.
func (s Speaker) Command(account string) string {
	return sourcePrefix + s.String() + "." + eventlog.Token(account)
}

// Commands is the wildcard of Command.
func (s Speaker) Commands() string { return sourcePrefix + s.String() + ".*" }

// Inbox is where the speaker publishes a trigger of an account that is to be
// judged when Muster is up.
func (s Speaker) Inbox(account string) string {
	return inboxPrefix + s.String() + "." + eventlog.Token(account)
}

// Inboxes is the wildcard of Inbox.
func (s Speaker) Inboxes() string { return inboxPrefix + s.String() + ".*" }

// SpeakerOf returns who the subject of a command or of a message of the inbox
// names.
func SpeakerOf(subject string) (Speaker, error) {
	for _, prefix := range [...]string{sourcePrefix, inboxPrefix} {
		rest, ok := strings.CutPrefix(subject, prefix)
		token, account, named := strings.Cut(rest, ".")
		if !ok || !named {
			continue
		}
		if strings.Contains(account, ".") {
			return Speaker{}, fmt.Errorf("subject %q: behind the speaker stands one token, the account", subject)
		}
		name, ok := strings.CutPrefix(token, speakerMark)
		plain, err := eventlog.ParseToken(name)
		switch {
		case err != nil:
			return Speaker{}, fmt.Errorf("subject %q: %w", subject, err)
		case ok:
			return Speaker{Token: plain}, nil
		default:
			return Speaker{Source: plain}, nil
		}
	}
	return Speaker{}, nil
}

// NamedQuery is where somebody of a name, mostly the id of a token, asks a query;
// ">" stands for all queries.
func NamedQuery(name, query string) string { return namedPrefix + eventlog.Token(name) + "." + query }

// AskerOf returns the name and the query that a subject of NamedQueries has.
func AskerOf(subject string) (name, query string, err error) {
	token, query, _ := strings.Cut(strings.TrimPrefix(subject, namedPrefix), ".")
	if name, err = eventlog.ParseToken(token); err != nil {
		return "", "", fmt.Errorf("subject %q: %w", subject, err)
	}
	return name, query, nil
}

// Admit decides about a trigger whose subject names a speaker: nil, or an [*Error]
// that says why it is not judged. When kept is not nil it must be called with the
// verdict, before that is answered; it may block.
//
// A nil Admit knows no tokens, and lets a source say what [ConnectorMay] allows.
type Admit func(s Speaker, t *domain.Trigger) (kept func(domain.Verdict), err error)

// Ask asks about a trigger. A subject without a speaker is not asked about: who may
// publish there may speak for all.
func (a Admit) Ask(subject string, t *domain.Trigger) (kept func(domain.Verdict), err error) {
	s, err := SpeakerOf(subject)
	switch {
	case err != nil:
		return nil, &Error{Code: http.StatusBadRequest, Title: "invalid request", Detail: err.Error()}
	case s == Speaker{}:
		return nil, nil
	case a != nil:
		return a(s, t)
	case s.Token != "":
		return nil, &Error{Code: http.StatusForbidden, Title: "not allowed", Detail: fmt.Sprintf("nobody is known as %q here", s.Token)}
	}
	return nil, ConnectorMay(t, s.Source)
}
