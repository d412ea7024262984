package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/musterhq/muster/domain"
)

// The situations of conversation c: the way there from nothing. i1 is the
// customer's first message.
var situations = map[string][]string{
	"new":                {},
	"bot":                {"hand_back"},
	"bot+open":           {"customer_message i1"},
	"bot+claimed":        {"customer_message i1", "claim i1 bot b1"},
	"human":              {"take_over"},
	"human+open":         {"take_over", "customer_message i1"},
	"human+open2":        {"take_over", "customer_message i1", "customer_message i2"},
	"human+claimed":      {"take_over", "customer_message i1", "claim i1 human ana"},
	"human+bots-claim":   {"customer_message i1", "claim i1 bot b1", "take_over"},
	"bot+humans-claim":   {"take_over", "customer_message i1", "claim i1 human ana", "hand_back"},
	"ended":              {"end"},
	"ended+claimed":      {"customer_message i1", "claim i1 bot b1", "end"},
	"ended+closed":       {"customer_message i1", "end"},
	"human+phone-answer": {"customer_message i1", "human_replied"},
}

// fact reads "trigger [message [side handler]]" with "/by" after the trigger.
func fact(seconds int, text string) *domain.Trigger {
	f := strings.Split(text, " ")
	name, who, _ := strings.Cut(f[0], "/")
	t := say(seconds, name, key("c"))
	if who != "" {
		t.By = domain.Initiator(who)
	}
	if len(f) > 1 {
		t.Data = domain.Data{"message": f[1]}
	}
	if len(f) > 3 {
		t.Data["side"], t.Data["handler"] = f[2], f[3]
	}
	return t
}

