package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/musterhq/muster/bus/command"
	"github.com/musterhq/muster/domain"
)

// DeadlinesConfig is what Deadlines measures.
type DeadlinesConfig struct {
	Dir      string // where the scratch directory is made; "" = the system's
	Accounts int
	Rate     int           // triggers per second that clients send meanwhile; 0 = none
	Spread   time.Duration // the deadlines are due evenly over this time; 0 = all at one instant
	Say      func(row string)
}

// DeadlinesReport is what Deadlines found. Lateness is from when a deadline was
// due until it was judged (the record's own time), Stored until the log had it,
// the sync not included.
type DeadlinesReport struct {
	Accounts int      `json:"accounts"`
	SpreadS  float64  `json:"spread_s"`
	Triggers float64  `json:"triggers"` // per second, answered while the deadlines fired
	Lateness Lateness `json:"lateness"`
	Stored   Lateness `json:"stored"`
	// Restart is a start on as many deadlines that fell due while nothing ran.
	Restart RestartDue `json:"restart"`
}

// Lateness is a distribution of times in milliseconds.
type Lateness struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// RestartDue is how long a start with overdue deadlines took, in seconds from
// the start of the program.
type RestartDue struct {
	ReadyS float64 `json:"ready_s"` // until it took triggers
	FiredS float64 `json:"fired_s"` // until every deadline had fired
}

// due is the trigger that the deadlines of this measurement become.
const due = "condition_expired"

// Deadlines gives every account a limit that ends at one time, with clients
// sending meanwhile, and then stops the server over a second such time. It
// fails when the log does not hold exactly one event for each deadline.
func Deadlines(ctx context.Context, cfg DeadlinesConfig) (rep DeadlinesReport, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "muster-bench-*")
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m := &dueTimes{cfg: cfg, data: filepath.Join(dir, "data")}
	if cfg.Say == nil {
		m.cfg.Say = func(string) {}
	}
	rep.Accounts, rep.SpreadS = cfg.Accounts, cfg.Spread.Seconds()
	until, err := m.firstRun(ctx, &rep)
	if err != nil {
		return rep, err
	}
	if !time.Now().Before(until) {
		return rep, errors.New("the machine was too slow to stop the server before the limits ended")
	}
	if err := pause(ctx, time.Until(until.Add(cfg.Spread))); err != nil {
		return rep, err
	}
	return rep, m.secondRun(ctx, &rep)
}

// dueTimes is one measurement of Deadlines.
type dueTimes struct {
	cfg    DeadlinesConfig
	data   string
	filled time.Duration // what one trigger for every account took
}

func (m *dueTimes) say(format string, args ...any) { m.cfg.Say(fmt.Sprintf(format, args...)) }

