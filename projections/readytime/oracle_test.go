package readytime_test

import (
	"fmt"
	"time"

	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/readytime"
)

var kinds = []readytime.Kind{readytime.Onboarding, readytime.Recovery}

// answers asks the view for the estimates of all, of each window and of each group
// of each dimension, at the history's end and a while later.
func answers(h *projectiontest.History, v projections.View) any {
	r := v.(*readytime.View)
	told := map[string]any{}
	for _, kind := range kinds {
		told[fmt.Sprint(kind, " open")] = r.Open(kind)
		for _, later := range []time.Duration{0, time.Hour} {
			now := h.End + int64(later)
			told[fmt.Sprint(kind, " at ", later)] = figures(r.Estimate(kind, now))
			for _, by := range dimensions {
				for name, e := range r.By(kind, by, now) {
					told[fmt.Sprint(kind, " by ", by, " ", name, " at ", later)] = figures(e)
				}
			}
		}
		for _, d := range windows {
			told[fmt.Sprint(kind, " within ", d)] = figures(r.Within(kind, readytime.Last(d, h.End), h.End))
		}
	}
	return told
}

// figures are an estimate as text.
func figures(e readytime.Estimate) string {
	band := func(q readytime.Quantile) [3]*float64 { return [3]*float64{q.Seconds, q.Low, q.High} }
	return figuresText(projectiontest.Figures{
		Reached: e.Reached, Abandoned: e.Abandoned, Open: e.Open, Mean: e.Mean, Median: band(e.Median), P90: band(e.P90), P99: band(e.P99),
	})
}

func plainFigures(list []projectiontest.Episode) string {
	return figuresText(projectiontest.FiguresOf(list))
}

// figuresText rounds the mean to what a plain sum of floating point numbers is good
// for; the quantiles are lengths of episodes, to the nanosecond.
func figuresText(f projectiontest.Figures) string {
	text := fmt.Sprint(f.Reached, " reached, ", f.Abandoned, " abandoned, ", f.Open, " open, mean ")
	if f.Mean != nil {
		text += fmt.Sprintf("%.5f", *f.Mean)
	}
	for _, q := range [][3]*float64{f.Median, f.P90, f.P99} {
		for _, s := range q {
			if s == nil {
				text += " -"
				continue
			}
			text += fmt.Sprint(" ", *s)
		}
	}
	return text
}

// want finds the episodes account by account, and fits the plain lists of them.
func want(h *projectiontest.History) any {
	told := map[string]any{}
	all := h.Episodes()
	for _, kind := range kinds {
		open := 0
		for _, e := range ofKind(all, kind, 0) {
			if e.How == "open" {
				open++
			}
		}
		told[fmt.Sprint(kind, " open")] = open
		for _, later := range []time.Duration{0, time.Hour} {
			list := ofKind(all, kind, 0)
			groups := map[string][]projectiontest.Episode{}
			for i := range list {
				if list[i].How == "open" {
					list[i].End += int64(later)
				}
				for _, by := range dimensions {
					for _, name := range names(&list[i], by) {
						group := fmt.Sprint(kind, " by ", by, " ", name, " at ", later)
						groups[group] = append(groups[group], list[i])
					}
				}
			}
			told[fmt.Sprint(kind, " at ", later)] = plainFigures(list)
			for group, members := range groups {
				told[group] = plainFigures(members)
			}
		}
		for _, d := range windows {
			told[fmt.Sprint(kind, " within ", d)] = plainFigures(ofKind(all, kind, beginning(d, h.End)))
		}
	}
	return told
}
