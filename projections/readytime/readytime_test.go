package readytime_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/readytime"
)

var dimensions = []readytime.Dimension{readytime.ByMachine, readytime.BySource, readytime.ByLabel, readytime.ByReason}

// windows are up to the end of a history, which is half a day long.
var windows = []time.Duration{0, 30 * time.Minute, 4 * time.Hour, 12 * time.Hour, 48 * time.Hour, 72 * time.Hour, 89 * 24 * time.Hour}

func TestRules(t *testing.T) {
	projectiontest.Subject{
		New: func(h *projectiontest.History, _ *projections.Roster) projections.View {
			return readytime.New(h.Partitions, h.Judge.Machines())
		},
		Answers: answers,
		Want:    want,
	}.Check(t)
}

// names returns the groups of an episode.
func names(e *projectiontest.Episode, by readytime.Dimension) []string {
	switch by {
	case readytime.ByMachine:
		return []string{e.Account.Machine}
	case readytime.BySource:
		return []string{e.Account.Source}
	case readytime.ByReason:
		return []string{e.Reason}
	}
	var names []string
	for k, v := range e.Account.Labels {
		names = append(names, k+"="+v)
	}
	return names
}

// ofKind are the episodes of one kind, of those that began at a time or later.
func ofKind(all []projectiontest.Episode, kind readytime.Kind, from int64) (list []projectiontest.Episode) {
	for _, e := range all {
		if e.Kind == kind.String() && e.Began >= from {
			list = append(list, e)
		}
	}
	return list
}

func TestEpisodesAreThoseOfThePlainReading(t *testing.T) {
	for seed := range uint64(5) {
		h := projectiontest.Generate(seed, projectiontest.Config{Accounts: 60, Events: 3000})
		v := readytime.New(h.Partitions, h.Judge.Machines())
		for _, i := range h.Items {
			v.Apply(i.At, i.Event)
		}
		all := h.Episodes()
		for _, kind := range kinds {
			compare(t, fmt.Sprint("seed ", seed, ", ", kind), v.Estimate(kind, h.End), ofKind(all, kind, 0))
			for _, d := range windows {
				from := beginning(d, h.End)
				w := readytime.Last(d, h.End)
				if w.From != from {
					t.Errorf("the last %v begin at %d, want %d", d, w.From, from)
				}
				compare(t, fmt.Sprint("seed ", seed, ", ", kind, ", the last ", d), v.Within(kind, w, h.End), ofKind(all, kind, from))
			}
			for _, by := range dimensions {
				want := map[string][]projectiontest.Episode{}
				for _, e := range ofKind(all, kind, 0) {
					for _, name := range names(&e, by) {
						want[name] = append(want[name], e)
					}
				}
				got := v.By(kind, by, h.End)
				if len(got) != len(want) {
					t.Errorf("seed %d, %s, dimension %d: %d groups, want %d", seed, kind, by, len(got), len(want))
				}
				for name, list := range want {
					compare(t, fmt.Sprint("seed ", seed, ", ", kind, ", ", name), got[name], list)
				}
			}
			if e := v.Estimate(kind, h.End); e.Reached < 5 || e.Abandoned < 3 || e.Open == 0 {
				t.Errorf("seed %d, %s: too poor to prove anything: %d %d %d", seed, kind, e.Reached, e.Abandoned, e.Open)
			}
		}
	}
}

// beginning is when the window of so much time up to now begins: at a full hour, or
// at a midnight when it is long.
func beginning(d time.Duration, now int64) int64 {
	step := 24 * time.Hour
	if d <= 48*time.Hour {
		step = time.Hour
	}
	return time.Unix(0, now).Add(-d).Truncate(step).UnixNano()
}

