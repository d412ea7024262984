package domaintest_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/domaintest"
	"github.com/musterhq/muster/domain/lifecycle"
	"github.com/musterhq/muster/domain/trace"
)

const orderFile = "testdata/order/stories.txt"

// causes says in words why a verdict is another when a trigger comes at another
// time. A verdict whose reason is not here has no explanation.
var causes = map[string]string{
	"older epoch":                       "a newer connection was heard: nothing of an older one counts",
	"seq was seen":                      "a later message of the connection was heard: earlier ones do not count",
	"closed epoch":                      "the connection was logged out or stopped: only a start, stop or logout of it is heard",
	"older than its source's last word": "without an epoch the source's own times decide: what is older is not heard",
	"needs a newer epoch":               "a logout and a stop are sticky, a running login is left only by a new connection",
	"the cursor would go back":          "a cursor does not go back",
	"no edge":                           "the table has no edge for it from where the account, or the message, was when it came",
	"not_the_authority":                 "one source is believed: the first that spoke",
	"human_in_charge":                   "a human was in charge when it came",
	"ended":                             "the conversation had ended when it came",
	"already_claimed":                   "another had claimed the message when it came",
}

// Causes of differences in which every trigger was legal.
const (
	lastInCharge = "conversations keep no order of times: who is in charge, and what is open, follows from the order of telling"
	lateOnlyThen = "a reply is late only after a timeout that fired, and a message is waited for as its first fact says"
	userIsNever  = "a user's word is never too old: the last one told counts"
	fullIsAnew   = "what is told as full sets the cursor anew, whenever it is told"
)

// legal is the cause of a difference in a story of which nothing was stale or
// rejected; "" when there is none.
func (s *story) legal() string {
	for i := range s.steps {
		one := &s.steps[i]
		switch {
		case strings.HasPrefix(one.Name, "message_"):
			return lateOnlyThen
		case one.Key != "":
			return lastInCharge
		case one.By == domain.ByUser:
			return userIsNever
		case one.Data["full"] == true:
			return fullIsAnew
		}
	}
	return ""
}

