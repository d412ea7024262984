package lifecycle_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/musterhq/muster/domain"
)

// message2 is message@2 as it is specified. A cell is a letter for a target, "."
// for a noop, "-" for rejected; ">" after it: only when observed later than the
// failure, else a noop. "+" is the state of a message that is not known.
const message2 = `
	trigger           +  P  S  D  R  Y  T  F
	message_pending   P  .  .  .  .  .  .  .
	message_sent      S  S  .  .  .  .  .  .
	message_delivered D  D  D  .  .  .  .  D>
	message_read      R  R  R  R  .  .  .  R>
	message_replied   Y  Y  Y  Y  Y  .  Y  Y
	message_failed    F  F  F  .  .  .  F  .
	message_timed_out -  T  T  T  T  -  -  -
	message_stalled   -  .  -  -  -  -  -  -
`

// message1 is the strict form.
const message1 = `
	trigger           +  S  Y  T
	message_pending   -  -  -  -
	message_sent      S  -  -  -
	message_delivered -  -  -  -
	message_read      -  -  -  -
	message_replied   -  Y  -  -
	message_failed    -  -  -  -
	message_timed_out -  T  -  -
	message_stalled   -  -  -  -
`

var messageNames = map[string]string{"+": "", "P": "PENDING", "S": "SENT", "D": "DELIVERED", "R": "READ", "Y": "REPLIED", "T": "TIMED_OUT", "F": "FAILED"}

// timedOut is Muster's own trigger about message m, sent at noon.
func timedOut(seconds int) *domain.Trigger {
	return say(seconds, "message_timed_out", key("m"), from(domain.SourceMuster), with(domain.Data{"due": clock(1800)}))
}

// wayTo brings message m of an account to a state, last at second 1900.
func wayTo(t *testing.T, machine, state string) *domain.Account {
	t.Helper()
	ways := map[string][]string{"+": nil, "P": {"pending"}, "S": {"sent"}, "D": {"delivered"}, "R": {"read"}, "Y": {"sent", "replied"}, "T": {"sent", "timed_out"}, "F": {"failed"}}
	list := []*domain.Trigger{say(0, "set_labels", of(machine))}
	for i, name := range ways[state] {
		at := 1900
		if i < len(ways[state])-1 {
			at = 0
		}
		if name == "timed_out" {
			list = append(list, timedOut(1900))
			continue
		}
		list = append(list, say(at, "message_"+name, key("m")))
	}
	a := told(t, list...)
	if m, ok := a.Message("m"); ok != (state != "+") || ok && m.State != messageNames[state] {
		t.Fatalf("the way to %s leads to %+v", state, m)
	}
	return a
}

func TestMessageTables(t *testing.T) {
	for account, grid := range map[string]string{"whatsapp@2": message2, "whatsapp@1": message1, "wecom@1": message2, "instance@1": message2} {
		table := rows(grid)
		for _, f := range table[1:] {
			for i, cell := range f[1:] {
				for _, at := range []int{1899, 1900, 1901} { // before, at and after the fact that led here
					checkMessageCell(t, account, table[0][1+i], f[0], cell, at)
				}
			}
		}
	}
}

func checkMessageCell(t *testing.T, account, state, trigger, cell string, at int) {
	t.Helper()
	before := messageNames[state]
	outcome, to := domain.Applied, messageNames[cell[:1]]
	switch {
	case cell == ".", cell[1:] == ">" && at <= 1900:
		outcome, to = domain.Noop, before
	case cell == "-":
		outcome, to = domain.Rejected, before
	}
	a := wayTo(t, account, state)
	one := say(at, trigger, key("m"))
	if trigger == "message_timed_out" {
		one = timedOut(at)
	}
	if trigger == "message_stalled" {
		one.Source = domain.SourceMuster
	}
	a, v := tell(t, a, one)
	kept := ""
	if m, ok := a.Message("m"); ok {
		kept = m.State
	}
	if v.Outcome != outcome || v.From != before || v.To != to || kept != to {
		t.Errorf("%s: %q on %s at %d: want %s to %q, got %s from %q to %q, kept %q", account, before, trigger, at, outcome, to, v.Outcome, v.From, v.To, kept)
	}
}

// Whatever the order in which the facts come, the highest rank is what stays, and
// the earliest time of each is kept.
func TestRankDecidesInEveryOrder(t *testing.T) {
	facts := []string{"message_pending", "message_sent", "message_delivered", "message_read", "message_replied"}
	ranks := []string{"PENDING", "SENT", "DELIVERED", "READ", "REPLIED"}
	permutations(len(facts), func(order []int) {
		a := told(t, say(0, "set_labels"))
		highest := 0
		for _, i := range order {
			highest = max(highest, i)
			var v domain.Verdict
			if a, v = tell(t, a, say(10+i, facts[i], key("m"))); v.To != ranks[highest] {
				t.Fatalf("order %v: after %s the message is %s, want %s", order, facts[i], v.To, ranks[highest])
			}
		}
		m, _ := a.Message("m")
		for i, name := range ranks {
			if got := m.TimeOf(strings.ToLower(name)); got != noon+int64(10+i)*1e9 {
				t.Fatalf("order %v: the time of %s is second %d, want %d", order, name, (got-noon)/1e9, 10+i)
			}
		}
	})
}

