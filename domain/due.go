package domain

import (
	"hash/fnv"
	"strconv"
	"time"

	"github.com/musterhq/muster/domain/machine"
)

// The ranks of deadlines that are due at the same time: the lower is judged
// first.
const (
	RankStuck = iota
	RankExpired
	RankRetry
	RankSettled
	RankBeats
	RankTicketDue
	RankSidEnded
	RankTgtEnded
	RankStalled
	RankTimedOut
	RankUnanswered
)

// Deadline is the next moment at which Muster itself has something to say
// about an account.
type Deadline struct {
	At      int64   // unix ns, when it is due
	Rank    int     // kind of deadline, for ties
	Sub     string  // name and scope, or key: the last tie-break, by bytes
	Trigger Trigger // what to judge; set its At to the later of the due time and the moment it can first fire
}

// The spans and counts of the deadline rules.
const (
	second         = int64(time.Second)
	settleAfter    = 10 * 60 * second
	replacedHold   = 30  // seconds
	refusedHold    = 300 // seconds
	replacedTries  = 3
	longestBackoff = 60 // seconds
)

// Due returns the account's next deadline; ok is false when it has none. It is
// derived from the account alone. Judge it at once, or ask again: any event of
// the account may change it.
func (j *Judge) Due(a *Account) (d Deadline, ok bool) {
	if a == nil || a.Forgotten {
		return Deadline{}, false
	}
	m, known := j.machines.Get(a.Machine)
	if !known {
		return Deadline{}, false
	}
	s := search{j: j, m: m, a: a, at: never}
	s.stuck()
	s.expiring()
	s.retry()
	s.settled()
	s.beats()
	s.tickets()
	s.talk()
	if s.at == never {
		return Deadline{}, false
	}
	return s.deadline(), true
}

// search looks for the earliest deadline of an account.
type search struct {
	j    *Judge
	m    *machine.Machine
	a    *Account
	at   int64
	rank int
	sub  string // of the best so far
	what finding
}

// finding is what the best deadline so far would trigger.
type finding struct {
	name, reason     string
	condition, scope string
	key              string
	due              int64  // for a timeout: the time for which it was due
	ticket           string // for ticket_due: which one
}

// offer takes a deadline when it comes before the best so far.
func (s *search) offer(at int64, rank int, sub string, what finding) {
	earlier := at < s.at || at == s.at && (rank < s.rank || rank == s.rank && sub < s.sub)
	if s.what.name == "" || earlier {
		s.at, s.rank, s.sub, s.what = at, rank, sub, what
	}
}

func (s *search) deadline() Deadline {
	t := Trigger{Account: s.a.ID, Name: s.what.name, Key: s.what.key, At: s.at, HasAt: true, Source: SourceMuster, By: ByUs,
		Reason: Reason{Code: s.what.reason}, Expect: NoExpect}
	switch {
	case s.what.condition != "":
		t.Data = Data{"condition": s.what.condition}
		if s.what.scope != "" {
			t.Data["scope"] = s.what.scope
		}
	case s.what.due != 0:
		t.Data = Data{"due": FormatTime(s.what.due)}
	case s.what.ticket != "":
		t.Data = Data{"ticket": s.what.ticket}
	}
	return Deadline{At: s.at, Rank: s.rank, Sub: s.sub, Trigger: t}
}

// stuck: longer in a passing state than it should be.
func (s *search) stuck() {
	for _, d := range s.m.Deadlines(s.a.State) {
		marks := d.Trigger == "mark_stuck"
		switch {
		case d.Mode != "" && d.Mode != s.a.Mode, d.Desired != "" && d.Desired != s.a.Desired:
		case marks && s.a.has(machine.Stuck):
		default:
			s.offer(s.a.Since+int64(d.After), RankStuck, "", finding{name: d.Trigger, reason: d.Reason})
		}
	}
}

// expiring: conditions that end at a time.
func (s *search) expiring() {
	for i := range s.a.Conditions {
		if c := &s.a.Conditions[i]; c.Until != 0 && c.Until <= s.at {
			s.offer(c.Until, RankExpired, c.Name+"\x00"+c.Scope, finding{name: "condition_expired", condition: c.Name, scope: c.Scope})
		}
	}
}

// retry: a supervised account that is down and wanted is brought back, until
// the tries are used up.
func (s *search) retry() {
	a := s.a
	rule, stays, ok := s.m.Retry()
	if !ok || a.State != rule.State || a.Mode != ModeSupervise || a.Desired != DesiredRun || a.has(machine.GaveUp) || a.has(machine.LoginNeeded) {
		return
	}
	t := a.trouble()
	limit := rule.Tries
	if a.has(machine.Replaced) {
		limit = min(limit, replacedTries)
	}
	from := a.Since
	if stays {
		from = max(from, t.LastTry)
	}
	n := t.Tries + 1
	if t.Tries >= limit {
		if stays {
			from += s.delay(backoff(n), n)
		}
		s.offer(from, RankRetry, "", finding{name: "mark_gave_up"})
		return
	}
	due := max(from+s.delay(backoff(n), n), s.holds(t, n))
	if due != never {
		s.offer(due, RankRetry, "", finding{name: rule.Trigger})
	}
}

// holds is the time before which the conditions forbid the n-th try.
func (s *search) holds(t Trouble, n int) int64 {
	a, until := s.a, int64(0)
	if a.has(machine.Replaced) {
		until = max(until, max(a.Since, t.ReplacedAt)+s.delay(replacedHold, n))
	}
	if a.has(machine.Refused) {
		until = max(until, max(a.Since, t.RefusedAt)+s.delay(refusedHold, n))
	}
	if a.has(machine.Banned) && t.BannedTill == 0 {
		return never
	}
	if t.BannedTill != 0 {
		until = max(until, t.BannedTill+s.delay(backoff(1), 1))
	}
	return until
}

// backoff is the base of the n-th wait, in seconds.
func backoff(n int) int64 {
	if n > 6 {
		return longestBackoff
	}
	return min(longestBackoff, int64(1)<<n)
}

// delay is base seconds × (0.8 + 0.4·u), in whole nanoseconds; u is spread by
// account and n, and the same everywhere.
func (s *search) delay(base int64, n int) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.a.ID))
	_, _ = h.Write([]byte("#" + strconv.Itoa(n)))
	k := int64(h.Sum64() % 1000)
	return base * 100_000 * (8_000 + 4*k)
}

// settled: up for long enough that former trouble counts no more.
func (s *search) settled() {
	a := s.a
	if !s.m.Up(a.State) || a.trouble().Tries == 0 && !a.has(machine.Replaced) && !a.has(machine.Refused) {
		return
	}
	s.offer(a.UpSince+settleAfter, RankSettled, "", finding{name: "settled"})
}
