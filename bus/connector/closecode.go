package connector

import (
	"strconv"
	"time"

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

// For gives a trigger the end of what it tells: so many nanoseconds after its
// time. 0 or less, or longer than anybody lives: the end is not known.
func For(t domain.Trigger, ns int64) domain.Trigger {
	const century = 100 * 365 * 24 * int64(time.Hour)
	if ns > 0 && ns < century {
		t.Data = domain.Data{"until": domain.FormatTime(t.At + ns)}
	}
	return t
}
