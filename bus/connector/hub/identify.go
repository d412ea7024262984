package hub

import (
	"strconv"

	"github.com/musterhq/muster/bus/connector"
	"github.com/musterhq/muster/domain"
)

// nth is the id of a delivery's n-th trigger.
func nth(id string, n int) string {
	if n == 1 {
		return id
	}
	return id + "#" + strconv.Itoa(n)
}

// maxTriggers is more than any delivery has for one account.
const maxTriggers = 8

// identify returns the id that the delivery gets at this account, and whether
// the account has seen it. Of a Newest delivery only a repeat of the account's
// last one was seen; another one with the same id gets the next "~n".
func identify(d *connector.Delivery, a *domain.Account) (id string, seen bool) {
	if d.ID == "" || a == nil {
		return d.ID, false
	}
	if !a.Recent.Has(d.ID) {
		return d.ID, false
	}
	if !d.Newest {
		return d.ID, true
	}
	id = d.ID
	for n := 2; ; n++ {
		next := d.ID + "~" + strconv.Itoa(n)
		if !a.Recent.Has(next) {
			return next, newest(a.Recent, id)
		}
		id = next
	}
}

// newest says whether the last id that the account remembers is of the delivery.
func newest(r domain.Recent, id string) bool {
	for n := 1; n <= maxTriggers; n++ {
		if r.Newest(nth(id, n)) {
			return true
		}
	}
	return false
}
