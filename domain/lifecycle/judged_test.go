package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/domain/lifecycle"
)

// The tables of this package are read twice: by look-up (whatsapp_test.go), and
// as they are judged, with what guards and payloads add to them.

var (
	noon  = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC).UnixNano()
	judge = domain.NewJudge(lifecycle.Registry())
)

// clock gives a time as it stands in data, seconds after noon.
func clock(seconds int) string { return domain.FormatTime(noon + int64(seconds)*int64(time.Second)) }

// say makes a trigger of account a, observed seconds after noon.
func say(seconds int, name string, change ...func(*domain.Trigger)) *domain.Trigger {
	t := &domain.Trigger{Account: "a", Name: name, At: noon + int64(seconds)*int64(time.Second), HasAt: true, Source: "s1", By: domain.ByUs, Expect: domain.NoExpect}
	for _, c := range change {
		c(t)
	}
	return t
}

func with(d domain.Data) func(*domain.Trigger)      { return func(t *domain.Trigger) { t.Data = d } }
func of(machine string) func(*domain.Trigger)       { return func(t *domain.Trigger) { t.Machine = machine } }
func key(k string) func(*domain.Trigger)            { return func(t *domain.Trigger) { t.Key = k } }
func by(who domain.Initiator) func(*domain.Trigger) { return func(t *domain.Trigger) { t.By = who } }
func from(source string) func(*domain.Trigger)      { return func(t *domain.Trigger) { t.Source = source } }
func epoch(n int64) func(*domain.Trigger)           { return func(t *domain.Trigger) { t.Epoch = n } }

// tell judges a trigger at its own time and folds it.
func tell(t *testing.T, a *domain.Account, trigger *domain.Trigger) (*domain.Account, domain.Verdict) {
	t.Helper()
	d := judge.Decide(a, trigger, trigger.At)
	if d.Event == nil {
		t.Fatalf("%s: %s, %s", trigger.Name, d.Verdict.Outcome, d.Verdict.Reason)
	}
	return domain.Evolve(a, d.Event), d.Verdict
}

// told is the account after a list of triggers, each of which must be legal.
func told(t *testing.T, list ...*domain.Trigger) *domain.Account {
	t.Helper()
	var a *domain.Account
	for _, one := range list {
		var v domain.Verdict
		if a, v = tell(t, a, one); v.Outcome != domain.Applied && v.Outcome != domain.Noop {
			t.Fatalf("the way there: %s is %s, %s", one.Name, v.Outcome, v.Reason)
		}
	}
	return a
}

// conditions names what stands, with scopes.
func conditions(a *domain.Account) string {
	list := []string{}
	for _, c := range a.Conditions {
		name := c.Name
		if c.Scope != "" {
			name += "(" + c.Scope + ")"
		}
		list = append(list, name)
	}
	return strings.Join(list, ",")
}
