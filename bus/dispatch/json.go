package dispatch

import (
	"fmt"

	"github.com/musterhq/muster/domain"
)

// ParseJSON reads the JSON body of a trigger that is addressed to an account, by
// the rules of a request on the account's subject: a body may leave the account
// out, and must not name another one. The error is a sentence for the sender; the
// trigger then holds what could be read.
func ParseJSON(data []byte, account string) (domain.Trigger, error) {
	known := domain.Trigger{Account: domain.AccountID(account), Expect: domain.NoExpect}
	if _, err := domain.ParseAccountID(account); err != nil {
		return known, err
	}
	t, err := parseAny(format{}, &incoming{data: data}, account)
	if err == nil && t.Account != known.Account {
		err = fmt.Errorf("account: the body is about %q, but it is addressed to %q", t.Account, known.Account)
	}
	return t, err
}