// firstRun lets the deadlines fire in a server that runs, and leaves a server
// that is stopped before the same number of them is due at the time returned.
func (m *dueTimes) firstRun(ctx context.Context, rep *DeadlinesReport) (until time.Time, err error) {
	s, err := serveDir(ctx, m.data, "group")
	if err != nil {
		return until, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	begin := time.Now()
	if err := each(ctx, s.app.Writers(), m.cfg.Accounts, adopted); err != nil {
		return until, fmt.Errorf("fill the fleet: %w", err)
	}
	m.filled = time.Since(begin)
	m.say("%d accounts written in %v", m.cfg.Accounts, m.filled.Round(time.Millisecond))
	if until, err = m.limit(ctx, s.app.Writers()); err != nil {
		return until, err
	}
	if err := m.fire(ctx, s, until, rep); err != nil {
		return until, err
	}
	fired, err := firedOf(ctx, s, m.cfg.Accounts)
	if err != nil {
		return until, err
	}
	if rep.Lateness, rep.Stored, err = fired.lateness(1); err != nil {
		return until, err
	}
	m.say("each fired once; judged %s", rep.Lateness.row())
	m.say("                 stored %s", rep.Stored.row())
	return m.limit(ctx, s.app.Writers())
}

// limit limits every account until a time that is far enough away for all of it
// to be stored before.
func (m *dueTimes) limit(ctx context.Context, set *command.Set) (time.Time, error) {
	until := time.Now().Add(3*m.filled + 4*time.Second).Truncate(time.Millisecond)
	err := each(ctx, set, m.cfg.Accounts, func(i int) domain.Trigger {
		t := fleetTrigger(i, "rate_limited")
		t.Data = domain.Data{"until": m.dueAt(until, i).Format(time.RFC3339Nano)}
		return t
	})
	if err == nil && !time.Now().Before(until) {
		err = errors.New("the machine was too slow to limit the fleet before the limits ended")
	}
	if err != nil {
		return until, fmt.Errorf("limit the fleet: %w", err)
	}
	return until, nil
}

// dueAt is when the i-th account's deadline is due.
func (m *dueTimes) dueAt(first time.Time, i int) time.Time {
	return first.Add(m.cfg.Spread * time.Duration(i) / time.Duration(m.cfg.Accounts))
}

// fire waits until every deadline has fired, with clients sending from a while
// before the first is due.
func (m *dueTimes) fire(ctx context.Context, s *running, until time.Time, rep *DeadlinesReport) error {
	if err := pause(ctx, time.Until(until)-2*time.Second); err != nil {
		return err
	}
	c, err := startClients(ctx, s.app.NATSURL(), m.cfg.Rate, m.cfg.Accounts)
	if err != nil {
		return err
	}
	err = pause(ctx, time.Until(until))
	before := c.answered.Load()
	if err == nil {
		err = allFired(ctx, s.app.Writers(), m.cfg.Accounts)
	}
	rep.Triggers = float64(c.answered.Load()-before) / time.Since(until).Seconds()
	m.say("all have fired %v after the first was due; meanwhile %.0f triggers/s", time.Since(until).Round(time.Millisecond), rep.Triggers)
	return errors.Join(err, c.stop())
}

// secondRun starts a server on overdue deadlines.
func (m *dueTimes) secondRun(ctx context.Context, rep *DeadlinesReport) (err error) {
	begin := time.Now()
	s, err := serveDir(ctx, m.data, "group")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	rep.Restart.ReadyS = time.Since(begin).Seconds()
	if err := allFired(ctx, s.app.Writers(), m.cfg.Accounts); err != nil {
		return err
	}
	rep.Restart.FiredS = time.Since(begin).Seconds()
	m.say("restart with %d overdue: ready after %.2f s, all fired after %.2f s", m.cfg.Accounts, rep.Restart.ReadyS, rep.Restart.FiredS)
	fired, err := firedOf(ctx, s, m.cfg.Accounts)
	if err != nil {
		return err
	}
	return fired.times(2)
}

// adopted takes the i-th account over as running.
func adopted(i int) domain.Trigger {
	t := fleetTrigger(i, "adopt")
	t.Data = domain.Data{"state": "RUNNING"}
	return t
}

// each gives the writers one trigger for every account.
func each(ctx context.Context, set *command.Set, accounts int, trigger func(i int) domain.Trigger) error {
	f := newFeeder(set)
	for i := range accounts {
		f.send(ctx, trigger(i))
	}
	return errors.Join(f.wait(), context.Cause(ctx))
}

// firedWithin bounds the wait for deadlines that are due.
const firedWithin = 2 * time.Minute

// allFired returns when no account is limited any more. It looks at one account
// after the other, so that it costs the server next to nothing.
func allFired(ctx context.Context, set *command.Set, accounts int) error {
	end := time.Now().Add(firedWithin)
	for i := 0; i < accounts; {
		id := domain.AccountID(fleetID(i))
		l, ok, err := set.Look(id)
		if err != nil && !errors.Is(err, command.ErrNotOwner) { // a lease that was late is taken again
			return err
		}
		if ok && !slices.ContainsFunc(l.Account.Conditions, isLimit) {
			i++
			continue
		}
		if time.Now().After(end) {
			return fmt.Errorf("the deadline of %s has not fired within %v", id, firedWithin)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func isLimit(c domain.Condition) bool { return c.Name == "rate_limited" }

// pause waits for d or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