// A message times out once, also one that was given up after that and then proves
// to have arrived; a reply to it is late by the timeout that fired.
func TestAMessageTimesOutOnce(t *testing.T) {
	for _, c := range []struct {
		about string
		facts []string // after the timeout of second 1800, a second each from 1901 on
		state string
		late  bool
	}{
		{"timed out", nil, "TIMED_OUT", false},
		{"failed after it", []string{"failed"}, "FAILED", false},
		{"delivered after all", []string{"failed", "delivered"}, "DELIVERED", false},
		{"read after all", []string{"failed", "read"}, "READ", false},
		{"delivered, then read", []string{"failed", "delivered", "read"}, "READ", false},
		{"replied at last", []string{"failed", "delivered", "replied"}, "REPLIED", true},
		{"replied when failed", []string{"failed", "replied"}, "REPLIED", true},
	} {
		a := told(t, say(0, "set_labels"), say(0, "message_sent", key("m")), timedOut(1900))
		for i, name := range c.facts {
			a, _ = tell(t, a, say(1901+i, "message_"+name, key("m")))
		}
		m, _ := a.Message("m")
		if m.State != c.state || m.Late != c.late {
			t.Errorf("%s: %s, late %v; want %s, late %v", c.about, m.State, m.Late, c.state, c.late)
		}
		if due := (m.TimesOut() - noon) / 1e9; due != 1800 {
			t.Errorf("%s: the timeout was due at second %d, want 1800", c.about, due)
		}
		if d, ok := judge.Due(a); ok {
			t.Errorf("%s: %s is due", c.about, d.Trigger.Name)
		}
	}
}

// permutations calls f with every order of 0 … n-1; it must not keep the slice.
func permutations(n int, f func(order []int)) {
	order := make([]int, 0, n)
	var next func()
	next = func() {
		if len(order) == n {
			f(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				order = append(order, i)
				next()
				order = order[:len(order)-1]
			}
		}
	}
	next()
}

// When a message times out, in seconds after noon: facts "name at[ within]" in
// the order in which they come; -1 = never.
func TestWhenAMessageTimesOut(t *testing.T) {
	type fact struct {
		name   string
		at     int
		within int64 // -1: not said
	}
	for _, c := range []struct {
		about string
		facts []fact
		due   int64
	}{
		{"30 minutes after sent", []fact{{"message_sent", 10, -1}}, 1810},
		{"after the first of pending and sent", []fact{{"message_pending", 5, -1}, {"message_sent", 10, -1}}, 1805},
		{"even when the first comes last", []fact{{"message_sent", 10, -1}, {"message_pending", 5, -1}}, 1805},
		{"sent earlier than pending", []fact{{"message_pending", 9, -1}, {"message_sent", 4, -1}}, 1804},
		{"delivered before sent: the first fact, until sent is known", []fact{{"message_delivered", 20, -1}}, 1820},
		{"then sent counts", []fact{{"message_delivered", 20, -1}, {"message_sent", 18, -1}}, 1818},
		{"read is no end", []fact{{"message_sent", 10, -1}, {"message_read", 30, -1}}, 1810},
		{"as the first fact says", []fact{{"message_sent", 10, 60}}, 70},
		{"0 is never", []fact{{"message_sent", 10, 0}}, -1},
		{"a later fact does not change it", []fact{{"message_sent", 10, 60}, {"message_delivered", 11, 600}}, 70},
		{"replied: never", []fact{{"message_sent", 10, -1}, {"message_replied", 11, -1}}, -1},
		{"failed: never", []fact{{"message_sent", 10, -1}, {"message_failed", 11, -1}}, -1},
	} {
		list := []*domain.Trigger{say(0, "set_labels")}
		for _, f := range c.facts {
			one := say(f.at, f.name, key("m"))
			if f.within >= 0 {
				one.Data = domain.Data{"reply_within": f.within}
			}
			list = append(list, one)
		}
		d, ok := judge.Due(told(t, list...))
		if ok && d.Trigger.Name == "message_stalled" { // pending only
			t.Fatalf("%s: %s is due first", c.about, d.Trigger.Name)
		}
		got := int64(-1)
		if ok {
			got = (d.At - noon) / 1e9
		}
		if got != c.due || ok && d.Trigger.Name != "message_timed_out" {
			t.Errorf("%s: due at %d (%s), want %d", c.about, got, d.Trigger.Name, c.due)
		}
	}
}
