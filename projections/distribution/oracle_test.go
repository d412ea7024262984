package distribution_test

import (
	"fmt"
	"time"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/distribution"
	"github.com/musterhq/muster/projections/projectiontest"
)

// moments are those of which the distribution is asked: some of the last day, by
// the minute, and some before, by the hour.
func moments(h *projectiontest.History) (list []int64) {
	for _, ago := range []time.Duration{
		0, time.Second, 90 * time.Second, 10 * time.Minute, time.Hour, 7*time.Hour + 30*time.Minute, 23 * time.Hour, 25 * time.Hour, 60 * time.Hour, 80 * 24 * time.Hour,
	} {
		list = append(list, h.End-int64(ago))
	}
	return list
}

var labelKeys = []string{"pool", "tier", "none", "no such label"}

// answers asks the view everything: now, by label, at past times, and both
// histories whole.
func answers(h *projectiontest.History, v projections.View) any {
	d := v.(*distribution.View)
	told := map[string]any{"now": d.Now(), "keys": d.LabelKeys()}
	for _, key := range labelKeys {
		told["by "+key] = d.ByLabel(key)
	}
	for _, step := range []distribution.Step{distribution.ByMinute, distribution.ByHour} {
		told[fmt.Sprint("history ", step)] = changesOf(d.History(step, h.End))
	}
	for i, at := range moments(h) {
		counts, ok := d.At(at, h.End)
		told[fmt.Sprint("at ", i)] = []any{counts, ok}
	}
	return told
}

// changesOf tells a history in fewer lines: where it begins and how long it is, and
// each series as the buckets at which its count changes. A state in which nobody was
// in all that time tells nothing.
func changesOf(h distribution.History) any {
	series, buckets := map[string][]string{}, 0
	for _, s := range h.Series {
		buckets = len(s.Counts)
		series[s.Machine+" "+s.State] = levels(s.Counts)
		if len(series[s.Machine+" "+s.State]) == 0 {
			delete(series, s.Machine+" "+s.State)
		}
	}
	if len(series) == 0 {
		return nil
	}
	return []any{h.Start, buckets, series}
}

func levels(counts []int64) (changes []string) {
	last := int64(0)
	for i, n := range counts {
		if n != last {
			changes = append(changes, fmt.Sprint(i, ":", n))
		}
		last = n
	}
	return changes
}

// want works the same out: what is now from the folds, what was from each
// account's changes of state.
func want(h *projectiontest.History) any {
	told := map[string]any{"now": count(h, h.Folds, "", ""), "keys": keysOf(h)}
	for _, key := range labelKeys {
		values := map[string]distribution.Counts{}
		for _, a := range h.Folds {
			value, has := a.Labels[key]
			if has && !a.Forgotten {
				values[value] = count(h, h.Folds, key, value)
			}
		}
		told["by "+key] = values
	}
	all := changes(h.Items)
	past := map[distribution.Step]plainHistory{
		distribution.ByMinute: historyOf(h, all, 1, distribution.MinutesKept),
		distribution.ByHour:   historyOf(h, all, 60, distribution.HoursKept),
	}
	for step, p := range past {
		told[fmt.Sprint("history ", step)] = changesOf(p.History)
	}
	for i, at := range moments(h) {
		told[fmt.Sprint("at ", i)] = []any{distribution.Counts{}, false}
		for _, step := range []distribution.Step{distribution.ByHour, distribution.ByMinute} { // the finer one, if it has it
			if p := past[step]; at >= p.Start && len(p.Series) > 0 {
				told[fmt.Sprint("at ", i)] = []any{p.at(h, at), true}
			}
		}
	}
	return told
}

func keysOf(h *projectiontest.History) map[string]int {
	keys := map[string]int{}
	for _, a := range h.Folds {
		for k := range a.Labels {
			if !a.Forgotten {
				keys[k]++
			}
		}
	}
	return keys
}

// plainHistory is a history that was counted the plain way.
type plainHistory struct {
	distribution.History
	width int64
}

// historyOf counts at the end of every bucket up to that of the history's end.
func historyOf(h *projectiontest.History, all map[domain.AccountID][]change, minutesPerBucket, kept int64) plainHistory {
	width := minutesPerBucket * int64(time.Minute)
	to := h.End / width
	// Buckets are kept up to the newest event of a partition. Its time can be up to
	// five minutes ahead, and what is pushed out by that is not told.
	from := to - kept + 1
	for p := range h.Partitions {
		newest := int64(-1)
		for _, i := range h.Items {
			for _, c := range all[i.Event.Account] {
				if i.At.Partition == p {
					newest = max(newest, c.minute/minutesPerBucket)
				}
			}
		}
		if newest >= 0 {
			from = max(from, newest-kept+1)
		}
	}
	p := plainHistory{width: width, History: distribution.History{Start: from * width}}
	series := map[string]*distribution.Series{}
	changed := map[int64]bool{from: true}
	for _, list := range all {
		for _, c := range list {
			changed[c.minute/minutesPerBucket] = true
		}
	}
	var counts map[string]int64
	for bucket := from; bucket <= to; bucket++ {
		if changed[bucket] {
			counts = at(all, bucket, minutesPerBucket)
		}
		for name, n := range counts {
			if series[name] == nil {
				s := &distribution.Series{Counts: make([]int64, to-from+1)}
				_, _ = fmt.Sscan(name, &s.Machine, &s.State)
				series[name] = s
			}
			series[name].Counts[bucket-from] = n
		}
	}
	for _, s := range series {
		p.Series = append(p.Series, *s)
	}
	return p
}

// at counts as of a time.
func (p *plainHistory) at(h *projectiontest.History, t int64) distribution.Counts {
	c := distribution.Counts{States: map[string]int{}, Classes: map[string]int{}, ByMachine: map[string]map[string]int{}}
	for _, s := range p.Series {
		n := int(s.Counts[(t-p.Start)/p.width])
		if n == 0 {
			continue
		}
		c.Accounts += n
		c.States[s.State] += n
		if c.ByMachine[s.Machine] == nil {
			c.ByMachine[s.Machine] = map[string]int{}
		}
		c.ByMachine[s.Machine][s.State] += n
		c.Classes[h.Judge.Class(&domain.Account{Machine: s.Machine, State: s.State})] += n
	}
	return c
}
