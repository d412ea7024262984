package sim

import (
	"time"

	"github.com/musterhq/muster/domain"
)

// onboard plans how a person brings an account up: start, QR codes that are
// renewed, a scan, the first sync. The strict machine tells of the main way only.
func (a *actor) onboard(at int64, p *Profile) {
	a.user(at, "start")
	at = after(at, a.between(500*time.Millisecond, 3*time.Second))
	a.say(at, "qr_received", fresh)
	scan, shown := after(at, a.about(35*time.Second)), 60*time.Second
	if a.chance(p.NeverScan) {
		scan = after(at, time.Hour)
	}
	for codes := 1; codes < 6 && after(at, shown) < scan; codes++ {
		at = after(at, shown)
		a.say(at, "qr_received")
		shown = 20 * time.Second
	}
	if end := after(at, shown); end < scan {
		a.expire(end)
		return
	}
	a.scanned(scan)
}

// expire ends a pairing that nobody went through with; a person tries again later.
func (a *actor) expire(at int64) {
	if a.kind == whatsapp1 {
		a.user(at, "stop")
	} else {
		a.say(at, "qr_expired", code("408"))
	}
	a.decide(after(at, a.between(5*time.Minute, 3*time.Hour)))
}

// scanned plans what follows a scan.
func (a *actor) scanned(at int64) {
	strict := a.kind == whatsapp1
	switch {
	case strict || a.told:
		a.say(at, "qr_scanned")
	case a.chance(0.03):
		a.say(at, "pair_failed")
		a.decide(after(at, a.between(time.Minute, time.Hour)))
		return
	}
	at = after(at, a.between(time.Second, 4*time.Second))
	if a.told && !strict {
		a.say(at, "handshake_restart", code("515"))
		at = after(at, a.between(time.Second, 3*time.Second))
	}
	switch {
	case !strict && a.chance(0.02): // thrown out again right after the pairing
		a.say(after(at, a.between(10*time.Second, 40*time.Second)), "logout", code("401"))
		a.decide(after(at, a.between(10*time.Minute, 6*time.Hour)))
		return
	case strict || a.told:
		at = after(at, a.between(4*time.Second, 50*time.Second))
		a.say(at, "sync_completed")
	default:
		a.say(at, "connection_ready")
	}
	a.paired = true
	a.decide(at)
}

// What can befall a WhatsApp account that is online.
const (
	blip = iota
	drop
	probe
	limit
	restriction
	stolen
	ban
	refused
	loggedOut
	operator
	crash
	phone
	newCode
)

// weights say how often each comes, in the order above.
func weights(severe float64) []float64 {
	return []float64{50, 18, 8, 7, 3, 1.5 * severe, 0.5 * severe, severe, 2 * severe, 3, 3, 2, 0.4 * severe}
}

// episode decides what an account does next.
func (f *Fleet) episode(a *actor, at int64) {
	p := &f.cfg.Profile
	switch {
	case a.kind == instance:
		a.flicker(at, p)
	case a.kind == wecom:
		a.office(at, p)
	case !a.paired:
		a.up = false
		a.onboard(at, p)
	case !a.up:
		a.up, a.limited = true, false
		a.decide(after(at, a.about(p.Episode)))
	case a.kind == whatsapp1:
		a.strict(at)
	default:
		a.befall(at, a.pick(weights(p.Severe)))
	}
	if a.kind == whatsapp2 && a.chance(strayScan) {
		a.say(after(at, a.about(time.Minute)), "qr_scanned") // a callback of another time
	}
}

// down plans a decision at a time at which the account is online again.
func (a *actor) down(back int64) {
	a.up = false
	a.decide(back)
}

// befall plans one thing that happens to an account that is online.
func (a *actor) befall(at int64, what int) {
	switch what {
	case blip:
		back := after(at, a.between(200*time.Millisecond, 5*time.Second))
		a.say(at, "connection_lost", code("428"))
		a.say(back, "connection_ready", fresh)
		a.down(back)
	case drop:
		a.drop(at)
	case probe:
		a.say(at, "probe_failed")
		back := after(at, a.between(30*time.Second, 3*time.Minute))
		if a.chance(0.3) {
			a.say(back, "connection_ready", fresh)
		} else {
			a.say(back, "probe_ok")
		}
		a.down(back)
	case limit:
		a.limit(at)
	case restriction:
		a.restriction(at)
	case phone:
		a.say(at, "user_action_needed", data(openPhone))
		done := after(at, a.about(20*time.Minute))
		a.say(done, "user_action_needed", data(noAction))
		a.decide(done)
	case operator:
		back := after(at, a.between(time.Minute, 2*time.Hour))
		a.user(at, "stop")
		a.user(back, "start")
		a.come(after(back, time.Second), "connection_ready")
	case crash: // its process comes back without a word of the end
		a.say(at, "start", fresh)
		a.come(at, "connection_ready")
	default:
		a.severe(at, what)
	}
}