func compare(t *testing.T, what string, got readytime.Estimate, list []projectiontest.Episode) {
	t.Helper()
	if g, w := figures(got), plainFigures(list); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// TestScenarios tells single accounts in words: minute, trigger, state after.
func TestScenarios(t *testing.T) {
	cases := []struct {
		name                 string
		story                string
		onboarding, recovery string // reached abandoned open mean
	}{
		{
			"the main path",
			"0 start CONNECTING, 1 qr_received QR_REQUIRED, 3 qr_scanned SYNCING, 5 sync_completed RUNNING",
			"1 0 0 300", "0 0 0 -",
		},
		{
			"a loss and a recovery",
			"0 start CONNECTING, 2 connection_ready RUNNING, 10 connection_lost DISCONNECTED, 11 start RECONNECTING, 12 reconnect_success RUNNING",
			"1 0 0 120", "1 0 0 120",
		},
		{
			"coming back DEGRADED is not coming back",
			"0 start CONNECTING, 2 connection_ready RUNNING, 10 connection_lost DISCONNECTED, 11 connection_ready DEGRADED, 20 restriction_lifted RUNNING",
			"1 0 0 120", "1 0 0 600",
		},
		{
			"going DEGRADED is no loss",
			"0 start CONNECTING, 1 connection_ready RUNNING, 5 rate_limited DEGRADED, 9 connection_ready RUNNING",
			"1 0 0 60", "0 0 0 -",
		},
		{
			"lost out of DEGRADED",
			"0 start CONNECTING, 1 connection_ready RUNNING, 5 rate_limited DEGRADED, 6 connection_lost DISCONNECTED",
			"1 0 0 60", "0 0 1 -",
		},
		{
			"a later start does not begin the onboarding again",
			"0 start CONNECTING, 4 connection_lost DISCONNECTED, 5 start RECONNECTING, 9 reconnect_success RUNNING",
			"1 0 0 540", "0 0 0 -",
		},
		{
			"an expired code is abandonment; the next start is another onboarding",
			"0 start CONNECTING, 1 qr_received QR_REQUIRED, 10 qr_expired STOPPED, 20 start CONNECTING, 21 connection_ready RUNNING",
			"1 1 0 60", "0 0 0 -",
		},
		{
			"a logout while pairing",
			"0 start CONNECTING, 1 qr_received QR_REQUIRED, 2 logout LOGGED_OUT",
			"0 1 0 -", "0 0 0 -",
		},
		{
			"a logout while running is no loss, and a new pairing no onboarding",
			"0 start CONNECTING, 1 connection_ready RUNNING, 9 logout LOGGED_OUT, 10 start CONNECTING, 20 connection_ready RUNNING",
			"1 0 0 60", "0 0 0 -",
		},
		{
			"a stop while lost",
			"0 start CONNECTING, 1 connection_ready RUNNING, 2 connection_lost DISCONNECTED, 3 stop STOPPED",
			"1 0 0 60", "0 1 0 -",
		},
		{
			"an adopted account has no onboarding",
			"0 adopt DISCONNECTED, 1 start RECONNECTING, 2 reconnect_success RUNNING, 3 connection_lost DISCONNECTED",
			"0 0 0 -", "0 0 1 -",
		},
		{
			"it needs a code again",
			"0 start CONNECTING, 1 connection_ready RUNNING, 2 qr_received QR_REQUIRED, 4 qr_scanned SYNCING, 5 sync_completed RUNNING",
			"1 0 0 60", "1 0 0 180",
		},
		{
			"an end that comes with an earlier time lasts no time",
			"5 start CONNECTING, 3 connection_ready RUNNING",
			"1 0 0 0", "0 0 0 -",
		},
		{
			"forgotten while it waits",
			"0 start CONNECTING, 2 forget -",
			"0 1 0 -", "0 0 0 -",
		},
		{
			"nothing but a rejected trigger",
			"0 qr_scanned -",
			"0 0 0 -", "0 0 0 -",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v := readytime.New(1, projectiontest.Registry())
			tell(t, v, c.story)
			now := origin.Add(time.Hour).UnixNano()
			if got := short(v.Estimate(readytime.Onboarding, now)); got != c.onboarding {
				t.Errorf("onboarding: got %s, want %s", got, c.onboarding)
			}
			if got := short(v.Estimate(readytime.Recovery, now)); got != c.recovery {
				t.Errorf("recovery: got %s, want %s", got, c.recovery)
			}
		})
	}
}

