package readytime

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/musterhq/muster/projections/internal/wire"
)

// How far windows reach back, for each partition from the beginning of its latest
// episode that has ended.
const (
	HoursKept = 48
	DaysKept  = 90
)

// Window is a stretch of time up to now in whole hours or days (UTC).
type Window struct {
	From int64 // unix ns: where it begins
	days bool
}

// Last is the window of the last d up to now (unix ns): it begins at a full hour
// when d is HoursKept hours at most, else at midnight, and DaysKept days ago at
// the earliest.
func Last(d time.Duration, now int64) Window {
	if d <= HoursKept*time.Hour {
		return Window{From: floor(now-int64(d), time.Hour)}
	}
	d = min(d, DaysKept*24*time.Hour)
	return Window{From: floor(now-int64(d), 24*time.Hour), days: true}
}

// floor is the beginning of the step that holds a time.
func floor(at int64, step time.Duration) int64 { return stepOfTime(at, step) * int64(step) }

// stepOfTime is the number of the step since 1970 that holds a time.
func stepOfTime(at int64, step time.Duration) int64 {
	n := at / int64(step)
	if at%int64(step) < 0 {
		n--
	}
	return n
}

// Within is Estimate for the episodes that began in a window: those that have
// ended since, and those that still wait. So a window tells how those fared that
// began then, and the youngest of them count for as long as they have waited.
func (v *View) Within(kind Kind, w Window, now int64) Estimate {
	var all group
	var waiting sample
	step := time.Hour
	if w.days {
		step = 24 * time.Hour
	}
	first := stepOfTime(w.From, step)
	for _, s := range v.Parts() {
		s.copyOpen(func() {
			for key, g := range s.began {
				if key.kind == kind && key.days == w.days && key.step >= first {
					all.merge(g)
				}
			}
		}, func(episodes []open) {
			for i := range episodes {
				if ep := &episodes[i]; ep.kind == kind && ep.since >= w.From {
					waiting.add(time.Duration(now-ep.since), ExactAll)
				}
			}
		})
	}
	return estimate(&all, &waiting)
}

// beganKey names the ended episodes that began in one hour or on one day.
type beganKey struct {
	kind Kind
	days bool
	step int64 // since 1970
}

// enterBegan adds an ended episode to its hour and its day, and forgets those
// that lie too far back.
func (s *shard) enterBegan(ep open, end End, length time.Duration) {
	s.latest = max(s.latest, ep.since)
	for _, days := range [...]bool{false, true} {
		step, kept := time.Hour, int64(HoursKept)
		if days {
			step, kept = 24*time.Hour, DaysKept
		}
		key := beganKey{kind: ep.kind, days: days, step: stepOfTime(ep.since, step)}
		oldest := stepOfTime(s.latest, step) - kept
		if key.step < oldest {
			continue
		}
		g := s.began[key]
		if g == nil {
			maps.DeleteFunc(s.began, func(k beganKey, _ *group) bool { return k.days == days && k.step < oldest })
			g = &group{}
			s.began[key] = g
		}
		g.add(end, length, ExactGroup)
	}
}

func (s *shard) saveBegan(out *wire.Writer) {
	out.Int(s.latest)
	keys := slices.SortedFunc(maps.Keys(s.began), func(a, b beganKey) int {
		x, y := 0, 0
		if a.days {
			x = 1
		}
		if b.days {
			y = 1
		}
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(x, y), cmp.Compare(a.step, b.step))
	})
	out.Uint(uint64(len(keys)))
	for _, key := range keys {
		out.Uint(uint64(key.kind))
		out.Bool(key.days)
		out.Int(key.step)
		s.began[key].reached.save(out)
		s.began[key].abandoned.save(out)
	}
}

func (s *shard) loadBegan(in *wire.Reader) {
	s.latest = in.Int()
	for n := in.Len(); n > 0 && in.Err() == nil; n-- {
		key := beganKey{kind: Kind(in.Uint()), days: in.Bool(), step: in.Int()}
		g := &group{}
		g.reached.load(in)
		g.abandoned.load(in)
		s.began[key] = g
	}
}