var (
	openPhone = domain.Data{"action": "open_phone"}
	noAction  = domain.Data{"action": ""}
	newChats  = domain.Data{"scope": "new_chats"}
)

// come plans that a connection which is being made is there soon.
func (a *actor) come(at int64, with string) {
	back := after(at, a.between(time.Second, 20*time.Second))
	a.say(back, with, fresh)
	a.down(back)
}

// severe plans what takes an account away for longer.
func (a *actor) severe(at int64, what int) {
	switch what {
	case stolen:
		a.say(at, "connection_replaced", code("440"))
		for n := 1; n < 4 && a.chance(0.5); n++ {
			at = after(at, a.between(30*time.Second, 2*time.Minute))
			a.say(at, "connection_ready", fresh)
			at = after(at, a.between(time.Second, time.Minute))
			a.say(at, "connection_replaced", code("440"))
		}
		a.come(after(at, a.between(time.Minute, 30*time.Minute)), "connection_ready")
	case ban:
		length := 24 * time.Hour
		a.say(at, "banned", code("104"), lasts("until", length))
		a.come(after(at, length+time.Minute), "connection_ready")
	case refused:
		a.say(at, "connect_refused", code("405"))
		a.come(after(at, a.between(10*time.Minute, time.Hour)), "connection_ready")
	case newCode:
		a.paired = false
		a.say(at, "qr_received", fresh)
		a.up = false
		a.scanned(after(at, a.about(3*time.Minute)))
	default:
		a.paired = false
		a.say(at, "logout", code([]string{"401", "401", "403"}[a.pick([]float64{3, 3, 1})]))
		a.down(after(at, a.between(10*time.Minute, 12*time.Hour)))
	}
}

// drop plans a loss from which the account comes back after some tries.
func (a *actor) drop(at int64) {
	a.say(at, "connection_lost", code("408"))
	at = after(at, a.between(time.Second, 4*time.Second))
	for n := 0; n < 8 && a.chance(0.45); n++ {
		a.say(at, "start")
		at = after(at, a.between(2*time.Second, 10*time.Second))
		a.say(at, "reconnect_failed", code("dial"))
		at = after(at, a.between(2*time.Second, time.Minute))
	}
	a.say(at, "start")
	a.come(at, "reconnect_success")
}

// limit plans that the vendor slows the account down for a while.
func (a *actor) limit(at int64) {
	length := a.between(2*time.Minute, 30*time.Minute)
	a.limited = true
	if a.chance(0.7) {
		a.say(at, "rate_limited", code("429"), lasts("until", length))
		a.up = false
		a.decide(after(at, length+time.Second))
		return
	}
	a.say(at, "rate_limited", code("429"))
	a.say(after(at, length), "restriction_lifted")
	a.down(after(at, length))
}

// restriction plans that the account may not write to strangers.
func (a *actor) restriction(at int64) {
	length := a.between(6*time.Hour, 24*time.Hour)
	a.say(at, "restricted", code("463"), data(newChats), lasts("until", length))
	if a.chance(0.3) {
		a.say(after(at, a.between(time.Hour, 5*time.Hour)), "restriction_lifted", data(newChats))
	}
	a.up = false // decided anew at once
	a.decide(at)
}

// strict plans what an account of the strict machine can tell.
func (a *actor) strict(at int64) {
	switch a.pick([]float64{60, 15, 10, 5}) {
	case 0:
		a.say(at, "connection_lost", code("428"))
		at = after(at, a.between(time.Second, 10*time.Second))
		for n := 0; n < 5 && a.chance(0.3); n++ {
			a.say(at, "start", fresh)
			at = after(at, a.between(2*time.Second, 10*time.Second))
			a.say(at, "reconnect_failed")
			at = after(at, a.between(2*time.Second, time.Minute))
		}
		a.say(at, "start", fresh)
		at = after(at, a.between(time.Second, 10*time.Second))
		a.say(at, "reconnect_success")
		a.down(at)
	case 1:
		a.limited = true
		a.say(at, "rate_limited", code("429"))
		at = after(at, a.between(time.Minute, 20*time.Minute))
		a.say(at, "connection_ready")
		a.down(at)
	case 2:
		a.paired = false
		a.user(at, "stop")
		a.down(after(at, a.between(time.Minute, 2*time.Hour)))
	default:
		a.paired = false
		a.say(at, "logout", code("401"))
		a.down(after(at, a.between(10*time.Minute, 6*time.Hour)))
	}
}
