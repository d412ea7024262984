package cloud

import (
	"time"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// account reads what happened to a number or to a whole business account.
func (r *reader) account(c *change) error {
	name := peer.ID(c.value, "event")
	triggers := accountEvents[name]
	switch {
	case name == "":
		r.unmapped(c, "an event without a name, field", c.field)
		return nil
	case triggers == nil:
		r.add(connector.Ignore())
		return nil
	}
	list := triggers(c)
	if len(list) == 0 {
		r.unmapped(c, "details of event", name)
		return nil
	}
	numbers, err := r.meant(c)
	if err != nil {
		return err
	}
	r.event(c, numbers, list)
	return nil
}

// quality reads what the platform thinks of a number's messages.
func (r *reader) quality(c *change) error {
	name := peer.ID(c.value, "event")
	action, known := qualities[name]
	switch {
	case name == "":
		r.unmapped(c, "an event without a name, field", c.field)
	case !known:
		r.add(connector.Ignore())
	case c.number() == "":
		r.unmapped(c, "an event without a number", name)
	default:
		r.event(c, []string{c.number()}, c.human(action, name))
	}
	return nil
}

// meant are the numbers that an event is about: the one that it names, else all
// of the business account.
func (r *reader) meant(c *change) ([]string, error) {
	if number := c.number(); number != "" {
		return []string{number}, nil
	}
	if nested := peer.ID(c.value, "waba_info", "waba_id"); nested != "" {
		return r.numbersOf(nested)
	}
	return r.numbersOf(c.business)
}

// event adds an account event for its numbers.
func (r *reader) event(c *change, numbers []string, list []domain.Trigger) {
	d := connector.Delivery{
		ID: "account/" + peer.Hash(c.business, c.time, c.field, c.value),
		Map: func(a *domain.Account) []domain.Trigger {
			if list[0].Name == "logout" {
				return connector.Logout(a, list[0])
			}
			return registered(a, list)
		},
	}
	for _, n := range numbers {
		if account, ok := peer.Account(r.source, n); ok {
			d.Accounts = append(d.Accounts, account)
		}
	}
	if len(d.Accounts) == 0 {
		r.unmapped(c, "a business account without a known number, event", peer.ID(c.value, "event"))
		return
	}
	r.add(d)
}

// one is a single trigger at the time of the entry, with a code.
func (c *change) one(name, code string) []domain.Trigger {
	t := peer.At(c.at)
	t.Name, t.Reason = name, peer.Reason(code, "")
	return []domain.Trigger{t}
}

// human asks somebody to do something; an empty action takes that back.
func (c *change) human(action, code string) []domain.Trigger {
	list := c.one("user_action_needed", code)
	list[0].Data = domain.Data{"action": action}
	return list
}

func restrictions(c *change) []domain.Trigger {
	var list []domain.Trigger
	entries, _ := c.value.List("restriction_info")
	for _, v := range entries {
		kind := peer.ID(object(v), "restriction_type")
		scope, ok := scopes[kind]
		if !ok {
			continue
		}
		t := c.one("restricted", kind)[0]
		t.Data = domain.Data{"scope": scope}
		if until, ok := expiration(object(v).At("expiration")); ok {
			t.Data["until"] = domain.FormatTime(until)
		}
		list = append(list, t)
	}
	return list
}

// expirationLayout is how the platform writes a time as text.
const expirationLayout = "2006-01-02T15:04:05Z0700"

// expiration reads a time in seconds or as text, unix ns.
func expiration(v any) (ns int64, ok bool) {
	if ns, ok := payload.Unix(v); ok {
		return ns, true
	}
	if text, isText := v.(string); isText {
		if t, err := time.Parse(expirationLayout, text); err == nil {
			v = t.UTC().Format(time.RFC3339Nano)
		}
	}
	return payload.RFC3339(v)
}

func ban(c *change) []domain.Trigger {
	triggers := bans[peer.ID(c.value, "ban_info", "waba_ban_state")]
	if triggers == nil {
		return nil
	}
	return triggers(c)
}

func violation(c *change) []domain.Trigger {
	return c.human("policy_violation", peer.ID(c.value, "violation_info", "violation_type"))
}

// gone is the end of a registration, told by the platform.
func gone(c *change) []domain.Trigger {
	event := peer.ID(c.value, "event")
	list := c.one("logout", event)
	if why := peer.ID(c.value, "disconnection_info", "reason"); why != "" {
		list[0].Reason = peer.Reason(why, event)
	}
	list[0].By = domain.ByRemote
	return list
}

// back is the return of an account. It has an epoch, for without one it could not
// end a logout.
func back(c *change) []domain.Trigger {
	list := c.one("connection_ready", peer.ID(c.value, "event"))
	list[0].Epoch = c.at / int64(time.Millisecond)
	return list
}
