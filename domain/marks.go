package domain

import (
	"maps"
	"strconv"

	"github.com/musterhq/muster/domain/machine"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// setting judges a trigger about the account itself: its mode, its labels, the
// source it believes, and whether it is forgotten.
func (r *ruling) setting() {
	d := r.t.Data
	same := false
	switch r.t.Name {
	case "set_mode":
		mode := r.mode()
		if mode == "" {
			mode = ModeObserve
		}
		same = mode == d.text("mode")
	case "set_labels":
		wanted, _ := labels("labels", orEmpty(d["labels"]))
		same = maps.Equal(wanted, r.labels())
	case "authority":
		switch {
		case !r.m.Authority():
			r.reject("no authority in " + r.m.Name())
			return
		case r.t.By != ByUser:
			r.reject("only a user moves the authority")
			return
		}
		same = r.a.extra().Authority == d.text("source")
	case "forget":
		if same = r.a != nil && r.a.Forgotten; !same {
			r.effects |= EffectForget
		}
	}
	if !same {
		r.outcome = Applied
	}
}

func orEmpty(v any) any {
	if v == nil {
		return map[string]any{}
	}
	return v
}

// labels are the account's labels, or those that the trigger registers it with.
func (r *ruling) labels() map[string]string {
	if r.a != nil {
		return r.a.Labels
	}
	return r.t.Labels
}

// mark judges Muster's own triggers about the account, and recover.
func (r *ruling) mark() {
	d := r.t.Data
	switch r.t.Name {
	case "mark_stuck":
		r.put(machine.Stuck, "", 0, "")
	case "mark_gave_up":
		r.put(machine.GaveUp, "", 0, "")
	case "condition_expired":
		if r.endScope(d.text("condition"), d.text("scope")) && blocker(d.text("condition")) {
			r.freed()
		}
	case "settled":
		r.effects |= EffectTriesReset
		r.endAll(machine.Replaced, machine.Refused, machine.GaveUp)
	case "ticket_due":
		r.put(machine.TicketExpiring, d.text("ticket"), 0, "")
	case "ticket_ended":
		r.put(machine.LoginNeeded, "", 0, "")
	case "vouch_lost":
		r.put(machine.Unvouched, "", 0, "")
	case "vouch_restored":
		r.end(machine.Unvouched)
	case "recover":
		r.recover()
	}
}

// freed takes an account out of the blocked state of a choice when nothing
// blocks it any more.
func (r *ruling) freed() {
	for _, c := range r.m.Definition().Choices {
		if c.Blocked == r.state && !r.blocked() {
			r.outcome, r.to = Applied, c.To
			r.moved(r.state, c.To)
			return
		}
	}
}

// recover determines the state anew when nobody vouches for the account: by the
// machine's map, or, where no worker could be asked, by a doubt.
func (r *ruling) recover() {
	to, moves := r.m.Recover(r.state)
	if !moves {
		return
	}
	worker, told := r.t.Data["worker"].(bool)
	if r.t.NotWorker || told && !worker {
		r.put(machine.Unverified, "", 0, "")
		return
	}
	r.outcome, r.to = Applied, to
	r.moved(r.state, to)
}
