package domain

import (
	"time"

	"github.com/musterhq/muster/domain/machine"
)

// The two tickets, as they stand in scopes and data.
const (
	ticketSid = "sid"
	ticketTgt = "tgt"
)

// resyncAfter is how old the last sync may be; after that the local copy must
// be rebuilt.
const resyncAfter = int64(7 * 24 * time.Hour)

// renewed takes over the tickets that a trigger brings. A login forgets those
// that it does not bring.
func (r *ruling) renewed() {
	if !r.m.Tickets() {
		return
	}
	r.effects |= EffectTickets
	login := r.t.Name == "login_succeeded"
	if login {
		r.effects |= EffectLogout
	}
	if login || r.t.Data.time("sid_until") != 0 {
		r.endScope(machine.TicketExpiring, ticketSid)
	}
	brings := r.t.Data.time("tgt_until") != 0
	if login || brings {
		r.endScope(machine.TicketExpiring, ticketTgt)
	}
	if brings {
		r.end(machine.LoginNeeded)
	}
}

// movedTickets is what a change of state does to tickets.
func (r *ruling) movedTickets(from, to string) {
	if r.m.Class(to) == machine.ClassIdle {
		r.effects |= EffectLogout
		r.end(machine.TicketExpiring)
	}
	if r.m.Class(from) == machine.ClassDown {
		r.end(machine.LoginNeeded)
	}
	if until := r.a.extra().TgtUntil; r.m.Class(to) == machine.ClassDown && until < r.at {
		r.put(machine.LoginNeeded, "", 0, "") // an unknown one is 0
	}
}

// goesBack says whether the trigger's cursor is lower than the account's.
func (r *ruling) goesBack() bool {
	next, ok := r.t.Data.count("next_seq")
	x := r.a.extra()
	return ok && x.HasCursor && next < x.Cursor
}

// synced moves the cursor. One that begins anew, and one after a long absence,
// mean that the local copy must be rebuilt.
func (r *ruling) synced() {
	if !r.m.Tickets() {
		return
	}
	r.effects |= EffectSync
	if _, ok := r.t.Data.count("next_seq"); ok {
		r.effects |= EffectCursor
	}
	last := r.a.extra().LastSync
	switch {
	case r.t.Data.flag("full"), r.goesBack(), last != 0 && r.at-last > resyncAfter:
		r.put(machine.FullResync, "", 0, "")
	case r.t.Name == "sync_advanced":
		r.end(machine.FullResync)
	}
}

// beats: an account that is ready has been silent for too long.
func (s *search) beats() {
	longest := s.m.Beats()
	if longest == 0 || s.j.noBeats || s.m.Class(s.a.State) != machine.ClassReady {
		return
	}
	s.offer(max(s.a.Since, s.a.extra().Beat)+int64(longest), RankBeats, "", finding{name: "connection_lost", reason: "heartbeats_missed"})
}

// tickets: a ticket is near its end, or ends.
func (s *search) tickets() {
	x := s.a.Extra
	if x == nil || !s.m.Tickets() {
		return
	}
	class := s.m.Class(s.a.State)
	if class != machine.ClassIdle {
		s.expiringTicket(ticketSid, x.SidFrom, x.SidUntil)
		s.expiringTicket(ticketTgt, x.TgtFrom, x.TgtUntil)
	}
	if class == machine.ClassReady && x.SidUntil != 0 && x.SidUntil >= s.a.Since {
		s.offer(x.SidUntil, RankSidEnded, "", finding{name: "connection_lost", reason: "sid_expired"})
	}
	if class == machine.ClassDown && x.TgtUntil != 0 && !s.a.has(machine.LoginNeeded) {
		s.offer(x.TgtUntil, RankTgtEnded, "", finding{name: "ticket_ended", ticket: ticketTgt})
	}
}

// expiringTicket offers the moment at which nine tenths of a ticket's life are over.
func (s *search) expiringTicket(ticket string, from, until int64) {
	if until == 0 {
		return
	}
	if _, told := s.a.condition(machine.TicketExpiring, ticket); told {
		return
	}
	life := until - from
	s.offer(from+life/10*9+life%10*9/10, RankTicketDue, machine.TicketExpiring+"\x00"+ticket, finding{name: "ticket_due", ticket: ticket})
}
