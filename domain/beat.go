package domain

// Beat notes a heartbeat. It lives in memory only: no event is written, and the
// digest does not see it. A beat of an older connection than the account's
// counts for nothing. Call it with the trigger and the [Decision.Beat] of its
// verdict; unlike Evolve it changes the account in place, so only who holds it
// may.
func (a *Account) Beat(t *Trigger, at int64) {
	if a.Extra == nil || t.Epoch != 0 && t.Epoch < a.Epoch || at <= a.Extra.Beat {
		return
	}
	x := *a.Extra
	x.Beat = at
	a.Extra = &x
}

// BeatsFrom lets the count of silence begin at now, for an account that was just
// read from its history: the beats before a restart are not known.
func (a *Account) BeatsFrom(now int64) {
	if a.Extra == nil || a.Extra.Beat >= now {
		return
	}
	x := *a.Extra
	x.Beat = now
	a.Extra = &x
}
