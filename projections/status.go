package projections

import (
	"maps"
	"slices"
	"time"
)

// keptAlarms is the number of alarms kept as examples.
const keptAlarms = 20

// rateEvery is how often the rate is measured.
const rateEvery = time.Second

// Status is what an operator wants to know of a Runner.
type Status struct {
	Applied   uint64  // records applied since the start
	PerSecond float64 // records applied in the last second that was measured
	Repeated  uint64  // records that came again and were dropped

	StartedAt     time.Time
	CaughtUpAfter time.Duration // 0 until CaughtUp is closed
	Resumed       uint64        // records that a saved state made it unnecessary to replay

	Saves       uint64
	SavedAt     time.Time     // when the last one of this process began; zero = there was none
	SaveBytes   int           // size of the last saved state
	SaveTook    time.Duration // how long the last save took, its longest hold on a partition included
	SaveErrors  uint64
	Discarded   uint64 // saved states that were not used
	DiscardedBy string // why the last one was not

	Views []ViewStatus

	Alarms      map[AlarmKind]uint64
	FirstAlarms []Alarm // the first ones, as they came
}

// Status returns the numbers as they are now.
func (r *Runner) Status() Status {
	applied := r.appliedTotal()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Applied = applied
	s.Alarms = maps.Clone(s.Alarms)
	s.FirstAlarms = slices.Clone(s.FirstAlarms)
	for i, v := range r.cfg.Views {
		s.Views = append(s.Views, r.viewStatus(i, v))
	}
	return s
}

// ViewStatus is how one view fares.
type ViewStatus struct {
	Name    string
	Version int
	Halted  []int   // the partitions of which it takes no more events
	Parked  uint64  // events that it has passed over
	Faults  []Fault // the first events that it could not take
	Rebuild RebuildStatus
}

// Sound says whether the view holds everything that it was given.
func (v *ViewStatus) Sound() bool { return len(v.Halted) == 0 && v.Parked == 0 }

// viewStatus is the status of one view; the caller holds mu.
func (r *Runner) viewStatus(i int, v View) ViewStatus {
	s := ViewStatus{Name: v.Name(), Version: v.Version(), Rebuild: r.past[i]}
	for p := range r.health[i].halted {
		if r.health[i].halted[p] {
			s.Halted = append(s.Halted, p)
		}
		s.Parked += r.health[i].parked[p]
		s.Faults = append(s.Faults, r.health[i].faults[p]...)
	}
	if b := r.rebuild; b != nil && b.index == i {
		s.Rebuild = b.status(r.cfg.Now())
	}
	return s
}

// count changes the numbers.
func (r *Runner) count(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// alarm counts an alarm, keeps it if it is one of the first, and calls OnAlarm.
func (r *Runner) alarm(a Alarm) {
	r.count(func(s *Status) {
		if s.Alarms == nil {
			s.Alarms = map[AlarmKind]uint64{}
		}
		s.Alarms[a.Kind]++
		if len(s.FirstAlarms) < keptAlarms {
			s.FirstAlarms = append(s.FirstAlarms, a)
		}
	})
	r.cfg.OnAlarm(a)
}

// meter measures a rate between two ticks.
type meter struct {
	at    time.Time
	total uint64
}

func newMeter(now time.Time, total uint64) *meter { return &meter{at: now, total: total} }

// tick returns the rate since the last tick.
func (m *meter) tick(now time.Time, total uint64) (perSecond float64) {
	if d := now.Sub(m.at).Seconds(); d > 0 {
		perSecond = float64(total-m.total) / d
	}
	m.at, m.total = now, total
	return perSecond
}
