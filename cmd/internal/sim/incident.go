package sim

import (
	"fmt"
	"slices"
	"time"
)

// What befalls many accounts at once; the agenda names them by the negative.
const (
	outage   = 1 // a worker dies
	outdated = 2 // the vendor refuses the client of a worker's accounts
	revival  = 3 // the workers that are due are there again, from this number on
)

// planIncident plans the next one of a kind, not before a time has passed.
func (f *Fleet) planIncident(kind int32, calm, mean time.Duration) {
	if mean > 0 {
		f.agenda.push(after(f.now, calm+f.rng.about(mean)), -kind)
	}
}

// Kill lets a worker die now and come back after a time. The error says that
// there is none of that name, or that it is dead already.
func (f *Fleet) Kill(worker string, length time.Duration) error {
	w := slices.Index(f.names, worker)
	if w < 0 || f.dead[w] {
		return fmt.Errorf("there is no worker %q that could die", worker)
	}
	f.die(int32(w), length)
	return nil
}

// befall lets an incident happen.
func (f *Fleet) befall(kind int32) {
	switch kind {
	case outage:
		w := int32(f.rng.rng.Uint64() % uint64(f.cfg.Workers))
		if !f.dead[w] {
			f.die(w, f.rng.between(2*time.Minute, 15*time.Minute))
		}
		f.planIncident(outage, 0, f.cfg.Profile.Outage)
	case outdated:
		f.refuse(int32(f.rng.rng.Uint64() % uint64(f.cfg.Workers)))
		f.planIncident(outdated, 0, f.cfg.Profile.Outdated)
	default:
		f.revive(kind - revival)
	}
}

// die ends a worker without a word; its accounts are silent until it is back.
func (f *Fleet) die(w int32, length time.Duration) {
	f.dead[w] = true
	f.queue = append(f.queue, Item{Virtual: f.now, Signal: WorkerDies, Worker: f.names[w]})
	back := after(f.now, length)
	f.agenda.push(back, -(revival + w))
	f.each(w, func(a *actor) {
		a.cut()
		a.up = false
		for i := range a.plan {
			a.plan[i].at = max(a.plan[i].at, after(back, time.Minute)) // stays in order
		}
	})
}

// revive brings a worker back; its accounts come up one after the other.
func (f *Fleet) revive(w int32) {
	f.dead[w] = false
	f.queue = append(f.queue, Item{Virtual: f.now, Signal: WorkerUp, Worker: f.names[w]})
	f.each(w, func(a *actor) {
		at := after(f.now, a.between(time.Second, time.Minute))
		switch {
		case a.kind == wecom:
			a.login(at)
		case !a.paired:
			a.decide(at)
		case a.kind == whatsapp1:
			a.strictReturn(at)
		default:
			a.say(at, "start", fresh)
			back := after(at, a.between(time.Second, 20*time.Second))
			a.say(back, "connection_ready")
			a.down(back)
		}
	})
}

// strictReturn is how an account of the strict machine comes back: its table
// knows no crash.
func (a *actor) strictReturn(at int64) {
	a.say(at, "connection_lost", fresh)
	at = after(at, a.between(time.Second, 5*time.Second))
	a.say(at, "start")
	at = after(at, a.between(time.Second, 20*time.Second))
	a.say(at, "reconnect_success")
	a.down(at)
}

// refuse lets the vendor refuse all WhatsApp accounts of a worker within a minute.
func (f *Fleet) refuse(w int32) {
	if f.dead[w] {
		return
	}
	length := f.rng.between(20*time.Minute, 3*time.Hour)
	f.each(w, func(a *actor) {
		if a.kind != whatsapp2 || !a.up {
			return
		}
		a.cut()
		at := after(f.now, a.between(0, time.Minute))
		a.say(at, "connect_refused", code("405"))
		a.come(after(f.now, length), "connection_ready")
	})
}

// each changes the plans of a worker's accounts. Instances are hosted elsewhere.
func (f *Fleet) each(w int32, change func(*actor)) {
	for i := int(w); i < len(f.actors); i += f.cfg.Workers {
		a := &f.actors[i]
		if a.kind == instance {
			continue
		}
		change(a)
		if len(a.plan) > 0 {
			f.agenda.push(a.plan[0].at, int32(i))
		}
	}
}

// follow does what a step of a connection means for the account itself.
func (a *actor) follow(s *step) {
	switch s.trigger {
	case "stop", "logout", "connection_lost", "banned", "connect_refused", "connection_replaced":
		a.up = false
	}
}
