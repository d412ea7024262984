package domain

import (
	"slices"
	"time"

	"github.com/musterhq/muster/domain/machine"
)

// Why a trigger was rejected or is stale, as it stands in verdicts and logs.
const (
	noEdge           = "no edge"
	cursorGoesBack   = "the cursor would go back"
	olderEpoch       = "older epoch"
	seenSeq          = "seq was seen"
	closedEpoch      = "closed epoch"
	olderAt          = "older than its source's last word"
	needsNewerEpoch  = "needs a newer epoch"
	notTheAuthority  = "not_the_authority"
	tgtExpired       = "tgt_expired"
	cannotBeAdopted  = "a state that cannot be adopted"
	flapWindow       = int64(10 * time.Minute)
	connectionReady  = "connection_ready"
	reconnectSuccess = "reconnect_success"
)

// session judges a trigger of the account's machine.
func (r *ruling) session() {
	if why := r.isStale(); why != "" {
		r.stale(why)
		return
	}
	if r.m.Authority() {
		authority := r.a.extra().Authority
		if authority != "" && authority != r.t.Source {
			r.reject(notTheAuthority)
			return
		}
		if authority == "" {
			r.effects |= EffectAuthority
		}
	}
	cell := r.m.Lookup(r.state, r.t.Name)
	if cell.Act == machine.Reject {
		r.noEdge()
		return
	}
	if !r.guard(cell) {
		return
	}
	to, ok := r.target(cell)
	if !ok {
		return
	}
	if to != r.state {
		r.outcome, r.to = Applied, to
		r.moved(r.state, to)
	}
	r.intent()
	r.vouched()
}

// isStale says why a session trigger is older than what is known, or "".
func (r *ruling) isStale() string {
	if r.a == nil {
		return ""
	}
	if why := r.isOlder(); why != "" {
		return why
	}
	if r.t.Name == "sync_advanced" && r.m.Tickets() && r.goesBack() && !r.t.Data.flag("full") {
		return cursorGoesBack
	}
	return ""
}

// isOlder compares epoch, seq and time with what is known.
func (r *ruling) isOlder() string {
	t, a := r.t, r.a
	if t.Epoch != 0 {
		switch {
		case t.Epoch < a.Epoch:
			return olderEpoch
		case t.Epoch > a.Epoch:
			return ""
		case t.Seq != 0 && t.Seq <= a.Seq:
			return seenSeq
		case t.Epoch == a.Closed && !isStart(t.Name) && t.Name != "stop" && t.Name != "logout":
			return closedEpoch
		}
		return ""
	}
	if t.By == ByUser {
		return ""
	}
	for i := range a.Sources {
		if a.Sources[i].Source == t.Source {
			if r.at < a.Sources[i].At {
				return olderAt
			}
			return ""
		}
	}
	return ""
}

// isStart says whether a trigger opens an epoch and asks for the account to run.
func isStart(trigger string) bool { return trigger == "start" || trigger == "login_started" }

// noEdge rejects; an account that claims to be up before anyone paired it is
// marked.
func (r *ruling) noEdge() {
	r.effects = 0
	r.reject(noEdge)
	if r.state == r.m.Initial() && r.t.Name == connectionReady {
		r.put(machine.IdentityUnverified, "", 0, r.t.Reason.Code)
	}
}

// guard checks the guards that do not depend on conditions.
func (r *ruling) guard(cell machine.Cell) bool {
	holds, why := true, ""
	switch cell.When {
	case machine.WhenNewerEpoch:
		holds, why = r.t.Epoch > r.epoch(), needsNewerEpoch
	case machine.WhenTgtLive:
		holds, why = r.a.extra().TgtUntil >= r.at && r.a.extra().TgtUntil != 0, tgtExpired
	}
	if holds {
		return true
	}
	switch cell.Else {
	case machine.ElseStale:
		r.effects = 0
		r.stale(why)
	case machine.ElseRejected:
		r.effects = 0
		r.reject(why)
	default:
		r.trigger()
		r.intent()
		r.vouched()
	}
	return false
}

// target lets the trigger work on the conditions and says where the cell leads.
func (r *ruling) target(cell machine.Cell) (to string, ok bool) {
	if cell.Act == machine.MoveTold {
		if to, ok = cell.MayTell(r.t.Data.text("state")); !ok {
			r.effects = 0
			r.reject(cannotBeAdopted)
			return "", false
		}
		r.trigger()
		return to, true
	}
	r.trigger()
	switch cell.When {
	case machine.WhenBlocked:
		if !r.blocked() {
			return r.state, true
		}
	case machine.WhenUnblocked:
		if !r.unblocked() {
			return r.state, true
		}
	}
	switch {
	case cell.Act == machine.Stay:
		return r.state, true
	case cell.Act == machine.MoveFree && r.blocked():
		return cell.Blocked, true
	default:
		return cell.To, true
	}
}

