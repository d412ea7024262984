package peer

import (
	"encoding/json"
	"fmt"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/domain"
)

// Account is the account of a native id of the source; ok is false when that
// cannot name one.
func Account(s *connector.Source, native string) (id domain.AccountID, ok bool) {
	if native == "" {
		return "", false
	}
	id, err := domain.ParseAccountID(string(s.Account(native)))
	return id, err == nil
}

// Fact is a delivery about one account.
func Fact(account domain.AccountID, id string, triggers func(a *domain.Account) []domain.Trigger) connector.Delivery {
	return connector.Delivery{Accounts: []domain.AccountID{account}, ID: id, Map: triggers}
}

// Unmapped is a delivery that is not known: what it is, the name that it gives
// itself, and what may be kept of it.
func Unmapped(what, name string, sample map[string]any) connector.Delivery {
	if name == "" {
		return connector.Delivery{Unmapped: what, Sample: sample}
	}
	return connector.Delivery{Unmapped: fmt.Sprintf("%s %q", what, Clip(name)), Sample: sample}
}

// Sample keeps the named fields of an object, those of them that are texts,
// numbers or flags. Name what can hold neither content nor secrets.
func Sample(o Object, names ...string) map[string]any {
	kept := map[string]any{}
	for _, name := range names {
		switch v := o[name].(type) {
		case string:
			kept[name] = Clip(v)
		case json.Number:
			kept[name] = Clip(v.String())
		case bool:
			kept[name] = v
		}
	}
	return kept
}

// At returns a trigger that happened at a time, unix ns; 0 or less: the time is
// not known and the arrival will stand for it.
func At(ns int64) domain.Trigger {
	return domain.Trigger{At: max(ns, 0), HasAt: ns > 0, Expect: domain.NoExpect}
}
