package domain

import "slices"

// Said is the trigger that the event is the verdict on, as it was recorded: what
// is needed to judge it again, under the same or another machine. The version
// that its publisher expected is not recorded; it held.
func (e *Event) Said() Trigger {
	t := Trigger{
		ID: e.ID, Account: e.Account, Name: e.Trigger, Key: e.Key, At: e.At, HasAt: true,
		Source: e.Source, Epoch: e.Epoch, Seq: e.Seq, By: e.By, Reason: e.Reason, Data: e.Data, Expect: NoExpect,
		Correlation: e.Correlation, Causation: e.Causation, Traceparent: e.Traceparent,
	}
	if e.Version == 1 {
		t.Machine, t.Mode, t.Labels = e.Machine, e.Mode, e.Labels
	}
	// That no worker could be asked is known by what came of it.
	t.NotWorker = e.Trigger == "recover" && slices.ContainsFunc(e.Set, func(c Condition) bool { return c.Name == "unverified" })
	return t
}

// Own says whether the event is on a trigger that Muster made by itself and
// would make again of the same history: a deadline. What it was told by
// something that is not stored (a worker's silence or return, the missing beats
// of an instance) is not.
func (e *Event) Own() bool {
	switch {
	case e.Source != SourceMuster:
		return false
	case e.Trigger == "recover" || e.Trigger == "vouch_lost" || e.Trigger == "vouch_restored":
		return false
	default:
		return e.Reason.Code != "heartbeats_missed"
	}
}