// trigger is what a legal trigger does to the conditions, wherever it leads.
func (r *ruling) trigger() {
	d := r.t.Data
	switch r.t.Name {
	case "rate_limited":
		r.put(machine.RateLimited, "", d.time("until"), r.code())
	case "restricted":
		r.put(machine.Restricted, d.text("scope"), d.time("until"), r.code())
	case "restriction_lifted":
		if scope := d.text("scope"); scope != "" {
			r.endScope(machine.Restricted, scope)
		} else {
			r.end(machine.Restricted)
			r.end(machine.RateLimited)
		}
	case "probe_failed":
		if r.m.Up(r.state) {
			r.put(machine.Unresponsive, "", 0, r.code())
		}
	case "probe_ok":
		r.end(machine.Unresponsive)
	case connectionReady, reconnectSuccess:
		r.end(machine.Unresponsive)
		if c, ok := r.standing(machine.RateLimited, ""); ok && c.Until == 0 {
			r.end(machine.RateLimited)
		}
		r.end(machine.SendStalled)
	case "connection_replaced":
		r.put(machine.Replaced, "", 0, r.code())
	case "connect_refused":
		r.put(machine.Refused, "", 0, r.code())
	case "banned":
		r.put(machine.Banned, "", d.time("until"), r.code())
	case "logout":
		r.end(machine.Replaced)
		r.end(machine.Refused)
	case "user_action_needed":
		if action := d.text("action"); action != "" {
			r.put(machine.UserAction, "", 0, action)
		} else {
			r.end(machine.UserAction)
		}
	case "login_succeeded", "ticket_renewed", "reconnected":
		r.renewed()
	case "sync_completed", "sync_advanced":
		r.synced()
	}
}

// code is what a condition keeps as its reason: the code of the data, else the
// code of the reason, else its text.
func (r *ruling) code() string {
	if code := r.t.Data.text("code"); code != "" {
		return code
	}
	if n, ok := r.t.Data.count("code"); ok {
		return decimal(n)
	}
	if r.t.Reason.Code != "" {
		return r.t.Reason.Code
	}
	return r.t.Reason.Text
}

// moved is what follows from a change of state, whatever caused it.
func (r *ruling) moved(from, to string) {
	r.end(machine.Stuck)
	r.upAndDown(from, to)
	if r.m.Class(from) == machine.ClassStopped {
		r.end(machine.UnexpectedStop)
		if s, _ := r.m.State(to); r.desired() == DesiredStop && r.t.By != ByUser && s.Attention != machine.LoginNeeded {
			r.put(machine.UnexpectedActivity, "", 0, r.t.Name)
		}
	}
	if r.kind == KindSession {
		r.end(machine.IdentityUnverified)
	}
	if r.m.AsksLogin(to, r.t.Name, r.t.By == ByUser, r.a != nil && r.a.Ran) {
		r.effects |= EffectAsksLogin
	}
	if r.m.Tickets() {
		r.movedTickets(from, to)
	}
	if r.m.Class(to) == machine.ClassDown && r.t.Name != "recover" {
		r.lost(from)
	}
}

// upAndDown is what coming up and going down does.
func (r *ruling) upAndDown(from, to string) {
	wasUp, isUp := r.m.Up(from), r.m.Up(to)
	switch {
	case wasUp && !isUp:
		r.end(machine.Unresponsive)
	case isUp && !wasUp:
		r.effects |= EffectUp
		r.end(machine.Banned)
		r.end(machine.GaveUp)
		if r.m.Class(to) == machine.ClassReady {
			r.end(machine.UserAction)
		}
	}
	if r.m.Class(to) == machine.ClassReady && (r.a == nil || !r.a.Ran) {
		r.effects |= EffectRan
	}
}

// lost counts a move into a state of class down for flapping.
func (r *ruling) lost(from string) {
	if !r.m.Has(machine.Flapping) || r.mode() == ModeSupervise && !r.m.Up(from) {
		return
	}
	r.effects |= EffectFlap
	last := lastFlaps(r.a.trouble().Flaps, r.at)
	first, latest := slices.Min(last), slices.Max(last)
	_, stands := r.standing(machine.Flapping, "")
	if stands || len(last) == maxFlaps && latest-first <= flapWindow {
		r.put(machine.Flapping, "", latest+flapWindow, "")
	}
}

// intent is what a legal session trigger says about what is wanted.
func (r *ruling) intent() {
	t := r.t
	byUser, applied := t.By == ByUser, r.outcome == Applied
	switch {
	case isStart(t.Name):
		if applied {
			r.effects |= EffectOpen
		}
		if byUser {
			r.effects |= EffectWantRun | EffectTriesReset
			r.endAll(machine.Replaced, machine.Refused, machine.GaveUp, machine.UnexpectedActivity, machine.UnexpectedStop, machine.SendStalled)
		}
	case t.Name == "stop":
		if byUser {
			r.effects |= EffectWantStop
			r.endAll(machine.Replaced, machine.Refused, machine.Banned, machine.UnexpectedActivity, machine.UnexpectedStop)
		} else if applied && t.By != ByUs && r.desired() == DesiredRun {
			r.put(machine.UnexpectedStop, "", 0, r.code())
		}
	}
	if applied && (t.Name == "stop" || t.Name == "logout") {
		r.effects |= EffectClose
	}
	if applied && r.a != nil && r.a.Forgotten && (isStart(t.Name) || t.Name == "adopt" || t.Name == "online") {
		r.effects |= EffectRevive
	}
	if rule, _, ok := r.m.Retry(); ok && t.Source == SourceMuster && t.Name == rule.Trigger && r.state == rule.State {
		r.effects |= EffectTry
	}
}

func (r *ruling) endAll(names ...string) {
	for _, name := range names {
		r.end(name)
	}
}

// vouched ends the doubts about an account when its source speaks, or one that
// becomes its source.
func (r *ruling) vouched() {
	becomes := r.t.By != ByUser && r.t.Source != SourceMuster
	if !becomes {
		r.effects |= EffectSourceKept
	}
	if becomes || r.a != nil && r.a.Source != "" && r.a.Source == r.t.Source {
		r.end(machine.Unvouched)
		r.end(machine.Unverified)
	}
}
