package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/musterhq/muster/cmd/internal/api"
	"github.com/musterhq/muster/domain/explain"
)

func newWhy(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "why ACCOUNT",
		Short: "Say where an account is, what it waits for and who must act, with the evidence",
		Long: `Say in one sentence where an account is: its state, since when, what it waits for and who must
act. Then the evidence: what moved it last, what was refused since, who stands behind its state,
what Muster does next, how its time in this state compares with that of others, and how many
others are in the same place.`,
		Example: "  muster why acct-1\n  muster why acct-1 -o json",
		Args:    takes("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var w api.Why
			if err := c.query(cmd.Context(), api.WhyQuery, api.WhyRequest{Account: args[0]}, &w); err != nil {
				return err
			}
			return c.show(w, func(t *grid) { whySheet(t, &w) })
		},
	}
}

func whySheet(t *grid, w *api.Why) {
	t.line("%s", printable(w.Sentence))
	t.line("")
	fact := func(name, format string, args ...any) {
		t.line("%-14s %s", name, printable(fmt.Sprintf(format, args...)))
	}
	fact("machine", "%s, mode %s, desired %s", w.Machine, w.Mode, w.Desired)
	fact("may", "%s", orWord(abilities(w.Can), "nothing"))
	for _, k := range w.Conditions {
		fact("condition", "%s since %s%s", conditionWords(k.Name, k.Scope, k.Reason), clock(k.Since), untilWords(k.Until))
	}
	for _, a := range w.Attention {
		fact("needs a human", "%s: %s. %s", a.Kind, a.About, a.Do)
	}
	whyProgress(w, fact)
	whySource(&w.Source, fact)
	whyNext(w, fact)
	whyOthers(w, fact)
}

// whyProgress says what moved the account last, and what came since.
func whyProgress(w *api.Why, fact func(string, string, ...any)) {
	if p := w.Progress; p != nil {
		fact("last move", "%s -> %s via %s at %s%s", p.From, p.To, p.Trigger, clock(p.At), fromWords(p.Source))
	} else {
		fact("last move", "%s", noMove(&w.After))
	}
	fact("since then", "%d rejected, %d stale, %d without effect%s", w.After.Rejected, w.After.Stale, w.After.Noop, atLeast(&w.After))
	for i := range w.After.Refused {
		e := &w.After.Refused[i]
		fact("", "%s %s at %s%s (%s)", e.Outcome, e.Trigger, clock(e.At), fromWords(e.Source), eventReason(e))
	}
}

func noMove(a *api.AfterMove) string {
	if a.Whole {
		return "none: it has not been moved since its first event"
	}
	return fmt.Sprintf("not among its last %d events", a.Looked)
}

func atLeast(a *api.AfterMove) string {
	if a.Whole {
		return ""
	}
	return " at least"
}

// whySource says who stands behind the state.
func whySource(s *api.SourceFacts, fact func(string, string, ...any)) {
	if s.Name == "" {
		fact("source", "none: only users and Muster have spoken")
		return
	}
	last := "not heard"
	if s.Age != nil {
		last = "last word " + spanOf(*s.Age) + " ago"
	}
	fact("source", "%s, %s", s.Name, last)
	if w := s.Worker; w != nil {
		fact("worker", "%s, last beat %s ago (every %s)", w.State, age(w.BeatAge), seconds(w.BeatEvery))
		return
	}
	fact("worker", "not known as one: its silence says nothing")
}

// whyNext says what Muster does by itself.
func whyNext(w *api.Why, fact func(string, string, ...any)) {
	if r := &w.Retries; r.Most > 0 || r.Done > 0 {
		last := ""
		if r.Last != "" {
			last = ", the last at " + clock(r.Last)
		}
		fact("tries", "%d of %d%s", r.Done, r.Most, last)
	}
	if d := w.Next; d != nil {
		fact("next", "%s%s at %s (in %s)", d.Trigger, strings.TrimSuffix(" "+d.About, " "), clock(d.At), spanOf(d.In))
	} else {
		fact("next", "nothing is due")
	}
}

// whyOthers compares the account with others.
func whyOthers(w *api.Why, fact func(string, string, ...any)) {
	d := &w.Dwell
	if d.Median == nil || d.P95 == nil || d.Longer == nil {
		fact("compared", "no stay in %s has ended yet", w.State)
	} else {
		fact("compared", "%s in %s is longer than %.0f %% of %d stays that ended (median %s, p95 %s)",
			spanOf(w.For), w.State, 100**d.Longer, d.Stays, spanOf(*d.Median), spanOf(*d.P95))
	}
	reason := ""
	if w.Reason != "" {
		reason = fmt.Sprintf(", %d of them because of %s", w.Others.SameReason, w.Reason)
	}
	fact("others", "%d more of %s are in %s%s", w.Others.InState, w.Machine, w.State, reason)
	if w.Damage != "" {
		fact("damage", "%s", w.Damage)
	}
}

func spanOf(seconds float64) string {
	return explain.Span(time.Duration(seconds * float64(time.Second)))
}

func orWord(text, word string) string {
	if text == "" {
		return word
	}
	return text
}

func conditionWords(name, scope, reason string) string {
	if scope != "" {
		name += " in " + scope
	}
	if reason != "" {
		name += " (" + reason + ")"
	}
	return name
}

func untilWords(until string) string {
	if until == "" {
		return ""
	}
	return " until " + clock(until)
}

func fromWords(source string) string {
	if source == "" {
		return ""
	}
	return " from " + source
}
