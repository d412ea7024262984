package connector

import (
	"strconv"

	"github.com/musterhq/muster/domain"
)

// closeCodes says what the number means with which WhatsApp's server closes a
// connection for good. A connection that ends with any other number, or with
// none, may come back: it is lost, no more.
var closeCodes = map[int64]string{
	401: "logout", // unlinked on the phone
	403: "logout", // the account is locked
	406: "logout", // unknown to the server
	402: "banned",
	405: "connect_refused", // the client is too old
	440: "connection_replaced",
}

// Closed is the fact that the server closed the connection with a code. known is
// false for a code that says no more than a loss; the triggers are none then.
func Closed(a *domain.Account, t domain.Trigger, code int64) (triggers []domain.Trigger, known bool) {
	t.Reason.Code = strconv.FormatInt(code, 10)
	switch name := closeCodes[code]; name {
	case "":
		return nil, false
	case "logout":
		t.By = domain.ByRemote
		return Logout(a, t), true
	default:
		return Lost(a, t, name), true
	}
}
