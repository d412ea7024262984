package connectortest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/domain"
)

// Say writes what a connector makes of a request for an account, nil for one
// without events: a line for each delivery, as
//
//	waha:a [evt_1] connection_lost; start epoch=1767607200000 seq=1
//	ignored
//	unmapped: event "session.teleported" map[event:session.teleported]
//
// A trigger stands with what it has: key, epoch, seq, by, code (the reason's),
// data, and at where that is not the arrival. Triggers without any are "nothing".
// A request that is not authentic, or cannot be read, fails the test.
func Say(t testing.TB, k connector.Connector, s *connector.Source, r *connector.Request, a *domain.Account) []string {
	t.Helper()
	if err := k.Authentic(s, r); err != nil {
		t.Fatalf("not authentic: %v", err)
	}
	list, err := k.Read(t.Context(), s, nil, r)
	if err != nil {
		t.Fatalf("cannot be read: %v", err)
	}
	var out []string
	for i := range list {
		out = append(out, say(&list[i], r.At, a))
	}
	return out
}

func say(d *connector.Delivery, arrival int64, a *domain.Account) string {
	switch {
	case d.Ignored:
		return "ignored"
	case d.Map == nil:
		return fmt.Sprintf("unmapped: %s %v", d.Unmapped, d.Sample)
	}
	var triggers []string
	for _, trigger := range d.Map(a) {
		triggers = append(triggers, sayTrigger(&trigger, arrival))
	}
	if triggers == nil {
		triggers = []string{"nothing"}
	}
	accounts := make([]string, len(d.Accounts))
	for i, id := range d.Accounts {
		accounts[i] = string(id)
	}
	return fmt.Sprintf("%s [%s] %s", strings.Join(accounts, ","), d.ID, strings.Join(triggers, "; "))
}

func sayTrigger(t *domain.Trigger, arrival int64) string {
	b := strings.Builder{}
	b.WriteString(t.Name)
	add := func(name string, v any, given bool) {
		if given {
			fmt.Fprintf(&b, " %s=%v", name, v)
		}
	}
	add("key", t.Key, t.Key != "")
	add("epoch", t.Epoch, t.Epoch != 0)
	add("seq", t.Seq, t.Seq != 0)
	add("by", t.By, t.By != "")
	add("code", t.Reason.Code, t.Reason.Code != "")
	add("text", t.Reason.Text, t.Reason.Text != "")
	if len(t.Data) > 0 {
		data, _ := json.Marshal(t.Data)
		add("data", string(data), true)
	}
	add("at", domain.FormatTime(t.At), t.HasAt && t.At != arrival)
	return b.String()
}
