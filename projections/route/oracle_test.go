package route_test

import (
	"fmt"
	"maps"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/projectiontest"
	"github.com/musterhq/muster/projections/route"
)

// answers asks the view for each want: all, a few, and how many there are.
func answers(_ *projectiontest.History, v projections.View) any {
	r := v.(*route.View)
	told := map[string]any{}
	for i, w := range wants {
		all, whole := r.Pick(w, route.MaxLimit)
		few, _ := r.Pick(w, 3)
		told[fmt.Sprint("want ", i)] = []any{texts(all), whole, texts(few)}
		told[fmt.Sprint("eligible ", i)] = r.Eligible(w.Do, w.Scope)
	}
	return told
}

// want asks the judge of each fold.
func want(h *projectiontest.History) any {
	used := map[domain.AccountID]int64{}
	for _, i := range h.Items {
		e := i.Event
		if (e.Trigger == "message_pending" || e.Trigger == "message_sent") && (e.Outcome == domain.Applied || e.Outcome == domain.Noop) {
			used[e.Account] = max(used[e.Account], e.At)
		}
	}
	told := map[string]any{}
	for i, w := range wants {
		all := plain(h, h.Folds, used, w)
		told[fmt.Sprint("want ", i)] = []any{texts(all), true, texts(all[:min(3, len(all))])}
		told[fmt.Sprint("eligible ", i)] = len(plain(h, h.Folds, used, route.Want{Do: w.Do, Scope: w.Scope}))
	}
	return told
}

func texts(list []route.Candidate) (lines []string) {
	for _, c := range list {
		labels := maps.Clone(c.Labels)
		if len(labels) == 0 {
			labels = nil
		}
		c.Labels = nil
		lines = append(lines, fmt.Sprintf("%+v %v", c, labels))
	}
	return lines
}