var origin = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// tell applies the story of one whatsapp@2 account.
func tell(t *testing.T, v *readytime.View, story string) {
	t.Helper()
	state := "IDLE"
	for i, line := range strings.Split(story, ", ") {
		var minute int
		var trigger, to string
		if _, err := fmt.Sscan(line, &minute, &trigger, &to); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		e := &domain.Event{
			Version: uint64(i + 1), Account: "a", Kind: domain.KindSession, Trigger: trigger, Outcome: domain.Applied,
			From: state, To: to, At: origin.Add(time.Duration(minute) * time.Minute).UnixNano(),
		}
		if i == 0 {
			e.Machine, e.Initial = "whatsapp@2", state
		}
		if to == "-" {
			e.To, e.Outcome = state, domain.Rejected
		}
		if trigger == "forget" {
			e.Kind, e.Outcome, e.Effects = domain.KindAccount, domain.Applied, domain.EffectForget
		}
		state = e.To
		v.Apply(projections.Place{Seq: uint64(i + 1)}, e)
	}
}

func short(e readytime.Estimate) string {
	mean := "-"
	if e.Mean != nil {
		mean = fmt.Sprint(*e.Mean)
	}
	return fmt.Sprint(e.Reached, " ", e.Abandoned, " ", e.Open, " ", mean)
}

func TestTheWaitingCount(t *testing.T) {
	// One account is up after a minute, nine wait for an hour: the mean says a
	// minute, the median that nobody knows.
	v := readytime.New(1, projectiontest.Registry())
	seq := uint64(0)
	apply := func(account uint32, minute int, from, trigger, to string) {
		seq++
		v.Apply(projections.Place{Seq: seq, Account: account}, &domain.Event{
			Kind: domain.KindSession, Machine: "whatsapp@2", Initial: "IDLE", Trigger: trigger, Outcome: domain.Applied,
			From: from, To: to, At: origin.Add(time.Duration(minute) * time.Minute).UnixNano(),
		})
	}
	for account := range uint32(10) {
		apply(account, 0, "IDLE", "start", "CONNECTING")
	}
	apply(3, 1, "CONNECTING", "connection_ready", "RUNNING")
	e := v.Estimate(readytime.Onboarding, origin.Add(time.Hour).UnixNano())
	if e.Reached != 1 || e.Open != 9 || *e.Mean != 60 || e.Median.Seconds != nil {
		t.Errorf("got %+v, want 1 reached, 9 open, a mean of 60 s and no median", e)
	}
}

func TestInventedGroupsAreBounded(t *testing.T) {
	v := readytime.New(1, projectiontest.Registry())
	seq := uint64(0)
	const n = 2000
	for i := range uint32(n) {
		for k, step := range []struct{ from, trigger, to string }{{"IDLE", "start", "CONNECTING"}, {"CONNECTING", "connection_ready", "RUNNING"}} {
			seq++
			e := &domain.Event{
				Kind: domain.KindSession, Trigger: step.trigger, Outcome: domain.Applied, From: step.from, To: step.to,
				At: origin.UnixNano() + int64(k)*int64(time.Second), Source: fmt.Sprint("source-", i), Reason: domain.Reason{Code: fmt.Sprint("code-", i)},
			}
			if k == 0 {
				e.Machine, e.Initial, e.Labels = "whatsapp@2", "IDLE", map[string]string{"customer": fmt.Sprint(i)}
			}
			v.Apply(projections.Place{Seq: seq, Account: i}, e)
		}
	}
	for _, by := range dimensions {
		groups := v.By(readytime.Onboarding, by, origin.UnixNano())
		sum := 0
		for _, e := range groups {
			sum += e.Reached
		}
		if len(groups) > readytime.MaxGroups+1 || sum != n {
			t.Errorf("dimension %d: %d groups with %d episodes, want at most %d with %d", by, len(groups), sum, readytime.MaxGroups+1, n)
		}
	}
}
