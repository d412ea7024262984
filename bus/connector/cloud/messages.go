package cloud

import (
	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/bus/connector/payload"
	"github.com/musterhq/muster/bus/connector/peer"
	"github.com/musterhq/muster/domain"
)

// messages reads statuses of own messages and messages of customers.
func (r *reader) messages(c *change) error {
	before := len(r.list)
	if err := r.units(c, "statuses", r.status); err != nil {
		return err
	}
	if err := r.units(c, "messages", r.incoming); err != nil {
		return err
	}
	if len(r.list) == before {
		if c.number() == "" {
			r.unmapped(c, "a change without a number, field", c.field)
			return nil
		}
		r.add(connector.Ignore()) // errors of calls that concern no message
	}
	return nil
}

// echoes reads what was answered in the phone's app.
func (r *reader) echoes(c *change) error {
	before := len(r.list)
	if err := r.units(c, "message_echoes", r.echo); err != nil {
		return err
	}
	if len(r.list) == before {
		r.unmapped(c, "a change without echoes, field", c.field)
	}
	return nil
}

// units reads each element of one of the lists of a change. Its number is noted
// with the first.
func (r *reader) units(c *change, list string, read func(*change, domain.AccountID, payload.Object) connector.Delivery) error {
	units, _ := c.value.List(list)
	if len(units) == 0 {
		return nil
	}
	number := c.number()
	account, ok := peer.Account(r.source, number)
	if ok {
		if err := r.note(c.business, number); err != nil {
			return err
		}
	}
	for _, v := range units {
		if !ok {
			r.unmapped(c, "a change without a number, field", c.field)
			continue
		}
		r.add(read(c, account, object(v)))
	}
	return nil
}

// timeOf is the time of a status or message, else that of its entry.
func timeOf(c *change, unit payload.Object) domain.Trigger {
	if at, ok := payload.Unix(unit.At("timestamp")); ok {
		return peer.At(at)
	}
	return peer.At(c.at)
}

func unmappedUnit(what, name string, unit payload.Object) connector.Delivery {
	return peer.Unmapped(what, name, unit.Pick("id", "status", "timestamp", "type", "recipient_id"))
}

func (r *reader) status(c *change, account domain.AccountID, unit payload.Object) connector.Delivery {
	id, name := peer.ID(unit, "id"), peer.ID(unit, "status")
	trigger := statuses[name]
	switch {
	case trigger == "":
		return unmappedUnit("status", name, unit)
	case id == "":
		return unmappedUnit("a status without a message", name, unit)
	}
	t := timeOf(c, unit)
	t.Name, t.Key = trigger, id
	list := []domain.Trigger{t}
	if trigger == "message_failed" {
		list = failed(t, unit)
	}
	return peer.Fact(account, id+"/"+name+"/"+peer.ID(unit, "timestamp"), func(a *domain.Account) []domain.Trigger {
		return registered(a, list)
	})
}

// failed is a message that failed, and what that says of its number.
func failed(t domain.Trigger, unit payload.Object) []domain.Trigger {
	errs, _ := unit.List("errors")
	list := []domain.Trigger{t}
	for i, v := range errs {
		code := peer.ID(object(v), "code")
		if i == 0 {
			list[0].Reason = peer.Reason(code, "")
		}
		n, _ := payload.Int(code)
		effect, ok := effects[n]
		recipient := peer.ID(unit, "recipient_id")
		if !ok || effect.scope != "" && recipient == "" { // without it the whole number would be meant
			continue
		}
		more := peer.At(t.At)
		more.Name, more.Reason, more.Data = effect.trigger, peer.Reason(code, ""), domain.Data{}
		if effect.scope != "" {
			more.Data["scope"] = effect.scope + recipient
		}
		if effect.lasts > 0 {
			more.Data["until"] = domain.FormatTime(t.At + int64(effect.lasts))
		}
		list = append(list, more)
	}
	return list
}

func (r *reader) incoming(c *change, account domain.AccountID, unit payload.Object) connector.Delivery {
	id, from := peer.ID(unit, "id"), peer.ID(unit, "from")
	switch {
	case notWritten[peer.ID(unit, "type")] || unit.Has("group_id"):
		return connector.Ignore()
	case id == "" || from == "":
		return unmappedUnit("a message without id or sender", "", unit)
	}
	list := connector.CustomerMessage(timeOf(c, unit), from, id, peer.ID(unit, "context", "id"))
	return messageFact(account, id, list)
}

func (r *reader) echo(c *change, account domain.AccountID, unit payload.Object) connector.Delivery {
	id, to := peer.ID(unit, "id"), peer.ID(unit, "to")
	if id == "" || to == "" {
		return unmappedUnit("an echo without id or recipient", "", unit)
	}
	t := timeOf(c, unit)
	t.Name, t.Key = "human_replied", to
	return messageFact(account, id, []domain.Trigger{t})
}

func messageFact(account domain.AccountID, id string, list []domain.Trigger) connector.Delivery {
	return peer.Fact(account, "msg/"+id, func(a *domain.Account) []domain.Trigger { return registered(a, list) })
}
