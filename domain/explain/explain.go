// Package explain says in plain sentences where an account is: what it waits
// for, who must act, and why it may not do something.
//
// It owns the words. Authoritative is the fold of the account; the package
// reads it and the machine's table, has no clock and no memory, and gives the
// same sentence for the same account at the same time. It cannot fail: of a
// machine that this process does not know, and of a state that only a user's own
// machine has, it says what the class and the conditions tell.
package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/machine"
)

// Who must act before an account moves on.
type Who string

// Who it can be.
const (
	Nobody    Who = "nobody"    // nothing is to be done
	Person    Who = "person"    // an operator, or who has the account's phone
	Connector Who = "connector" // the account's source
	Muster    Who = "muster"    // it acts by itself, at a time that is known
	Vendor    Who = "vendor"
)

// Facts are what a sentence is made of. Judge, Account and Now are required.
type Facts struct {
	Judge   *domain.Judge
	Account *domain.Account
	Reason  string // why it came into its state: a code or a trigger; "" = not known
	Damage  string // why its history is not whole; "" = it is
	Now     int64  // unix ns
}

// Explanation is where an account is, in words.
type Explanation struct {
	Sentence string // all of it
	WaitsFor string // a clause; "" = it waits for nothing
	Who      Who
}

// Account explains an account.
func Account(f Facts) Explanation {
	s := newSubject(f)
	v := s.verdict()
	var b strings.Builder
	fmt.Fprintf(&b, "%s has been %s for %s (since %s", f.Account.ID, f.Account.State, Span(time.Duration(f.Now-f.Account.Since)), Clock(f.Account.Since))
	if s.reason != "" {
		fmt.Fprintf(&b, ", %s", s.reason)
	}
	b.WriteString("): " + v.is)
	if v.waitsFor != "" {
		b.WriteString("; it waits for " + v.waitsFor)
	}
	b.WriteString("; " + s.act(v.who) + ".")
	return Explanation{Sentence: b.String(), WaitsFor: v.waitsFor, Who: v.who}
}

// act says who must act.
func (s *subject) act(who Who) string {
	switch who {
	case Person:
		return "a person must act"
	case Connector:
		if s.a.Source == "" {
			return "its connector must act"
		}
		return "its connector " + s.a.Source + " must act"
	case Muster:
		return "Muster acts by itself"
	case Vendor:
		return "it is up to the vendor"
	}
	return "nobody has to act"
}

// Span is a time span for people: its one or two largest units.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(0, d); {
	case d < time.Second:
		return "less than a second"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < day:
		return two(d, time.Hour, "h", time.Minute, "min")
	}
	return two(d, day, "d", time.Hour, "h")
}

func two(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	if rest := d % large / small; rest > 0 {
		return fmt.Sprintf("%d %s %d %s", d/large, largeName, rest, smallName)
	}
	return fmt.Sprintf("%d %s", d/large, largeName)
}

// Clock is a time for people, in UTC to the second.
func Clock(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05Z") }

// Condition says a condition in a few words: its name, scope, end and reason.
func Condition(c *domain.Condition) string {
	text := c.Name
	if c.Scope != "" {
		text += " in " + c.Scope
		if c.Name == machine.TicketExpiring {
			text = c.Name + " (" + c.Scope + ")"
		}
	}
	if c.Until != 0 {
		text += " until " + Clock(c.Until)
	}
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	return text
}

// Block says why an account can not do something, as the judge found it: its
// state, if that is in the way, and the conditions.
func Block(a *domain.Account, b *domain.Block) string {
	var words []string
	if b.State {
		words = append(words, "it is "+a.State)
	}
	for i := range b.Conditions {
		words = append(words, Condition(&b.Conditions[i]))
	}
	return strings.Join(words, "; ")
}
