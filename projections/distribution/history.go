package distribution

import (
	"cmp"
	"slices"
	"time"

	"github.com/musterhq/muster/projections/internal/ring"
)

// Step is the width of a history's buckets.
type Step int

// The steps that are kept.
const (
	ByMinute Step = iota + 1 // the last MinutesKept minutes
	ByHour                   // the last HoursKept hours
)

// Width is the step as a duration.
func (p Step) Width() time.Duration {
	if p == ByHour {
		return time.Hour
	}
	return time.Minute
}

// History is how many accounts were in which state, bucket by bucket.
type History struct {
	Step   Step
	Start  int64 // unix ns: where the first bucket begins
	Series []Series
}

// Series is the history of one state: the number of accounts in it at the end
// of each bucket. Of a bucket that has not ended it is the number now.
type Series struct {
	Machine string
	State   string
	Class   string
	Counts  []int64
}

// History tells the past up to the bucket of now (unix ns), as far as it is
// kept. States in which nobody ever was are left out; the rest come by machine
// and state.
func (v *View) History(step Step, now int64) History {
	width := int64(step.Width())
	to := now / width
	kept := int64(MinutesKept)
	if step == ByHour {
		kept = HoursKept
	}
	from := to - kept + 1
	v.read(func(s *shard) {
		if _, any := s.ring(step).Newest(); any {
			from = max(from, s.ring(step).Oldest()) // a source whose clock is ahead has moved the window
		}
	})
	from = min(from, to)
	type state struct{ machine, name string }
	series := map[state]*Series{}
	v.read(func(s *shard) {
		r := s.ring(step)
		for col := 1; col < r.Columns(); col++ {
			st := s.states.At(uint16(col))
			sum := series[state{st.Machine, st.Name}]
			if sum == nil {
				sum = &Series{Machine: st.Machine, State: st.Name, Class: st.Class, Counts: make([]int64, to-from+1)}
				series[state{st.Machine, st.Name}] = sum
			}
			for i, n := range r.Levels(col, from, to) {
				sum.Counts[i] += n
			}
		}
	})
	h := History{Step: step, Start: from * width}
	for _, s := range series {
		h.Series = append(h.Series, *s)
	}
	slices.SortFunc(h.Series, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.State, b.State))
	})
	return h
}

// ring is the history with this step.
func (s *shard) ring(step Step) *ring.Ring {
	if step == ByHour {
		return s.hours
	}
	return s.minutes
}

// At counts the accounts as they were at the end of the minute that holds t
// (unix ns), or of the hour when the minute is no longer kept. ok is false for
// a time before the kept past and after now.
func (v *View) At(t, now int64) (counts Counts, ok bool) {
	for _, step := range []Step{ByMinute, ByHour} {
		h := v.History(step, now)
		i := (t - h.Start) / int64(step.Width())
		if t < h.Start || t > now || len(h.Series) == 0 {
			continue
		}
		counts = newCounts()
		for _, s := range h.Series {
			counts.add(s.Machine, s.State, s.Class, int(s.Counts[i]))
		}
		return counts, true
	}
	return Counts{}, false
}

// HistoryBytes is the memory that the histories hold, for capacity planning.
func (v *View) HistoryBytes() (bytes int) {
	v.read(func(s *shard) { bytes += s.minutes.Bytes() + s.hours.Bytes() })
	return bytes
}
