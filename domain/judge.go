package domain

import "github.com/musterhq/muster/domain/machine"

// Judge decides by the tables of one registry. It holds no state of accounts
// and may be used from many goroutines.
type Judge struct {
	machines *machine.Registry
}

// NewJudge returns a judge over the machines of reg.
func NewJudge(reg *machine.Registry) *Judge { return &Judge{machines: reg} }

// Decide judges t against the account as folded so far (nil: it has no events)
// at the time now (unix ns).
func (j *Judge) Decide(a *Account, t *Trigger, now int64) Decision { return Decision{} }

// Deadline is the next moment at which Muster itself has something to say
// about an account.
type Deadline struct {
	At      int64   // unix ns, when it is due
	Rank    int     // kind of deadline, for ties (DESIGN §13.6)
	Sub     string  // name and scope, or key: the last tie-break, by bytes
	Trigger Trigger // what to judge; set its At to the later of the due time and the moment it can first fire
}

// Due returns the account's next deadline; ok is false when it has none.
func (j *Judge) Due(a *Account) (d Deadline, ok bool) { return Deadline{}, false }
