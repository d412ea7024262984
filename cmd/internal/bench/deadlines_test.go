package bench

import (
	"testing"
	"time"
)

// TestDeadlinesFireOnceEach runs the measurement itself, briefly: it fails when
// the log does not hold exactly one event for each deadline, in a server that
// runs and in one that is started on overdue ones. How late they are is not
// looked at, but for that none is early.
func TestDeadlinesFireOnceEach(t *testing.T) {
	rep, err := Deadlines(t.Context(), DeadlinesConfig{Dir: t.TempDir(), Accounts: 2000, Rate: 100, Spread: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	late := rep.Lateness
	if rep.Accounts != 2000 || late.P50 < 0 || late.P99 < late.P50 || late.Max < late.P99 || rep.Stored.Max < late.Max {
		t.Errorf("%+v", rep)
	}
	if rep.Restart.ReadyS <= 0 || rep.Restart.FiredS < rep.Restart.ReadyS {
		t.Errorf("the restart: %+v", rep.Restart)
	}
}

// TestFiringsAreCounted: a deadline that fired twice, or not, is no success.
func TestFiringsAreCounted(t *testing.T) {
	once, twice := []firing{{at: 1, judged: 2, stored: 3}}, []firing{{at: 1, judged: 2, stored: 3}, {at: 1, judged: 5, stored: 6}}
	for name, c := range map[string]struct {
		f    firings
		want int
		ok   bool
	}{
		"each once":             {firings{"a": once, "b": once}, 1, true},
		"one of them twice":     {firings{"a": once, "b": twice}, 1, false},
		"twice, as it must be":  {firings{"a": twice, "b": twice}, 2, true},
		"one of them only once": {firings{"a": twice, "b": once}, 2, false},
	} {
		if _, _, err := c.f.lateness(c.want); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