// Each row of conversation@1 in each situation that its text tells apart:
// situation, trigger, outcome and reason, then who is in charge, the open turns
// and the claims afterwards (none: nothing is kept of the contact, who is BOT).
const conversations = `
	new                | customer_message i1   | applied  -                | BOT   | i1    | -
	bot                | customer_message i1   | applied  -                | BOT   | i1    | -
	bot+open           | customer_message i1   | noop     -                | BOT   | i1    | -
	bot+open           | customer_message i2   | applied  -                | BOT   | i1,i2 | -
	bot+claimed        | customer_message i1   | noop     -                | BOT   | -     | i1:b1
	human              | customer_message i1   | applied  -                | HUMAN | i1    | -
	human+open         | customer_message i1   | noop     -                | HUMAN | i1    | -
	human+claimed      | customer_message i1   | noop     -                | HUMAN | -     | i1:ana
	human+bots-claim   | customer_message i1   | noop     -                | HUMAN | -     | i1:b1
	ended              | customer_message i1   | applied  -                | BOT   | i1    | -
	ended+claimed      | customer_message i1   | noop     -                | ENDED | -     | i1:b1
	ended+claimed      | customer_message i2   | applied  -                | BOT   | i2    | i1:b1
	ended+closed       | customer_message i1   | noop     -                | ENDED | -     | i1:human

	new                | take_over             | applied  -                | HUMAN | -     | -
	bot+open           | take_over             | applied  -                | HUMAN | i1    | -
	bot+claimed        | take_over             | applied  -                | HUMAN | -     | i1:b1
	human              | take_over             | noop     -                | HUMAN | -     | -
	human+open         | take_over             | noop     -                | HUMAN | i1    | -
	ended              | take_over             | applied  -                | HUMAN | -     | -

	new                | human_replied         | applied  -                | HUMAN | -     | -
	bot+open           | human_replied         | applied  -                | HUMAN | -     | i1:human
	human              | human_replied         | noop     -                | HUMAN | -     | -
	human+open         | human_replied         | applied  -                | HUMAN | -     | i1:human
	human+open2        | human_replied         | applied  -                | HUMAN | -     | i1:human,i2:human
	human+claimed      | human_replied         | noop     -                | HUMAN | -     | i1:ana
	ended              | human_replied         | applied  -                | HUMAN | -     | -

	new                | hand_back             | noop     -                | BOT   | -     | -
	bot                | hand_back             | noop     -                | BOT   | -     | -
	bot+open           | hand_back             | noop     -                | BOT   | i1    | -
	human              | hand_back             | applied  -                | BOT   | -     | -
	human+open         | hand_back             | applied  -                | BOT   | i1    | -
	ended              | hand_back             | rejected no_edge          | ENDED | -     | -

	new                | end                   | applied  -                | ENDED | -     | -
	bot+open           | end                   | applied  -                | ENDED | -     | i1:human
	bot+claimed        | end                   | applied  -                | ENDED | -     | i1:b1
	human              | end                   | rejected human_in_charge  | HUMAN | -     | -
	human              | end/remote            | rejected human_in_charge  | HUMAN | -     | -
	human              | end/unknown           | rejected human_in_charge  | HUMAN | -     | -
	human              | end/user              | applied  -                | ENDED | -     | -
	human+open2        | end/user              | applied  -                | ENDED | -     | i1:human,i2:human
	human+open         | end                   | rejected human_in_charge  | HUMAN | i1    | -
	ended              | end                   | noop     -                | ENDED | -     | -
	ended              | end/user              | noop     -                | ENDED | -     | -

	ended              | claim i1 bot b1       | rejected ended            | ENDED | -     | -
	ended              | claim i1 human ana    | rejected ended            | ENDED | -     | -
	ended+claimed      | claim i1 bot b1       | rejected ended            | ENDED | -     | i1:b1
	ended+claimed      | claim i1 human b1     | rejected ended            | ENDED | -     | i1:b1
	human+bots-claim   | claim i1 bot b1       | rejected human_in_charge  | HUMAN | -     | i1:b1
	human+bots-claim   | claim i1 bot b2       | rejected human_in_charge  | HUMAN | -     | i1:b1
	human+open         | claim i1 bot b1       | rejected human_in_charge  | HUMAN | i1    | -
	bot+humans-claim   | claim i1 human ana    | rejected bot_in_charge    | BOT   | -     | i1:ana
	bot+humans-claim   | claim i1 human bo     | rejected bot_in_charge    | BOT   | -     | i1:ana
	bot+open           | claim i1 human ana    | rejected bot_in_charge    | BOT   | i1    | -
	new                | claim i1 human ana    | rejected bot_in_charge    | none  | -     | -
	bot+claimed        | claim i1 bot b1       | noop     -                | BOT   | -     | i1:b1
	human+claimed      | claim i1 human ana    | noop     -                | HUMAN | -     | i1:ana
	human+bots-claim   | claim i1 human b1     | noop     -                | HUMAN | -     | i1:b1
	human+phone-answer | claim i1 human human  | noop     -                | HUMAN | -     | i1:human
	bot+claimed        | claim i1 bot b2       | rejected already_claimed  | BOT   | -     | i1:b1
	human+claimed      | claim i1 human bo     | rejected already_claimed  | HUMAN | -     | i1:ana
	human+bots-claim   | claim i1 human ana    | rejected already_claimed  | HUMAN | -     | i1:b1
	bot+humans-claim   | claim i1 bot b1       | rejected already_claimed  | BOT   | -     | i1:ana
	human+phone-answer | claim i1 human ana    | rejected already_claimed  | HUMAN | -     | i1:human
	bot+open           | claim i1 bot b1       | applied  -                | BOT   | -     | i1:b1
	bot+open           | claim i2 bot b1       | applied  -                | BOT   | i1    | i2:b1
	human+open         | claim i1 human ana    | applied  -                | HUMAN | -     | i1:ana
	human+open2        | claim i2 human ana    | applied  -                | HUMAN | i1    | i2:ana
	new                | claim i1 bot b1       | applied  -                | BOT   | -     | i1:b1
`

