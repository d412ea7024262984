package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nuid"
)

// Name says what an operator did.
type Name string

// The actions that this package's Book knows. Others are kept and given to who
// follows the log.
const (
	Mute   Name = "mute"   // no alert is made of what the target names, until Until
	Unmute Name = "unmute" // ends the mutes of the same target, or the one whose id the target gives
	Ack    Name = "ack"    // somebody knows: no reminders of what the target names, until Until
)

// The keys of a target that alerts know. A target names what has all of them.
const (
	Account  = "account"
	Source   = "source"
	Kind     = "kind"     // of attention
	Incident = "incident" // its id, as alerts give it
	ID       = "id"       // of an earlier action
)

// Action is one thing that an operator did.
type Action struct {
	ID     string            `json:"id"`               // filled in by Append when empty
	At     time.Time         `json:"at"`               // filled in by Append when zero
	By     string            `json:"by"`               // who
	Action Name              `json:"action"`           // lower-case letters, digits, _ and -
	Target map[string]string `json:"target,omitempty"` // what it is about
	Reason string            `json:"reason,omitempty"` // why, in the operator's words
	Until  time.Time         `json:"until,omitzero"`   // zero = for ever
}

// ErrInvalid is wrapped by the error about an action that cannot be taken.
var ErrInvalid = errors.New("not an action")

const maxAction = 16 << 10 // bytes of JSON

// check says what is wrong with an action.
func (a *Action) check() error {
	switch {
	case !plain(string(a.Action)):
		return fmt.Errorf("%w: its name is %q; lower-case letters, digits, _ and - are possible", ErrInvalid, a.Action)
	case strings.TrimSpace(a.By) == "":
		return fmt.Errorf("%w: by is empty; say who does it", ErrInvalid)
	case !a.Until.IsZero() && !a.Until.After(a.At):
		return fmt.Errorf("%w: until %s is not later than now", ErrInvalid, a.Until.Format(time.RFC3339))
	case (a.Action == Mute || a.Action == Ack || a.Action == Unmute) && len(a.Target) == 0:
		return fmt.Errorf("%w: it names no target; give an account, source, kind or incident", ErrInvalid)
	}
	for k, v := range a.Target {
		if k == "" || v == "" {
			return fmt.Errorf("%w: the target has an empty name or value (%q: %q)", ErrInvalid, k, v)
		}
	}
	return nil
}

func plain(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// complete fills in what the caller left open, and encodes the action.
func (a *Action) complete(now time.Time) ([]byte, error) {
	if a.ID == "" {
		a.ID = "act_" + nuid.Next()
	}
	if a.At.IsZero() {
		a.At = now.UTC()
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode the action: %w", err)
	}
	if len(body) > maxAction {
		return nil, fmt.Errorf("%w: it has %d bytes, %d are the most", ErrInvalid, len(body), maxAction)
	}
	return body, nil
}

// InForce says whether the action still holds at a time.
func (a *Action) InForce(now time.Time) bool { return a.Until.IsZero() || now.Before(a.Until) }

// Names says whether the target names something with these facts: each of the
// target's keys must be among them with the same value.
func (a *Action) Names(facts map[string]string) bool {
	for k, v := range a.Target {
		if got, ok := facts[k]; !ok || got != v {
			return false
		}
	}
	return len(a.Target) > 0
}