// TestOrderAndRepetition tells every story in every order, and with every single
// trigger told twice. What differs from the order in which it happened stands in
// the file, grouped by cause.
func TestOrderAndRepetition(t *testing.T) {
	text, err := os.ReadFile(orderFile)
	if err != nil {
		t.Fatal(err)
	}
	list, err := domaintest.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	judge := domain.NewJudge(lifecycle.Registry())
	for i := range list {
		t.Run(list[i].Name, func(t *testing.T) {
			s := readStory(t, judge, list[i].Input)
			s.ids(t)
			got := s.differences(t)
			if got != list[i].Output && !*update {
				t.Errorf("want:\n%s\ngot:\n%s", list[i].Output, got)
			}
			list[i].Output = got
		})
	}
	if *update && !t.Failed() {
		head, _, _ := strings.Cut(string(text), "=== ")
		if err := os.WriteFile(orderFile, []byte(head+domaintest.Format(list)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// story is what happened, in order.
type story struct {
	judge *domain.Judge
	given []domain.Trigger
	steps []domain.Trigger
	until *domain.Trigger // its time
}

func readStory(t *testing.T, judge *domain.Judge, input string) *story {
	t.Helper()
	s := &story{judge: judge}
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		words := strings.Fields(line)
		into := &s.steps
		switch words[0] {
		case "given":
			words, into = words[1:], &s.given
		case "until":
			words = []string{words[1], "a", "start"}
		}
		one, err := domaintest.Trigger(words)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if strings.HasPrefix(line, "until") {
			s.until = &one
			continue
		}
		*into = append(*into, one)
	}
	if len(s.steps) > 6 {
		t.Fatalf("%d triggers have too many orders, want 6 at most", len(s.steps))
	}
	return s
}

// ending is what came of one telling.
type ending struct {
	view     string
	digest   string
	verdicts []domain.Verdict // of the steps, as they were told
}

// told tells the steps in an order; an index may come twice.
func (s *story) told(order []int) ending {
	run := trace.NewRunner(s.judge)
	for i := range s.given {
		one := s.given[i]
		run.Feed(1, &one)
	}
	var e ending
	for _, i := range order {
		one := s.steps[i]
		e.verdicts = append(e.verdicts, run.Feed(1, &one).Verdict)
	}
	if s.until != nil {
		run.Fire(s.until.At)
	}
	result := run.Result()
	e.digest = result.Digest
	for _, a := range result.Fold {
		e.view += show(s.judge.Describe(a), a)
	}
	return e
}

// show is the state of an account without version and times of its changes.
func show(v domain.AccountView, a *domain.Account) string {
	parts := []string{v.State}
	if v.Desired != domain.DesiredRun {
		parts = append(parts, "wanted: "+v.Desired)
	}
	for _, c := range v.Conditions {
		name := c.Name
		if c.Scope != "" {
			name += "(" + c.Scope + ")"
		}
		parts = append(parts, name)
	}
	if x := a.Extra; x != nil && v.Machine == "wecom@1" {
		for _, ticket := range []struct {
			name string
			ends int64
		}{{"sid", x.SidUntil}, {"tgt", x.TgtUntil}} {
			if ticket.ends != 0 {
				parts = append(parts, ticket.name+" until "+domain.FormatTime(ticket.ends))
			}
		}
		if x.HasCursor {
			parts = append(parts, fmt.Sprint("cursor ", x.Cursor))
		}
	}
	a.Messages(func(key string, m *domain.Message) bool {
		parts = append(parts, key+" "+m.State+map[bool]string{true: " late"}[m.Late])
		return true
	})
	a.Conversations(func(key string, c *domain.Conversation) bool {
		parts = append(parts, fmt.Sprintf("%s %s, %d open", key, c.State, len(c.Turns)))
		claims := make([]string, 0, len(c.Claims))
		for _, claim := range c.Claims {
			claims = append(claims, claim.Message+" by "+claim.Handler)
		}
		sort.Strings(claims)
		parts = append(parts, claims...)
		return true
	})
	return strings.Join(parts, "; ")
}

// ids tells each step again with its own id: nothing at all may come of it.
func (s *story) ids(t *testing.T) {
	t.Helper()
	named := *s
	named.steps = slices.Clone(s.steps)
	for i := range named.steps {
		named.steps[i].ID = fmt.Sprint("id-", i)
	}
	plain := named.told(inOrder(len(s.steps)))
	eachTwice(len(s.steps), func(order []int, again int) {
		e := named.told(order)
		if e.digest != plain.digest || e.verdicts[again].Outcome != domain.Duplicate {
			t.Errorf("order %v: the repeated one is %s, and the account %s; want a duplicate, and %s", order, e.verdicts[again].Outcome, e.view, plain.view)
		}
	})
}

func inOrder(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// eachTwice calls f with every order in which one step is told again at a later
// place, and that place.
func eachTwice(n int, f func(order []int, again int)) {
	for i := range n {
		for at := i + 1; at <= n; at++ {
			f(slices.Insert(inOrder(n), at, i), at)
		}
	}
}

// everyOrder calls f with every order of n steps, the smallest first.
func everyOrder(n int, f func(order []int)) {
	order := make([]int, 0, n)
	var next func()
	next = func() {
		if len(order) == n {
			f(slices.Clone(order))
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

// group holds the tellings that end in the same other way.
type group struct {
	view    string
	orders  int
	why     map[string]int // tellings by cause; one may have several
	example string         // the first
}

// tally counts tellings and groups those that end otherwise.
type tally struct {
	all, same int
	groups    map[string]*group
}

func (s *story) differences(t *testing.T) string {
	plain := s.told(inOrder(len(s.steps)))
	byStep := plain.verdicts
	orders := tally{groups: map[string]*group{}}
	everyOrder(len(s.steps), func(order []int) { s.count(t, &orders, order, plain.view, byStep) })
	twice := tally{groups: map[string]*group{}}
	eachTwice(len(s.steps), func(order []int, _ int) { s.count(t, &twice, order, plain.view, byStep) })
	var b strings.Builder
	fmt.Fprintf(&b, "in order: %s\n", plain.view)
	orders.print(&b, "orders")
	twice.print(&b, "tellings with one of them twice")
	return b.String()
}

// count tells the steps in an order and notes how they end, and why.
func (s *story) count(t *testing.T, c *tally, order []int, want string, byStep []domain.Verdict) {
	t.Helper()
	c.all++
	e := s.told(order)
	if e.view == want {
		c.same++
		return
	}
	why := map[string]bool{}
	var line []string
	seen := map[int]bool{}
	for place, i := range order {
		v := e.verdicts[place]
		mark := fmt.Sprintf("%d %s", i+1, v.Trigger)
		if differs := v.Outcome != byStep[i].Outcome || v.To != byStep[i].To; differs || seen[i] {
			to := v.To
			if to == "" {
				to = "not known"
			}
			mark += fmt.Sprintf(" (%s, %s)", v.Outcome, to)
			if v.Outcome == domain.Stale || v.Outcome == domain.Rejected {
				why[causes[v.Reason]] = true
				if causes[v.Reason] == "" {
					t.Errorf("order %v ends with %s, and %q explains nothing", order, e.view, v.Reason)
				}
			}
		}
		seen[i] = true
		line = append(line, mark)
	}
	if len(why) == 0 {
		why[s.legal()] = true
		if s.legal() == "" {
			t.Errorf("order %v ends with %s, and nothing explains it", order, e.view)
		}
	}
	c.add(e.view, why, strings.Join(line, ", "))
}

func (c *tally) add(view string, why map[string]bool, example string) {
	g := c.groups[view]
	if g == nil {
		g = &group{view: view, why: map[string]int{}, example: example}
		c.groups[view] = g
	}
	g.orders++
	for cause := range why {
		g.why[cause]++
	}
}

func (c *tally) print(b *strings.Builder, what string) {
	fmt.Fprintf(b, "%d %s: %d end the same\n", c.all, what, c.same)
	list := slices.SortedFunc(maps.Values(c.groups), func(x, y *group) int {
		return cmp.Or(cmp.Compare(y.orders, x.orders), strings.Compare(x.view, y.view))
	})
	for _, g := range list {
		fmt.Fprintf(b, "  %d end with %s\n", g.orders, g.view)
		for _, cause := range slices.Sorted(maps.Keys(g.why)) {
			fmt.Fprintf(b, "    %d because %s\n", g.why[cause], cause)
		}
		fmt.Fprintf(b, "    as in %s\n", g.example)
	}
}
