package domain

import (
	"strings"

	"github.com/musterhq/muster/domain/machine"
)

// refusedKeys are names of data that hold secrets. They are refused wherever
// they stand in data, whole and in any case: what is in the history stays.
var refusedKeys = map[string]bool{
	"apikey": true, "api_key": true, "token": true, "access_token": true, "refresh_token": true, "secret": true, "client_secret": true,
	"password": true, "authorization": true, "cookie": true, "qr": true, "qrcode": true, "qr_code": true, "pairing_code": true,
	"code_base64": true, "tgt": true, "sid": true, "session_key": true, "sk1": true, "gidtgt": true, "private_key": true,
	"credentials": true, "creds": true,
}

// A fieldRule says what a trigger wants of one field of its data.
type fieldRule struct {
	name     string
	is       string // text, code, time, count, flag or labels
	required bool
	oneOf    []string
}

var (
	untilTime    = fieldRule{name: "until", is: "time"}
	anyCode      = fieldRule{name: "code", is: "code"}
	anyScope     = fieldRule{name: "scope", is: "text"}
	sidUntil     = fieldRule{name: "sid_until", is: "time"}
	tgtUntil     = fieldRule{name: "tgt_until", is: "time"}
	replyWithin  = fieldRule{name: "reply_within", is: "count"}
	theMessage   = fieldRule{name: "message", is: "text", required: true}
	cursorFields = []fieldRule{{name: "next_seq", is: "count"}, {name: "full", is: "flag"}}
)

// dataRules is what the judge reads of a trigger's data. Other fields are kept
// as they are.
var dataRules = map[string][]fieldRule{
	"adopt":              {{name: "state", is: "text", required: true}},
	"rate_limited":       {untilTime},
	"restricted":         {anyScope, untilTime},
	"restriction_lifted": {anyScope},
	"banned":             {untilTime, anyCode},
	"connect_refused":    {anyCode},
	"user_action_needed": {{name: "action", is: "text"}},
	"login_succeeded":    {sidUntil, tgtUntil},
	"reconnected":        {sidUntil, tgtUntil},
	"ticket_renewed":     {sidUntil, tgtUntil},
	"sync_completed":     cursorFields,
	"sync_advanced":      cursorFields,
	"message_pending":    {replyWithin},
	"message_sent":       {replyWithin},
	"message_delivered":  {replyWithin},
	"message_read":       {replyWithin},
	"message_replied":    {replyWithin},
	"message_failed":     {replyWithin},
	"customer_message":   {theMessage},
	"claim": {theMessage, {name: "side", is: "text", required: true, oneOf: []string{"bot", "human"}},
		{name: "handler", is: "text", required: true}},
	"set_mode":          {{name: "mode", is: "text", required: true, oneOf: []string{ModeObserve, ModeSupervise}}},
	"set_labels":        {{name: "labels", is: "labels"}},
	"authority":         {{name: "source", is: "text", required: true}},
	"recover":           {{name: "worker", is: "flag"}},
	"condition_expired": {{name: "condition", is: "text"}, anyScope},
}

// check looks at what can be judged of a trigger without knowing machines.
func (t *Trigger) check() error {
	if err := checkAccountID(string(t.Account)); err != nil {
		return err
	}
	if t.Name == "" {
		return invalid("trigger", "is missing; say what happened")
	}
	switch t.By {
	case "", ByUnknown, ByUser, ByUs, ByRemote:
	default:
		return invalid("by", "want user, us, remote or unknown, got %q", clip(string(t.By)))
	}
	if t.Epoch < 0 || t.Seq < 0 || t.Expect < NoExpect {
		return invalid("", "epoch, seq and expect are not negative")
	}
	group, _ := machine.Reserved(t.Name)
	if t.Key == "" && (group == machine.GroupMessage || group == machine.GroupConversation) {
		return invalid("key", "is missing; %s needs the id of the %s", t.Name, map[string]string{
			machine.GroupMessage: "message", machine.GroupConversation: "contact"}[group])
	}
	if group == machine.GroupMark && t.Source != SourceMuster {
		return ownTrigger(t.Name)
	}
	if len(t.Data) > 0 {
		if err := checkSecrets("data", t.Data); err != nil {
			return err
		}
	}
	for _, rule := range dataRules[t.Name] {
		if err := rule.check(t.Data[rule.name]); err != nil {
			return err
		}
	}
	return nil
}

func ownTrigger(name string) error {
	return invalid("trigger", "%s is given by Muster itself; a publisher may not give it", name)
}

// checkPublished refuses what only Muster itself may say.
func (t *Trigger) checkPublished() error {
	if group, _ := machine.Reserved(t.Name); group == machine.GroupMark {
		return ownTrigger(t.Name)
	}
	if t.Recorded != 0 {
		return invalid(fieldRecorded, "is for the lines of an exported history; a publisher leaves it out")
	}
	if t.Source == SourceMuster {
		return invalid("source", "the name %s is Muster's own; give your connector another one", SourceMuster)
	}
	return nil
}

// checkSecrets refuses keys of the deny list, at any depth; of several it names
// the first by the order of their names.
func checkSecrets(field string, m map[string]any) error {
	first, found := "", false
	var nested error
	for name, v := range m {
		if found && name > first {
			continue
		}
		if refusedKeys[lower(name)] {
			first, found, nested = name, true, nil
		} else if err := checkNested(join(field, name), v); err != nil {
			first, found, nested = name, true, err
		}
	}
	if found && nested == nil {
		return invalid(join(field, first), "is a secret by its name; strip it, for the history keeps what it is given")
	}
	return nested
}

func checkNested(field string, v any) error {
	switch x := v.(type) {
	case map[string]any:
		return checkSecrets(field, x)
	case []any:
		for _, one := range x {
			if err := checkNested(field, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// lower is strings.ToLower that does not allocate for what is lower already.
func lower(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 'A' && c <= 'Z' || c >= 0x80 {
			return strings.ToLower(s)
		}
	}
	return s
}

func (r fieldRule) check(v any) (err error) {
	field := "data." + r.name
	if v == nil || r.required && v == "" && r.name != "state" {
		if r.required {
			return invalid(field, "is missing")
		}
		return nil
	}
	switch r.is {
	case "time":
		_, err = instant(field, v)
	case "count":
		_, err = count(field, v)
	case "labels":
		_, err = labels(field, v)
	case "flag":
		if _, ok := v.(bool); !ok {
			err = invalid(field, "want true or false, got %s", kind(v))
		}
	case "code":
		if _, ok := integer(v); !ok {
			_, err = text(field, v)
		}
	default:
		var s string
		s, err = text(field, v)
		if err == nil && len(r.oneOf) > 0 && !contains(r.oneOf, s) {
			err = invalid(field, "want %s, got %q", strings.Join(r.oneOf, " or "), clip(s))
		}
	}
	return err
}

// Readers of data that check has passed; a value that is missing reads as zero.

func (d Data) text(name string) string {
	s, _ := d[name].(string)
	return s
}

// time returns a time of the data in unix nanoseconds, 0 when it is missing.
func (d Data) time(name string) int64 {
	v, ok := d[name]
	if !ok {
		return 0
	}
	ns, err := instant(name, v)
	if err != nil {
		return 0
	}
	return ns
}

func (d Data) count(name string) (n int64, ok bool) {
	return integer(d[name])
}

func (d Data) flag(name string) bool {
	b, _ := d[name].(bool)
	return b
}