func TestConversation1IsExactlyTheTable(t *testing.T) {
	tried := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(conversations), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		f := strings.Split(line, "|")
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		way, known := situations[f[0]]
		if !known {
			t.Fatalf("no situation %q", f[0])
		}
		list := []*domain.Trigger{say(0, "set_labels")}
		for i, text := range way {
			list = append(list, fact(1+i, text))
		}
		one := fact(10, f[1])
		tried[one.Name] = true
		a, v := tell(t, told(t, list...), one)
		reason := v.Reason
		if reason == "" {
			reason = "-"
		}
		got := v.Outcome.String() + " " + strings.ReplaceAll(reason, " ", "_") + " | " + showConversation(a)
		if want := strings.Join(strings.Fields(f[2]), " ") + " | " + strings.Join(f[3:], " "); got != want {
			t.Errorf("%s, %s: want %s, got %s", f[0], f[1], want, got)
		}
	}
	for _, name := range get(t, "conversation@1").Definition().Triggers {
		if !tried[name] && name != "nobody_answering" { // Muster's own, below
			t.Errorf("the test's table has no row for %s", name)
		}
	}
}

func showConversation(a *domain.Account) string {
	c, ok := a.Conversation("c")
	if !ok {
		return "none - -"
	}
	turns, claims := []string{}, []string{}
	for _, one := range c.Turns {
		turns = append(turns, one.Message)
	}
	for _, one := range c.Claims {
		claims = append(claims, one.Message+":"+one.Handler)
	}
	list := func(s []string) string {
		if len(s) == 0 {
			return "-"
		}
		return strings.Join(s, ",")
	}
	return c.State + " " + list(turns) + " " + list(claims)
}

// nobody_answering: 15 minutes after the oldest open turn, where a human is in
// charge or a bot that was granted a claim; in second, -1 = never.
func TestWhenNobodyAnswers(t *testing.T) {
	for _, c := range []struct {
		way []string // the first at second 1, then one each second
		due int64
	}{
		{[]string{"customer_message i1"}, -1},
		{[]string{"customer_message i1", "take_over"}, 901},
		{[]string{"take_over", "customer_message i1", "customer_message i2"}, 902},
		{[]string{"take_over", "customer_message i1", "hand_back"}, -1},
		{[]string{"claim i9 bot b", "customer_message i1"}, 902},
		{[]string{"take_over", "claim i9 human ana", "hand_back", "customer_message i1"}, 904},
		{[]string{"take_over", "customer_message i1", "human_replied"}, -1},
		{[]string{"take_over", "customer_message i1", "claim i1 human ana"}, -1},
		{[]string{"take_over", "customer_message i1", "customer_message i2", "claim i1 human ana"}, 903},
		{[]string{"take_over", "customer_message i1", "end/user"}, -1},
	} {
		list := []*domain.Trigger{say(0, "set_labels")}
		for i, text := range c.way {
			list = append(list, fact(1+i, text))
		}
		a := told(t, list...)
		d, ok := judge.Due(a)
		got := int64(-1)
		if ok {
			got = (d.At - noon) / 1e9
		}
		if got != c.due {
			t.Errorf("%v: due at %d, want %d", c.way, got, c.due)
		}
		if !ok {
			continue
		}
		state := func() string { s, _, _ := strings.Cut(showConversation(a), " "); return s }
		before := state()
		a, v := tell(t, a, &d.Trigger)
		if d.Trigger.Name != "nobody_answering" || v.Outcome != domain.Noop || state() != before || conditions(a) != "" || strings.Join(judge.Attention(a), ",") != "nobody_answering" {
			t.Errorf("%v: %s is %s, then %s, conditions %q, attention %v", c.way, d.Trigger.Name, v.Outcome, state(), conditions(a), judge.Attention(a))
		}
		if again, ok := judge.Due(a); ok {
			t.Errorf("%v: %s is due again", c.way, again.Trigger.Name)
		}
	}
}

// Of the claims of a conversation the last 256 are remembered.
func TestClaimsAreRemembered(t *testing.T) {
	list := []*domain.Trigger{say(0, "set_labels")}
	for i := range 257 {
		list = append(list, fact(1+i, "claim m"+string(rune('A'+i/100))+string(rune('0'+i/10%10))+string(rune('0'+i%10))+" bot b"))
	}
	a := told(t, list...)
	for message, want := range map[string]domain.Outcome{"mA01": domain.Rejected, "mC56": domain.Rejected, "mA00": domain.Applied} {
		if _, v := tell(t, a.Clone(), fact(1000, "claim "+message+" bot other")); v.Outcome != want {
			t.Errorf("%s by another: want %s, got %s (%s)", message, want, v.Outcome, v.Reason)
		}
	}
}
