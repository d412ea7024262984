package command

import (
	"time"

	"github.com/musterhq/muster/domain"
)

// slot is what a writer knows of one account: the fold of its stored events,
// and where the next one must be appended.
//
// acct is never changed once it is here: a new event is folded into a clone,
// which takes its place when the log has it. A snapshot may therefore keep the
// pointer.
type slot struct {
	acct   *domain.Account // nil: nothing is stored yet
	seq    uint64          // stream sequence of the account's last record; 0 = none
	hash   [16]byte        // of that record
	armed  int64           // since when its next deadline can fire, unix ns
	damage string          // why the history is not whole; "" = it is
	draft  *draft          // what the group in flight makes of it; nil outside a group
}

// draft is what a group makes of one account before the log has it.
type draft struct {
	id    domain.AccountID
	slot  *slot
	acct  *domain.Account
	hash  [16]byte
	items []*item // this account's items of the group, in order
	fail  error   // first failure among its entries
	seq   uint64
}

// item is one judged trigger of a group.
type item struct {
	req      *request // nil: one of Muster's own, nobody waits for it
	decision domain.Decision
	record   []byte // nil: nothing is appended
	draft    *draft
	fired    dueKey // when req is nil
	seq      uint64 // once stored
}

// dueKey tells one deadline of an account from another.
type dueKey struct {
	at        int64
	rank      int
	sub, name string
}

func dueOf(d *domain.Deadline) dueKey { return dueKey{d.At, d.Rank, d.Sub, d.Trigger.Name} }

// request is a trigger that somebody waits for.
type request struct {
	trigger domain.Trigger
	done    func(Answer)
	tries   int       // how often it lost against another writer
	came    time.Time // zero: nobody wants to know
}
