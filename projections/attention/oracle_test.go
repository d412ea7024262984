package attention_test

import (
	"fmt"
	"maps"

	"github.com/musterhq/muster/domain"
	"github.com/musterhq/muster/projections"
	"github.com/musterhq/muster/projections/attention"
	"github.com/musterhq/muster/projections/projectiontest"
)

// oracleFilters are those of users: each kind, each source, labels, and several.
func oracleFilters() []attention.Filter {
	list := []attention.Filter{
		{}, {Labels: map[string]string{"pool": "eu"}}, {Labels: map[string]string{"pool": "eu", "tier": "gold"}},
		{Kind: "scan_qr", Labels: map[string]string{"pool": "ap=x"}}, {Kind: "login_needed", Source: "waha-1"}, {Kind: "no such kind"}, {Source: "nobody"},
	}
	for _, source := range []string{"waha-1", "waha-2", "evo-1", "cloud"} {
		list = append(list, attention.Filter{Source: source})
	}
	for _, kind := range domain.AttentionKinds() {
		list = append(list, attention.Filter{Kind: kind.Name})
	}
	return list
}

// answers asks the view everything: for every filter all pages of items and of
// incidents, joined, and how many of each kind there are.
func answers(_ *projectiontest.History, v projections.View) any {
	a := v.(*attention.View)
	told := map[string]any{"size": a.Size()}
	for i, f := range oracleFilters() {
		told[fmt.Sprint("items ", i)] = itemTexts(items(a, f, 1+6*(i%2)))
		told[fmt.Sprint("incidents ", i)] = incidentTexts(incidents(a, f, 1+4*(i%3)))
		page := a.Incidents(f, "", 1)
		told[fmt.Sprint("numbers ", i)] = []int{page.Items, page.All}
	}
	return told
}

// want works the same out by asking the judge after every event.
func want(h *projectiontest.History) any {
	m := newModel(h)
	last := make([]int64, h.Partitions)
	for _, i := range h.Items {
		if i.Damaged {
			m.damage(i.Event.Account, last[i.At.Partition])
		}
		m.apply(i.Event)
		last[i.At.Partition] = i.Event.Recorded
	}
	size := map[string]int{}
	for _, i := range m.list(attention.Filter{}) {
		size[i.Kind]++
	}
	told := map[string]any{"size": size}
	for i, f := range oracleFilters() {
		list, grouped := m.list(f), m.incidents(f)
		told[fmt.Sprint("items ", i)] = itemTexts(list)
		told[fmt.Sprint("incidents ", i)] = incidentTexts(grouped)
		told[fmt.Sprint("numbers ", i)] = []int{len(list), len(grouped)}
	}
	return told
}

func itemTexts(list []attention.Item) []string {
	texts := []string{}
	for _, i := range list {
		labels := maps.Clone(i.Labels)
		if len(labels) == 0 {
			labels = nil
		}
		i.Labels = nil
		texts = append(texts, fmt.Sprintf("%+v %v", i, labels))
	}
	return texts
}

func incidentTexts(list []plainIncident) []string {
	texts := []string{}
	for _, i := range list {
		texts = append(texts, fmt.Sprintf("%+v", i))
	}
	return texts
}
