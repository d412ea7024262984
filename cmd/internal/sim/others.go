package sim

import (
	"time"

	"github.com/musterhq/muster/domain"
)

// flicker plans that an instance goes offline and comes back.
func (a *actor) flicker(at int64, p *Profile) {
	if a.chance(0.2) { // some sources repeat themselves
		a.say(at, "online")
		a.decide(after(at, a.about(p.Episode)))
		return
	}
	a.say(at, "offline")
	back := after(at, a.about(2*time.Minute))
	a.say(back, "online")
	a.decide(after(back, a.about(p.Episode)))
}

// The lives of wecom's tickets.
const (
	sidLife = 24 * time.Hour
	tgtLife = 30 * 24 * time.Hour
)

// login plans a login of wecom, its sync and its heartbeats.
func (a *actor) login(at int64) {
	a.say(at, "login_started", fresh)
	at = after(at, a.between(2*time.Second, 40*time.Second))
	if a.chance(0.05) {
		a.say(at, "login_failed", code("qr_timeout"))
		a.paired, a.up = false, false
		a.decide(after(at, a.between(time.Minute, time.Hour)))
		return
	}
	a.say(at, "login_succeeded", lasts("sid_until", sidLife), lasts("tgt_until", tgtLife))
	a.add(step{at: after(at, 20*time.Hour), what: talks, trigger: "ticket_renewed", until: [2]until{{"sid_until", sidLife}}})
	a.sync(after(at, a.between(500*time.Millisecond, 3*time.Second)))
}

// sync plans wecom's way from the ticket to RUNNING.
func (a *actor) sync(at int64) {
	a.say(at, "sync_started", data(domain.Data{"sync_key": "k1"}))
	a.synced(after(at, a.between(time.Second, 20*time.Second)))
}

// synced plans the end of a sync.
func (a *actor) synced(at int64) {
	a.cursor += 1 + int64(a.rng.Uint64()%500)
	a.say(at, "sync_completed", data(domain.Data{"next_seq": a.cursor}))
	a.paired = true
	a.down(at)
}

// office plans what befalls a wecom account.
func (a *actor) office(at int64, p *Profile) {
	switch {
	case !a.paired:
		a.login(at)
	case !a.up:
		a.up = true
		a.add(step{at: after(at, time.Minute), what: beats})
		a.decide(after(at, a.about(p.Episode)))
	default:
		a.officeEpisode(at, p)
	}
}

func (a *actor) officeEpisode(at int64, p *Profile) {
	switch a.pick([]float64{60, 30, 3 * p.Severe}) {
	case 0:
		a.cursor += 1 + int64(a.rng.Uint64()%50)
		a.say(at, "sync_advanced", data(domain.Data{"next_seq": a.cursor}))
		a.decide(after(at, a.about(p.Episode)))
	case 1:
		a.cut()
		a.say(at, "connection_lost", code("reset"))
		at = after(at, a.between(time.Second, 30*time.Second))
		for n := 0; n < 4 && a.chance(0.3); n++ {
			a.say(at, "reconnect_failed")
			at = after(at, a.between(2*time.Second, time.Minute))
		}
		a.say(at, "reconnected", fresh, lasts("sid_until", sidLife))
		a.synced(after(at, a.between(time.Second, 5*time.Second)))
	default:
		a.cut()
		a.paired = false
		a.say(at, "logout", code("kicked"))
		a.down(after(at, a.between(10*time.Minute, 6*time.Hour)))
	}
}
